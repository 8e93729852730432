//! A back end from outside brings kernels of rows that update an argument, that find their sizes, and whose formula a plan
//! picks: one function serves all forms, and what it is given is ready to be written.

use flambeau_core::backend::pointwise::pointwise_typed;
use flambeau_core::backend::transfer::{on_host, to_device};
use flambeau_core::backend::{self, Backend, Event, Handle};
use flambeau_core::generated::{args, arithmetic, indexing, random};
use flambeau_core::iter::spec::PointwiseCall;
use flambeau_core::types::keys::Key;
use flambeau_core::{Device, Error, ErrorKind, Result, Scalar, Tensor, ops};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

const HERE: Device = Device::Private(0);

struct Bytes(Mutex<Vec<u8>>);
fn bytes(h: &Handle) -> Result<Arc<Bytes>> {
    h.clone().downcast().map_err(|_| Error::device("memory of another back end"))
}
fn open(b: &Bytes) -> MutexGuard<'_, Vec<u8>> {
    b.0.lock().unwrap_or_else(PoisonError::into_inner)
}
struct Plain;
impl Backend for Plain {
    fn device_count(&self) -> u16 {
        1
    }
    fn allocate(&self, nbytes: usize, _: Device) -> Result<Handle> {
        Ok(Arc::new(Bytes(Mutex::new(vec![0x77; nbytes]))))
    }
    fn read(&self, memory: &Handle, offset: usize, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&open(&*bytes(memory)?)[offset..offset + to.len()]);
        Ok(())
    }
    fn write(&self, memory: &Handle, offset: usize, from: &[u8]) -> Result<()> {
        open(&*bytes(memory)?)[offset..offset + from.len()].copy_from_slice(from);
        Ok(())
    }
    fn synchronize(&self, _: Device) -> Result<()> {
        Ok(())
    }
    fn event(&self, _: Device) -> Result<Box<dyn Event>> {
        Err(Error::missing("events"))
    }
}

static SCATTERED: AtomicUsize = AtomicUsize::new(0);
static RAISED: AtomicUsize = AtomicUsize::new(0);

fn scatter(a: &args::Scatter, out: &Tensor) -> Result<()> {
    SCATTERED.fetch_add(1, Ordering::Relaxed);
    assert!(!out.is_neg() && out.device() == HERE, "what a kernel writes is plain and its own");
    let host = on_host(out)?;
    ops::scatter_(&host, a.dim, &on_host(a.index)?, &on_host(a.src)?)?;
    ops::copy_(out, &host, false)
}
fn nonzero(a: &args::Nonzero) -> Result<Tensor> {
    to_device(ops::nonzero(&on_host(a.self_)?)?, HERE)
}
fn uniform(a: &args::Uniform, out: &Tensor) -> Result<()> {
    // no stream: the numbers show whose kernel ran
    ops::fill_(out, Scalar::Float((a.from + a.to) / 2.0))
}
fn pow(call: &PointwiseCall) -> Result<()> {
    RAISED.fetch_add(1, Ordering::Relaxed);
    let inputs = call.inputs.iter().map(on_host).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    ops::copy_(call.out, &pointwise_typed(call.spec, Some(call.compute), &inputs, call.params)?, false)
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        assert!(backend::register(Key::Private, &Plain), "the first back end is taken");
        assert!(indexing::SCATTER_KERNEL.register(Key::Private, scatter));
        assert!(!indexing::SCATTER_KERNEL.register(Key::Private, scatter), "the first kernel stays");
        assert!(indexing::NONZERO_KERNEL.register(Key::Private, nonzero));
        assert!(random::UNIFORM_KERNEL.register(Key::Private, uniform));
        assert!(arithmetic::POW_KERNELS.register(Key::Private, pow));
    });
}
fn here(v: &[f32]) -> Tensor {
    install();
    to_device(Tensor::from_slice(v, [v.len()]), HERE).unwrap()
}
fn places(v: &[i64]) -> Tensor {
    install();
    to_device(Tensor::from_slice(v, [v.len()]), HERE).unwrap()
}
fn values(t: &Tensor) -> Vec<f32> {
    on_host(t).unwrap().to_vec()
}

#[test]
fn one_kernel_serves_all_forms_of_a_row_that_updates() {
    let (x, index, src) = (here(&[1., 2., 3., 4.]), places(&[3, 0]), here(&[-1., -2.]));
    let before = SCATTERED.load(Ordering::Relaxed);
    let y = ops::scatter(&x, 0, &index, &src).unwrap();
    assert_eq!((values(&y), values(&x)), (vec![-2., 2., 3., -1.], vec![1., 2., 3., 4.]));
    let mut out = here(&[]);
    ops::scatter_out(&x, 0, &index, &src, &mut out).unwrap();
    assert_eq!(values(&out), [-2., 2., 3., -1.]);
    ops::scatter_(&x, 0, &index, &src).unwrap();
    assert_eq!(values(&x), [-2., 2., 3., -1.]);
    assert_eq!(SCATTERED.load(Ordering::Relaxed) - before, 3);
    // the source is part of what is written: the kernel gets a copy, which is written back
    let x = here(&[1., 2., 3., 4.]);
    let part = ops::slice(&x, 0, Some(0), Some(2), 1).unwrap();
    ops::scatter_(&x, 0, &index, &part).unwrap();
    assert_eq!(values(&x), [2., 2., 3., 1.]);
}

#[test]
fn sizes_are_found_and_formulas_planned_by_the_back_end() {
    let x = here(&[0., 2., 0., 3.]);
    let found = ops::nonzero(&x).unwrap();
    assert_eq!((found.device(), on_host(&found).unwrap().to_vec::<i64>()), (HERE, vec![1, 3]));
    let mut out = places(&[]);
    ops::nonzero_out(&x, &mut out).unwrap();
    assert_eq!(on_host(&out).unwrap().to_vec::<i64>(), [1, 3]);
    let before = RAISED.load(Ordering::Relaxed);
    assert_eq!(values(&ops::pow(&x, &here(&[2., 3., 1., 2.])).unwrap()), [0., 8., 0., 9.]);
    ops::pow_(&x, &Tensor::from_slice(&[2f32], &[] as &[i64])).unwrap();
    assert_eq!(values(&x), [0., 4., 0., 9.]);
    assert_eq!(RAISED.load(Ordering::Relaxed) - before, 2);
    ops::uniform_(&x, 1.0, 3.0, None).unwrap();
    assert_eq!(values(&x), [2.; 4]);
    // factories fill by the back end's kernel too
    let made = ops::rand(&[2], None, None, None, Some(HERE), None).unwrap();
    assert_eq!(values(&made), [0.5; 2]);
}

#[test]
fn rows_without_a_kernel_say_so() {
    let x = here(&[1., 2.]);
    let e = ops::index_add(&x, 0, &places(&[0]), &here(&[1.]), Scalar::Int(1)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Missing, "{e}");
    assert!(e.to_string().contains("index_add"), "{e}");
}
