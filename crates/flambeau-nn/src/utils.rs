//! `torch.nn.utils`.

pub mod rnn;
