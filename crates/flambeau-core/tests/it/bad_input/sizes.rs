//! Sizes whose product or byte count overflows, or that no machine has.

use super::*;

#[test]
fn huge_sizes() {
    cases! {
        Set::new, t;
        "empty, product", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 4]"
            => ops::empty(&[HUGE, 4], None, None, None, None, None);
        "empty, bytes", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904]"
            => ops::empty(&[HUGE], None, None, None, None, None);
        "empty, no such memory", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes."
            => ops::empty(&[1 << 50], None, None, None, None, None);
        "empty, one size is 0", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 4611686018427387904, 1, 4611686018427387904, 0]"
            => ops::empty(&[1, HUGE, 1, HUGE, 0], None, None, None, None, None);
        "empty on meta", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 4]"
            => ops::empty(&[HUGE, 4], None, None, Some(Device::Meta), None, None);
        "empty_strided", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2]"
            => ops::empty_strided(&[2], &[HUGE], None, None, None, None);
        "zeros", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 4611686018427387904]"
            => ops::zeros(&[HUGE, HUGE], None, None, None, None);
        "zeros, no such memory", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes."
            => ops::zeros(&[1 << 50], None, None, None, None);
        "ones", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2147483648, 2147483648, 4]"
            => ops::ones(&[1 << 31, 1 << 31, 4], None, None, None, None);
        "full", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 144115188075855872 bytes."
            => ops::full(&[1 << 55], 1.0.into(), None, None, None, None);
        "eye", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]"
            => ops::eye(1 << 40, None, None, None, None);
        "arange", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904]"
            => ops::arange(HUGE.into(), None, None, None, None);
        "arange, no such memory", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 281474976710656 bytes."
            => ops::arange((1i64 << 45).into(), None, None, None, None);
        "arange, tiny step", Runtime,
            "invalid size, possible overflow?"
            => ops::arange_step(0.0.into(), 1.0.into(), 1e-300.into(), None, None, None, None);
        "arange to infinity", Runtime,
            "unsupported range: 0 -> inf"
            => ops::arange(f64::INFINITY.into(), None, None, None, None);
        "arange of nan", Runtime,
            "unsupported range: 0 -> nan"
            => ops::arange(f64::NAN.into(), None, None, None, None);
        "arange over all", Runtime,
            "invalid size, possible overflow?"
            => ops::arange_start(i64::MIN.into(), i64::MAX.into(), None, None, None, None);
        "linspace", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904]"
            => ops::linspace(0.into(), 1.into(), HUGE, None, None, None, None);
        "logspace", OutOfMemory,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate"
            => ops::logspace(0.into(), 1.into(), 1 << 45, 10.0, None, None, None, None);
        "randperm", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904]"
            => ops::randperm(HUGE, None, None, None, None, None);
        "randperm, no such memory", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8796093022208 bytes."
            => ops::randperm(1 << 40, None, None, None, None, None);
        "randint", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 2]"
            => ops::randint(5, &[HUGE, 2], None, None, None, None, None);
        "rand", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 2]"
            => ops::rand(&[HUGE, 2], None, None, None, None, None);
        "tril_indices", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2, 604462909807864343166976]"
            => ops::tril_indices(1 << 40, 1 << 40, 0, None, None, None, None);
        "triu_indices, product", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2, 2305843010287435776]"
            => ops::triu_indices(1 << 33, 1 << 31, 0, None, None, None, None);
        "new_empty", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 9]"
            => ops::new_empty(&t.x, &[HUGE, 9], None, None, None, None);
        "repeat", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2199023255552, 3298534883328]"
            => ops::repeat(&t.x, &[1 << 40, 1 << 40]);
        "repeat, no such memory", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 844424930131968 bytes."
            => ops::repeat(&t.x, &[1 << 45, 1]);
        "tile", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2199023255552, 3298534883328]"
            => ops::tile(&t.x, &[1 << 40, 1 << 40]);
        "repeat_interleave", OutOfMemory,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate"
            => ops::repeat_interleave_int(&t.x, 1 << 50, Some(0), None);
        "repeat_interleave, product", Shape,
            "numel: integer multiplication overflow"
            => ops::repeat_interleave_int(&t.x, HUGE, Some(0), None);
        "expand", Shape, "numel: integer multiplication overflow" => ops::expand(&t.one, &[HUGE, 4], false);
        "expand, then copied", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904]"
            => ops::clone(&ops::expand(&t.one, &[HUGE], false)?, None);
        "expand, no such memory", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 140737488355328 bytes."
            => ops::clone(&ops::expand(&t.one, &[1 << 45], false)?, None);
        "add on a wide view", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 140737488355328 bytes."
            => ops::add(&ops::expand(&t.one, &[1 << 45], false)?, &t.one, 1.into());
        "outer of wide views", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]"
            => ops::outer(&t.wide, &t.wide);
        "kron of wide views", OutOfMemory,
            "Storage size calculation overflowed: 1099511627776 * 1099511627776"
            => ops::kron(&t.wide, &t.wide);
        "cat of wide views", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8796093022208 bytes."
            => ops::cat(&[t.wide.clone(), t.wide.clone()], 0);
        "stack of wide views", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8796093022208 bytes."
            => ops::stack(&[t.wide.clone(), t.wide.clone()], 0);
        "cartesian_prod of wide views", Shape,
            "numel: integer multiplication overflow"
            => ops::cartesian_prod(&[t.wide.clone(), t.wide.clone()]);
        "meshgrid of wide views", Shape,
            "numel: integer multiplication overflow"
            => ops::meshgrid(&[t.wide.clone(), t.wide.clone()], "ij");
        "block_diag of wide views", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1099511627777, 1099511627777]"
            => ops::block_diag(&[ops::view(&t.wide, &[1, -1])?, ops::view(&t.wide, &[-1, 1])?]);
        "broadcast_to", Shape,
            "numel: integer multiplication overflow"
            => ops::broadcast_to(&t.one, &[HUGE, HUGE]);
        "as_strided beyond the storage", Storage,
            "setStorage: sizes [7], strides [1], storage offset 0, and itemsize 4 requiring a storage size of 28 are out of bounds for storage of size 24"
            => ops::as_strided(&t.x, &[7], &[1], None);
        "as_strided, far beyond", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904] and strides=[1]"
            => ops::as_strided(&t.x, &[HUGE], &[1], None);
        "as_strided, everything", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 4611686018427387904] and strides=[4611686018427387904, 4611686018427387904]"
            => ops::as_strided(&t.x, &[HUGE, HUGE], &[HUGE, HUGE], None);
        "as_strided, offset", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1] and strides=[1]"
            => ops::as_strided(&t.x, &[1], &[1], Some(i64::MAX));
        "view", Shape,
            "shape '[4611686018427387904, 4]' is invalid for input of size 6"
            => ops::view(&t.x, &[HUGE, 4]);
        "reshape", Shape,
            "shape '[4611686018427387904, -1]' is invalid for input of size 6"
            => ops::reshape(&t.x, &[HUGE, -1]);
        "unflatten", Runtime,
            "unflatten: Provided sizes [4611686018427387904, 4] don't multiply up to the size of dim 0 (2) in the input tensor"
            => ops::unflatten(&t.x, 0, &[HUGE, 4]);
        "diag_embed", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2, 1099511627779, 1099511627779]"
            => ops::diag_embed(&t.x, 1 << 40, -2, -1);
        "diag", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1099511627777, 1099511627777]"
            => ops::diag(&t.one, 1 << 40);
        "bincount", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 288230376151711752 bytes."
            => ops::bincount(&ints(&[1 << 55]), None, 0);
        "bincount, largest value", Runtime,
            "maximum value of input overflowed, it should be < 9223372036854775807 but got 9223372036854775807"
            => ops::bincount(&ints(&[i64::MAX]), None, 0);
        "bincount, minlength", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904]"
            => ops::bincount(&t.n, None, HUGE);
        "histc", OutOfMemory,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate"
            => ops::histc(&t.one, 1 << 40, 0.into(), 0.into());
        "unfold", Runtime,
            "maximum size for tensor at dimension 0 is 2 but size is 4611686018427387904"
            => ops::unfold(&t.x, 0, HUGE, 1);
        "nonzero_static", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 18014398509481984 bytes."
            => ops::nonzero_static(&t.x, 1 << 50, -1);
        "narrow", Runtime,
            "start (1) + length (9223372036854775807) exceeds dimension size (2)."
            => ops::narrow(&t.x, 0, 1, i64::MAX);
        "mvlgamma", OutOfMemory,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate"
            => ops::mvlgamma(&t.x, 1 << 45);
        "multinomial", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 281474976710656 bytes."
            => ops::multinomial(&t.ones, 1 << 45, true, None);
        "normal", OutOfMemory,
            "Storage size calculation overflowed with sizes=[4611686018427387904, 2]"
            => ops::normal_float_float(0.0, 1.0, &[HUGE, 2], None, None, None, None, None);
    }
}
