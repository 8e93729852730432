//! Indexing: results and error texts are PyTorch's own.

#![allow(clippy::reversed_empty_ranges)] // an end of -1 counts from the end

use flambeau_core::functions as f;
use flambeau_core::generated::options::*;
use flambeau_core::{B8, DType, Ellipsis, NewAxis, Result, Slice, Tensor};

fn t(v: &[i64]) -> Tensor {
    Tensor::from_slice(v, [v.len()])
}
fn t2(v: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(v, sizes)
}
fn mask(v: &[bool]) -> Tensor {
    Tensor::from_vec(v.iter().map(|b| B8::from(*b)).collect::<Vec<_>>(), [v.len()])
}
fn ones(sizes: &[i64]) -> Tensor {
    f::ones(sizes)
}
#[allow(clippy::type_complexity)]
fn operands() -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) {
    let x = t2(&(0..24).collect::<Vec<_>>(), &[2, 3, 4]);
    let mm = mask(&[true, false, true, false, false, true]).view([2, 3]);
    let (c, z) = (t2(&[2, -1], &[2, 1]), t2(&[2], &[]));
    (x, t(&[1, 0]), t(&[0, 2]), c, mask(&[true, false]), mask(&[true, false, false, true]), mm, z, t(&[]))
}
fn x23() -> Tensor {
    t2(&[0, 1, 2, 3, 4, 5], &[2, 3]).to(DType::F32)
}
fn float_operands() -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) {
    let count = |n: i64, by: f32| (0..n).map(|i| i as f32 * by).collect::<Vec<f32>>();
    let x = Tensor::from_vec(count(12, 1.), [3, 4]);
    let odd = Tensor::from_vec((0..12).map(|i| B8::from(i % 2 == 1)).collect::<Vec<_>>(), [3, 4]);
    let idx = t2(&[0, 2, 1, 0, 2, 2, 0, 1], &[2, 4]);
    let s = Tensor::from_vec((1..9).map(|i| i as f32).collect::<Vec<f32>>(), [2, 4]);
    (x, idx, s, t(&[2, 0]), Tensor::from_vec(count(8, 10.), [2, 4]), odd)
}
#[track_caller]
fn same(got: Tensor, sizes: &[i64], want: &[i64]) {
    assert_eq!((got.sizes(), got.to_vec::<i64>()), (sizes, want.to_vec()));
}
#[track_caller]
fn close(got: Tensor, sizes: &[i64], want: &[f64]) {
    assert_eq!(got.sizes(), sizes);
    for (g, w) in got.to_vec::<f64>().iter().zip(want) {
        assert!((g - w).abs() <= 1e-6 * w.abs(), "{got} is not {want:?}");
    }
}
#[track_caller]
fn text(r: Result<Tensor>, want: &str) {
    match r {
        Ok(x) => panic!("gave {x}"),
        Err(e) => assert_eq!(e.message(), want),
    }
}

#[test]
fn reading_is_pythons() {
    let (x, a, b, c, m, r, mm, z, e) = operands();
    same(x.i(0), &[3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]); // x[0]
    same(x.i(-1), &[3, 4], &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]); // x[-1]
    same(x.i((1, 2)), &[4], &[20, 21, 22, 23]); // x[1,2]
    same(x.i((.., 1..3)), &[2, 2, 4], &[4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]); // x[:,1:3]
    same(x.i((0, .., 1..3)), &[3, 2], &[1, 2, 5, 6, 9, 10]); // x[0,:,1:3]
    same(x.i((Ellipsis, 1)), &[2, 3], &[1, 5, 9, 13, 17, 21]); // x[...,1]
    same(x.i((Ellipsis, Slice::step(2))), &[2, 3, 2], &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]); // x[...,::2]
    same(x.i((None, 0)), &[1, 3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]); // x[None,0]
    same(x.i((.., NewAxis, 1)), &[2, 1, 4], &[4, 5, 6, 7, 16, 17, 18, 19]); // x[:,None,1]
    same(x.i((.., .., -2..)), &[2, 3, 2], &[2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23]); // x[:,:,-2:]
    same(x.i((.., ..=1, ..-1)), &[2, 2, 3], &[0, 1, 2, 4, 5, 6, 12, 13, 14, 16, 17, 18]); // x[:,:2,:-1]
    same(
        x.i((.., 0..=-1)),
        &[2, 3, 4],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    ); // x[:,0:]
    same(x.i(Slice::new(5, None, 1)), &[0, 3, 4], &[]); // x[5:]
    same(
        x.i(true),
        &[1, 2, 3, 4],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    ); // x[True]
    same(x.i(false), &[0, 2, 3, 4], &[]); // x[False]
    same(x.i((1, true, 2)), &[1, 4], &[20, 21, 22, 23]); // x[1,True,2]
    same(
        x.i(&a),
        &[2, 3, 4],
        &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    ); // x[a]
    same(x.i((.., &a)), &[2, 2, 4], &[4, 5, 6, 7, 0, 1, 2, 3, 16, 17, 18, 19, 12, 13, 14, 15]); // x[:,a]
    same(x.i((&a, .., &b)), &[2, 3], &[12, 16, 20, 2, 6, 10]); // x[a,:,b]
    same(x.i((&a, &b)), &[2, 4], &[12, 13, 14, 15, 8, 9, 10, 11]); // x[a,b]
    same(x.i((.., &a, &b)), &[2, 2], &[4, 2, 16, 14]); // x[:,a,b]
    same(x.i((0, .., &b)), &[3, 2], &[0, 2, 4, 6, 8, 10]); // x[0,:,b]
    same(x.i((&m, 1)), &[1, 4], &[4, 5, 6, 7]); // x[m,1]
    same(x.i(&m), &[1, 3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]); // x[m]
    same(x.i((.., .., &r)), &[2, 3, 2], &[0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23]); // x[:,:,r]
    same(x.i(&mm), &[3, 4], &[0, 1, 2, 3, 8, 9, 10, 11, 20, 21, 22, 23]); // x[mm]
    same(x.i((.., &c)), &[2, 2, 1, 4], &[8, 9, 10, 11, 8, 9, 10, 11, 20, 21, 22, 23, 20, 21, 22, 23]); // x[:,c]
    same(x.i((.., None, &b, Slice::step(3))), &[2, 1, 2, 2], &[0, 3, 8, 11, 12, 15, 20, 23]); // x[:,None,b,::3]
    same(
        x.i(vec![1, 0, 1]),
        &[3, 3, 4],
        &[
            12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
            15, 16, 17, 18, 19, 20, 21, 22, 23,
        ],
    ); // x[[1,0,1]]
    same(x.i((.., vec![2, 0])), &[2, 2, 4], &[8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15]); // x[:,[2,0]]
    same(x.i((.., &z)), &[2, 4], &[8, 9, 10, 11, 20, 21, 22, 23]); // x[:,z]
    same(x.i(&e), &[0, 3, 4], &[]); // x[e]
    same(x.i((Ellipsis, &b, &b)), &[2, 2], &[0, 10, 12, 22]); // x[...,b,b]
}

#[test]
fn writing_is_pythons() {
    let (_, a, b, c, m, r, mm, z, _) = operands();
    let x = operands().0;
    x.set_i(0, 7); // x[0]=7
    same(
        x,
        &[2, 3, 4],
        &[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    );
    let x = operands().0;
    x.set_i((.., 1), t(&[1, 2, 3, 4])); // x[:,1]=L([1,2,3,4])
    same(x, &[2, 3, 4], &[0, 1, 2, 3, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2, 3, 4, 20, 21, 22, 23]);
    let x = operands().0;
    x.set_i((.., .., 1..3), t2(&[9, 8, 7], &[3, 1])); // x[:,:,1:3]=L([[9],[8],[7]])
    same(x, &[2, 3, 4], &[0, 9, 9, 3, 4, 8, 8, 7, 8, 7, 7, 11, 12, 9, 9, 15, 16, 8, 8, 19, 20, 7, 7, 23]);
    let x = operands().0;
    x.set_i(&m, 5); // x[m]=5
    same(
        x,
        &[2, 3, 4],
        &[5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    );
    let x = operands().0;
    x.set_i(&mm, t(&[1, 2, 3, 4])); // x[mm]=L([1,2,3,4])
    same(x, &[2, 3, 4], &[1, 2, 3, 4, 4, 5, 6, 7, 1, 2, 3, 4, 12, 13, 14, 15, 16, 17, 18, 19, 1, 2, 3, 4]);
    let x = operands().0;
    x.set_i((.., .., &r), -1); // x[:,:,r]=-1
    same(
        x,
        &[2, 3, 4],
        &[-1, 1, 2, -1, -1, 5, 6, -1, -1, 9, 10, -1, -1, 13, 14, -1, -1, 17, 18, -1, -1, 21, 22, -1],
    );
    let x = operands().0;
    x.set_i((&a, &b), t2(&[5, 6], &[2, 1])); // x[a,b]=L([[5],[6]])
    same(x, &[2, 3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 6, 6, 6, 6, 5, 5, 5, 5, 16, 17, 18, 19, 20, 21, 22, 23]);
    let x = operands().0;
    x.set_i((.., &a, 3), t(&[40, 41])); // x[:,a,3]=L([40,41])
    same(
        x,
        &[2, 3, 4],
        &[0, 1, 2, 41, 4, 5, 6, 40, 8, 9, 10, 11, 12, 13, 14, 41, 16, 17, 18, 40, 20, 21, 22, 23],
    );
    let x = operands().0;
    x.set_i((&t2(&[1, -1], &[2, 1]), &b), 3); // x[L([[1],[-1]]),b]=3
    same(x, &[2, 3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 3, 3, 3, 16, 17, 18, 19, 3, 3, 3, 3]);
    let x = operands().0;
    x.set_i((Ellipsis, 0), 2.9); // x[...,0]=2.9
    same(x, &[2, 3, 4], &[2, 1, 2, 3, 2, 5, 6, 7, 2, 9, 10, 11, 2, 13, 14, 15, 2, 17, 18, 19, 2, 21, 22, 23]);
    let x = operands().0;
    x.set_i(&mm, 2.9); // x[mm]=2.9
    same(x, &[2, 3, 4], &[2, 2, 2, 2, 4, 5, 6, 7, 2, 2, 2, 2, 12, 13, 14, 15, 16, 17, 18, 19, 2, 2, 2, 2]);
    let x = operands().0;
    x.set_i((.., &z), 0); // x[:,z]=0
    same(x, &[2, 3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 12, 13, 14, 15, 16, 17, 18, 19, 0, 0, 0, 0]);
    let x = operands().0;
    x.set_i(true, 1); // x[True]=1
    same(x, &[2, 3, 4], &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    let x = operands().0;
    x.set_i((0, Slice::step(2)), t2(&[1, 1, 1, 1], &[1, 1, 4])); // x[0,::2]=L([[[1,1,1,1]]])
    same(
        x,
        &[2, 3, 4],
        &[1, 1, 1, 1, 4, 5, 6, 7, 1, 1, 1, 1, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    );
    let x = operands().0;
    x.set_i(&a, t2(&[100], &[1, 1, 1, 1])); // x[a]=L([[[[100]]]])
    same(
        x,
        &[2, 3, 4],
        &[
            100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100,
            100, 100, 100, 100, 100,
        ],
    );
    let x = operands().0;
    x.set_i(.., operands().0.i((.., vec![1, 0, 2]))); // x[:]=x[:,[1,0,2]]
    same(
        x,
        &[2, 3, 4],
        &[4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 12, 13, 14, 15, 20, 21, 22, 23],
    );
    let _ = c;
}

#[test]
fn errors_of_reading() {
    let x = x23();
    text(x.try_i((0, 1, 2)), "too many indices for tensor of dimension 2");
    text(x.try_i(5), "index 5 is out of bounds for dimension 0 with size 2");
    text(x.try_i((0, 5)), "index 5 is out of bounds for dimension 1 with size 3");
    text(x.try_i((.., &t(&[0, 5]))), "index 5 is out of bounds for dimension 0 with size 3");
    text(x.try_i((.., &t(&[-4]))), "index -4 is out of bounds for dimension 0 with size 3");
    text(
        x.try_i(mask(&[true])),
        "The shape of the mask [1] at index 0 does not match the shape of the indexed tensor [2, 3] at index 0",
    );
    text(
        x.try_i((.., &mask(&[true, false]))),
        "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [2, 3] at index 1",
    );
    text(
        x.try_i((&t(&[0, 1]), &t(&[0, 1, 2]))),
        "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
    );
    text(x.try_i(t(&[0]).to(DType::F32)), "tensors used as indices must be long, int, byte or bool tensors");
    text(x.try_i(Slice::step(0)), "slice step cannot be zero");
    text(x.try_i(Slice::step(-1)), "step must be greater than zero");
    text(Tensor::from_vec(vec![5f32], ()).try_i(3), "index 3 is out of bounds for dimension 0 with size 0");
    text(
        Tensor::from_vec(vec![5f32], ()).try_i(0),
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number",
    );
    text(Tensor::from_vec(vec![5f32], ()).try_i(t(&[0])), "too many indices for tensor of dimension 0");
    text(Tensor::from_vec(vec![5f32], ()).try_i(0..1), "slice() cannot be applied to a 0-dim tensor.");
}

#[test]
fn errors_of_writing() {
    let x = x23();
    text(
        x.try_set_i(0, ones(&[2, 3])).map(|()| x.clone()),
        "expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
    );
    text(
        x.try_set_i(0, ones(&[2])).map(|()| x.clone()),
        "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension 0.  Target sizes: [3].  Tensor sizes: [2]",
    );
    text(
        x.try_set_i(t(&[0, 1]), ones(&[2])).map(|()| x.clone()),
        "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of shape [2, 3]",
    );
    text(
        x.try_set_i(mask(&[true, false]), ones(&[2])).map(|()| x.clone()),
        "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of shape [1, 3]",
    );
    text(
        x.try_set_i(t(&[0, 5]), 1).map(|()| x.clone()),
        "index 5 is out of bounds for dimension 0 with size 2",
    );
    text(x.try_set_i((0, 0, 0), 1).map(|()| x.clone()), "too many indices for tensor of dimension 2");
    text(
        x.try_set_i(t(&[0]), t(&[1])).map(|()| x.clone()),
        "Index put requires the source and destination dtypes match, got Float for the destination and Long for the source.",
    );
}

#[test]
fn operators() {
    let (x, idx, s, v, w, odd) = float_operands();
    close(f::gather(&x, 0, &idx), &[2, 4], &[0.0, 9.0, 6.0, 3.0, 8.0, 9.0, 2.0, 7.0]);
    close(f::gather(&x, 1, &idx), &[2, 4], &[0.0, 2.0, 1.0, 0.0, 6.0, 6.0, 4.0, 5.0]);
    close(
        f::scatter(&x, 0, &idx, &s),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 3.0, 8.0, 5.0, 6.0, 10.0, 11.0],
    );
    close(
        f::scatter_value(&x, 0, &idx, 9),
        &[3, 4],
        &[9.0, 1.0, 9.0, 9.0, 4.0, 5.0, 9.0, 9.0, 9.0, 9.0, 10.0, 11.0],
    );
    close(
        f::scatter_add(&x, 0, &idx, &s),
        &[3, 4],
        &[1.0, 1.0, 9.0, 7.0, 4.0, 5.0, 9.0, 15.0, 13.0, 17.0, 10.0, 11.0],
    );
    close(
        f::scatter_src_reduce(&x, 0, &idx, &s, "multiply"),
        &[3, 4],
        &[0.0, 1.0, 14.0, 12.0, 4.0, 5.0, 18.0, 56.0, 40.0, 108.0, 10.0, 11.0],
    );
    close(
        f::scatter_value_reduce(&x, 0, &idx, 2, "add"),
        &[3, 4],
        &[2.0, 1.0, 4.0, 5.0, 4.0, 5.0, 8.0, 9.0, 10.0, 13.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "sum", ScatterReduceOptions::new().include_self(true)),
        &[3, 4],
        &[1.0, 1.0, 9.0, 7.0, 4.0, 5.0, 9.0, 15.0, 13.0, 17.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "sum", ScatterReduceOptions::new().include_self(false)),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 3.0, 8.0, 5.0, 8.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "prod", ScatterReduceOptions::new().include_self(true)),
        &[3, 4],
        &[0.0, 1.0, 14.0, 12.0, 4.0, 5.0, 18.0, 56.0, 40.0, 108.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "prod", ScatterReduceOptions::new().include_self(false)),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 3.0, 8.0, 5.0, 12.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "mean", ScatterReduceOptions::new().include_self(true)),
        &[3, 4],
        &[0.5, 1.0, 4.5, 3.5, 4.0, 5.0, 4.5, 7.5, 6.5, 5.666666507720947, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "mean", ScatterReduceOptions::new().include_self(false)),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 3.0, 8.0, 5.0, 4.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "amax", ScatterReduceOptions::new().include_self(true)),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 6.0, 8.0, 8.0, 9.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "amax", ScatterReduceOptions::new().include_self(false)),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 3.0, 8.0, 5.0, 6.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "amin", ScatterReduceOptions::new().include_self(true)),
        &[3, 4],
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 7.0, 5.0, 2.0, 10.0, 11.0],
    );
    close(
        f::scatter_reduce_with(&x, 0, &idx, &s, "amin", ScatterReduceOptions::new().include_self(false)),
        &[3, 4],
        &[1.0, 1.0, 7.0, 4.0, 4.0, 5.0, 3.0, 8.0, 5.0, 2.0, 10.0, 11.0],
    );
    close(f::index_select(&x, 0, &v), &[2, 4], &[8.0, 9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0]);
    close(
        f::index_select(&x.i((.., Slice::step(2))), 1, &t(&[1, 0])),
        &[3, 2],
        &[2.0, 0.0, 6.0, 4.0, 10.0, 8.0],
    );
    close(
        f::index_add(&x, 0, &v, &w),
        &[3, 4],
        &[40.0, 51.0, 62.0, 73.0, 4.0, 5.0, 6.0, 7.0, 8.0, 19.0, 30.0, 41.0],
    );
    close(
        f::index_add_with(&x, 0, &v, &w, IndexAddOptions::new().alpha(-2)),
        &[3, 4],
        &[-80.0, -99.0, -118.0, -137.0, 4.0, 5.0, 6.0, 7.0, 8.0, -11.0, -30.0, -49.0],
    );
    close(
        f::index_copy(&x, 0, &v, &w),
        &[3, 4],
        &[40.0, 50.0, 60.0, 70.0, 4.0, 5.0, 6.0, 7.0, 0.0, 10.0, 20.0, 30.0],
    );
    close(
        f::index_fill(&x, 1, &t(&[0, -1]), 5),
        &[3, 4],
        &[5.0, 1.0, 2.0, 5.0, 5.0, 5.0, 6.0, 5.0, 5.0, 9.0, 10.0, 5.0],
    );
    close(
        f::index_reduce(&x, 0, &v, &w, "amax"),
        &[3, 4],
        &[40.0, 50.0, 60.0, 70.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 20.0, 30.0],
    );
    close(
        f::index_reduce_with(&x, 0, &v, &w, "mean", IndexReduceOptions::new().include_self(false)),
        &[3, 4],
        &[40.0, 50.0, 60.0, 70.0, 4.0, 5.0, 6.0, 7.0, 0.0, 10.0, 20.0, 30.0],
    );
    close(f::masked_select(&x, &odd), &[6], &[1.0, 3.0, 5.0, 7.0, 9.0, 11.0]);
    close(
        f::masked_fill(&x, &odd, -1),
        &[3, 4],
        &[0.0, -1.0, 2.0, -1.0, 4.0, -1.0, 6.0, -1.0, 8.0, -1.0, 10.0, -1.0],
    );
    close(
        f::masked_fill(&x, &mask(&[true, false, false, true]), 3),
        &[3, 4],
        &[3.0, 1.0, 2.0, 3.0, 3.0, 5.0, 6.0, 3.0, 3.0, 9.0, 10.0, 3.0],
    );
    close(
        f::masked_scatter(&x, &odd, &s),
        &[3, 4],
        &[0.0, 1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 4.0, 8.0, 5.0, 10.0, 6.0],
    );
    close(f::take(&x, &t2(&[0, -1, 5], &[3, 1])), &[3, 1], &[0.0, 11.0, 5.0]);
    close(
        f::put(&x, &t(&[1, -1]), &ones(&[2]), false),
        &[3, 4],
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 1.0],
    );
    close(
        f::put(&x, &t(&[1, 1]), &ones(&[2]), true),
        &[3, 4],
        &[0.0, 3.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0],
    );
    close(f::take_along_dim(&x, &t2(&[3, -1, 0], &[3, 1]), 1), &[3, 1], &[3.0, 7.0, 8.0]);
    close(
        f::select_scatter(&x, &ones(&[4]), 0, 1),
        &[3, 4],
        &[0.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0, 8.0, 9.0, 10.0, 11.0],
    );
    close(
        f::slice_scatter_with(&x, &ones(&[3, 2]), SliceScatterOptions::new().dim(1).start(1).end(3)),
        &[3, 4],
        &[0.0, 1.0, 1.0, 3.0, 4.0, 1.0, 1.0, 7.0, 8.0, 1.0, 1.0, 11.0],
    );
    close(
        f::diagonal_scatter(&x, &ones(&[3])),
        &[3, 4],
        &[1.0, 1.0, 2.0, 3.0, 4.0, 1.0, 6.0, 7.0, 8.0, 9.0, 1.0, 11.0],
    );
    close(f::narrow_copy(&x, 1, 1, 2), &[3, 2], &[1.0, 2.0, 5.0, 6.0, 9.0, 10.0]);
    close(
        f::index_put(&x, &[Some(t(&[0, 0])), Some(t(&[1, 1]))], &ones(&[2]), true),
        &[3, 4],
        &[0.0, 3.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0],
    );
}
