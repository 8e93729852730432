//~ without tensorboard
//~ found an item that was configured out
//~ the item is gated behind the `tensorboard` feature
pub fn f() {
    let _ = torch::utils::tensorboard::SummaryWriter::new("runs");
}
