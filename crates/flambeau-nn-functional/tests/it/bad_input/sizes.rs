//! Sizes whose product or byte count overflows, or that no machine has.

use super::*;

#[test]
fn huge_sizes() {
    cases! {
        Set::new, t;
        "pad, product", Runtime,
            "The input size 3, plus negative padding 4611686018427387904 and 4611686018427387904 resulted in a negative output size, which is invalid. Check dimension 1 of your input."
            => ops::pad(&t.x, &[HUGE, HUGE], "constant", None);
        "pad", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 281474976710680 bytes."
            => ops::pad(&t.x, &[1 << 45, 0], "constant", None);
        "pad, replicate", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 281474976710680 bytes."
            => ops::pad(&t.x3, &[1 << 45, 0], "replicate", None);
        "pad, reflect", Runtime,
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (4611686018427387904, 4611686018427387904) at"
            => ops::pad(&t.x3, &[HUGE, HUGE], "reflect", None);
        "pad, circular", Runtime,
            "Padding value causes wrapping around more than once."
            => ops::pad(&t.x3, &[HUGE, HUGE], "circular", None);
        "unfold, kernel", Runtime,
            "Given input with spatial size (4, 4), kernel_size=(4611686018427387904, 4611686018427387904), dilation=(1, 1), padding=(0, 0), calculated shape of"
            => ops::unfold(&t.img, &[HUGE], &[1], &[0], &[1]);
        "unfold, padding", OutOfMemory,
            "Storage size calculation overflowed: 2199023255555 * 2199023255555"
            => ops::unfold(&t.img, &[2], &[1], &[1 << 40], &[1]);
        "fold, output", Runtime,
            "Given output_size=(1099511627776, 1099511627776), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), stride=(1, 1), expected size of input's dimension 2"
            => ops::fold(&f32s(&[1, 4, 9]), &[1 << 40, 1 << 40], &[2], &[1], &[0], &[1]);
        "conv2d, padding", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 2, 2199023255554, 2199023255554]"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[1 << 40], &[1], 1, "zeros");
        "conv2d, all of the padding", Runtime,
            "Given padding=4611686018427387904 at dimension 0 , expected padding to be at most 4611686018427387903"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[HUGE], &[1], 1, "zeros");
        "conv2d, dilation", Runtime,
            "convolution: dilation is too large"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[0], &[HUGE], 1, "zeros");
        "conv_transpose2d, stride", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 2, 3298534883331, 3298534883331]"
            => ops::conv_transpose2d(&t.img, &t.w, None, &[1 << 40], &[0], &[0], 1, &[1]);
        "max_pool2d, kernel", Runtime,
            "value cannot be converted to type int without overflow"
            => ops::max_pool2d(&t.img, &[HUGE], None, &[0], &[1], false, false);
        "max_pool2d, dilation", Runtime,
            "value cannot be converted to type int without overflow"
            => ops::max_pool2d(&t.img, &[2], None, &[0], &[HUGE], false, false);
        "max_pool2d, padding", Runtime,
            "value cannot be converted to type int without overflow"
            => ops::max_pool2d(&t.img, &[2], None, &[1 << 40], &[1], false, false);
        "avg_pool2d, stride", Runtime,
            "value cannot be converted to type int without overflow"
            => ops::avg_pool2d(&t.img, &[2], Some(&[HUGE]), &[0], false, true, None);
        "avg_pool3d, kernel", Runtime,
            "value cannot be converted to type int without overflow"
            => ops::avg_pool3d(&t.img, &[1 << 33], None, &[0], false, true, None);
        "adaptive_avg_pool2d", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 2, 1099511627776, 1099511627776]"
            => ops::adaptive_avg_pool2d(&t.img, &[1 << 40]);
        "adaptive_max_pool2d", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 2, 1099511627776, 1099511627776]"
            => ops::adaptive_max_pool2d(&t.img, &[1 << 40], false);
        "max_unpool2d", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 2, 8589934592, 8589934592]"
            => ops::max_unpool2d(&t.img, &t.places, &[1 << 31], None, &[0], None);
        "interpolate, size", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 2, 1099511627776, 1099511627776]"
            => ops::interpolate(&t.img, Some(&[1 << 40, 1 << 40]), None, "nearest", None, None, false);
        "interpolate, factor", Runtime,
            "value cannot be converted to type int64_t without overflow"
            => ops::interpolate_by(&t.img, None, Some(1e30), "nearest", None, None, false);
        "interpolate, factor nan", Runtime,
            "value cannot be converted to type int64_t without overflow"
            => ops::interpolate_by(&t.img, None, Some(f64::NAN), "nearest", None, None, false);
        "pixel_shuffle", Value,
            "upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor=4294967296"
            => ops::pixel_shuffle(&t.img, 1 << 32);
        "one_hot", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8796093022216 bytes."
            => ops::one_hot(&ints(&[1 << 40]), -1);
        "one_hot, largest", Runtime,
            "zeros: Dimension size must be non-negative."
            => ops::one_hot(&ints(&[i64::MAX]), -1);
        "one_hot, classes", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 18014398509481984 bytes."
            => ops::one_hot(&t.n, 1 << 50);
        "affine_grid", OutOfMemory,
            "Storage size calculation overflowed with sizes=[1, 1099511627776, 1099511627776, 3]"
            => ops::affine_grid(&f32s(&[1, 2, 3]), &[1, 1, 1 << 40, 1 << 40], Some(false));
        "embedding_dense_backward", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 13510798882111488 bytes."
            => ops::embedding_dense_backward(&t.x, &t.n, 1 << 50, -1, false);
        "local_response_norm", OutOfMemory,
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 72057594037928000 bytes."
            => ops::local_response_norm(&t.img, 1 << 50, 1e-4, 0.75, 1.0);
    }
}
