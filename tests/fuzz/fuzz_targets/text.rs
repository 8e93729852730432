//! Functions that take a text apart: devices, schemas, expressions, equations, patterns, addresses. The first byte says which.
#![no_main]

use torch::distributed::elastic::{self, events::Event};
use torch::fx::symbolic::Expr;
use torch::library::{Library, LibraryKind};
use torch::{DType, Device, Generator, Tensor, ops};

fn ones(sizes: &[i64]) -> Tensor {
    Tensor::from_vec(vec![1f32; sizes.iter().product::<i64>() as usize], sizes)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match kind % 14 {
        0 => drop(Device::parse(text)),
        1 => {
            if let Ok(mut library) = Library::new("fuzz", LibraryKind::Fragment) {
                let _ = library.define(text);
            }
        }
        2 => {
            if let Ok(e) = Expr::parse(text) {
                let again = Expr::parse(&e.to_string());
                let _ = (again, e.evaluate(&Default::default()), e.solve(7));
            }
        }
        3 => drop(ops::einsum(text, &[ones(&[2, 3])], None)),
        4 => drop(ops::einsum(text, &[ones(&[2, 3]), ones(&[3, 2])], None)),
        5 => drop(torch::func::try_rearrange(&ones(&[2, 3, 4]), text, &[("a", 2), ("b", 2)])),
        6 => drop((elastic::parse_min_max_nnodes(text), elastic::determine_local_world_size(text))),
        7 => drop(elastic::parse_rendezvous_endpoint(text, 29400)),
        8 => drop(elastic::parse_rendezvous_config(text)),
        9 => {
            if let Ok(e) = Event::deserialize(text) {
                let written = e.serialize();
                assert!(Event::deserialize(&written).is_ok(), "{written}");
            }
        }
        10 => drop(DType::from_name(text)),
        11 => drop(torch::library::call(text, &[ones(&[2]).into()], &[])),
        12 => drop(Library::new(text, LibraryKind::Def)),
        _ => {
            let g = Generator::new();
            let state = Tensor::from_vec(bytes.to_vec(), [bytes.len() as i64]);
            let _ = g.set_state(&state);
        }
    }
});
