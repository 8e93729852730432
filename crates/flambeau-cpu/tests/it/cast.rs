//! Conversions between element types.

use flambeau_cpu::DType;
use flambeau_cpu::copy::cast::cast_loop;

fn cast<A: Copy, B: Copy + Default>(from: DType, to: DType, x: &[A]) -> Vec<B> {
    let mut out = vec![B::default(); x.len()];
    let run = cast_loop(from, to).unwrap();
    let ptrs = [out.as_mut_ptr().cast::<u8>(), x.as_ptr() as *mut u8];
    // SAFETY: dense runs of the dtypes' elements.
    unsafe {
        run.call(
            ptrs.as_ptr(),
            [size_of::<B>() as isize, size_of::<A>() as isize].as_ptr(),
            x.len(),
            std::ptr::null(),
            0,
        )
    };
    out
}

#[test]
fn floats_to_integers_as_x86() {
    let x = [1.9f32, -1.9, 300.0, -1.0, f32::NAN, 1e20];
    assert_eq!(cast::<f32, i32>(DType::F32, DType::I32, &x), [1, -1, 300, -1, i32::MIN, i32::MIN]);
    assert_eq!(cast::<f32, i64>(DType::F32, DType::I64, &x)[4..], [i64::MIN, i64::MIN]);
    assert_eq!(cast::<f32, u8>(DType::F32, DType::U8, &x)[..4], [1, 255, 44, 255]);
    assert_eq!(cast::<f32, u8>(DType::F32, DType::Bool, &[0.0, -0.0, f32::NAN, 0.1]), [0, 0, 1, 1]);
}

#[test]
fn every_unquantized_pair_has_a_loop() {
    for a in flambeau_dtype::ALL_DTYPES {
        for b in flambeau_dtype::ALL_DTYPES {
            let want = a == b || !(a.is_quantized() || b.is_quantized());
            assert_eq!(cast_loop(a, b).is_some(), want, "{a} {b}");
        }
    }
}
