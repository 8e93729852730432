//! The device `vault`: a back end that stands outside the library. Its memory is the host's, but nobody gets a pointer into
//! it, and its kernels run later than they are called: in order, on a thread of the vault's own. What it has no kernel for,
//! the CPU computes.
#![forbid(unsafe_code)]

use flambeau_core::backend::pointwise::pointwise_typed;
use flambeau_core::backend::{self, Backend, Event, Handle, fallback};
use flambeau_core::dispatch::CrateReg;
use flambeau_core::generated::{args, arithmetic as a, blas, unary as u};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::spec::PointwiseCall;
use flambeau_core::tensor::geometry;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::types::device::PRIVATE_NAMES;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure, ops};
use flambeau_nn_functional::generated::{args as nn_args, norm, pool};
use flambeau_nn_functional::ops as nn;
use flambeau_optim::{generated::optim, ops as steps};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One piece of memory.
struct Block(Mutex<Vec<u8>>);
impl Block {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
fn block(memory: &Handle) -> Result<Arc<Block>> {
    memory.clone().downcast().map_err(|_| Error::device("this memory is not the vault's"))
}

type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// What was called and has not run yet.
struct Queue {
    jobs: Mutex<Sender<Job>>,
    /// The first error of a kernel, for the next call that waits.
    failed: Arc<Mutex<Option<Error>>>,
}
fn queue() -> &'static Queue {
    static QUEUE: OnceLock<Queue> = OnceLock::new();
    QUEUE.get_or_init(|| {
        let (jobs, orders) = channel::<Job>();
        let failed = Arc::new(Mutex::new(None));
        let errors = failed.clone();
        std::thread::spawn(move || {
            for job in orders {
                if let Err(e) = job() {
                    errors.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                }
            }
        });
        Queue { jobs: Mutex::new(jobs), failed }
    })
}
fn later(job: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let jobs = queue().jobs.lock().unwrap_or_else(PoisonError::into_inner);
    jobs.send(Box::new(job)).map_err(|_| Error::runtime("the vault's thread has ended"))
}
/// Waits for everything that was called before.
fn wait() -> Result<()> {
    let (done, end) = channel();
    later(move || {
        let _ = done.send(());
        Ok(())
    })?;
    end.recv().map_err(|_| Error::runtime("the vault's thread has ended"))?;
    match queue().failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

/// How often the host read the vault's memory.
pub static READS: AtomicUsize = AtomicUsize::new(0);
struct Vault;
impl Backend for Vault {
    fn device_count(&self) -> u16 {
        1
    }
    fn allocate(&self, nbytes: usize, device: Device) -> Result<Handle> {
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(nbytes);
        room.map_err(|_| Error::memory(format!("{device} has no room for {nbytes} bytes")))?;
        bytes.resize(nbytes, 0xa5);
        Ok(Arc::new(Block(Mutex::new(bytes))) as Arc<dyn Any + Send + Sync>)
    }
    fn read(&self, memory: &Handle, offset: usize, to: &mut [u8]) -> Result<()> {
        wait()?;
        READS.fetch_add(1, Ordering::Relaxed);
        to.copy_from_slice(&block(memory)?.bytes()[offset..offset + to.len()]);
        Ok(())
    }
    fn write(&self, memory: &Handle, offset: usize, from: &[u8]) -> Result<()> {
        let (to, from) = (block(memory)?, from.to_vec());
        later(move || {
            to.bytes()[offset..offset + from.len()].copy_from_slice(&from);
            Ok(())
        })
    }
    fn synchronize(&self, _: Device) -> Result<()> {
        wait()
    }
    fn event(&self, _: Device) -> Result<Box<dyn Event>> {
        let reached = Arc::new(AtomicBool::new(false));
        let mark = reached.clone();
        later(move || {
            mark.store(true, Ordering::Release);
            Ok(())
        })?;
        Ok(Box::new(Mark(reached)))
    }
}
struct Mark(Arc<AtomicBool>);
impl Event for Mark {
    fn done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
    fn wait(&self) -> Result<()> {
        wait()
    }
}

/// A tensor of the vault as its thread sees it: memory and geometry.
struct View {
    block: Arc<Block>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    dtype: DType,
    start: usize,
}
impl View {
    fn of(t: &Tensor) -> Result<View> {
        let memory = t.storage().handle()?;
        let memory = memory.ok_or_else(|| Error::device(format!("{} is not the vault", t.device())))?;
        Ok(View {
            block: block(&memory)?,
            sizes: t.sizes().to_vec(),
            strides: t.strides().to_vec(),
            dtype: t.dtype(),
            start: t.storage_offset() as usize * t.dtype().size(),
        })
    }
    fn bytes(&self) -> usize {
        geometry::span(&self.sizes, &self.strides) as usize * self.dtype.size()
    }
    /// A copy that the CPU computes with.
    fn image(&self) -> Result<Tensor> {
        let storage = Storage::of_bytes(&self.block.bytes()[self.start..self.start + self.bytes()])?;
        Tensor::from_storage(&storage, &self.sizes, &self.strides, 0, self.dtype)
    }
    fn store(&self, value: &Tensor) -> Result<()> {
        let image = self.image()?;
        ops::copy_(&image, value, false)?;
        let n = self.bytes();
        image.storage().with_bytes(|b| {
            self.block.bytes()[self.start..self.start + n].copy_from_slice(b);
        })
    }
}
/// Queues a kernel: what it computes of images of `inputs` is stored in `outs`.
fn kernel(
    inputs: &[&Tensor],
    outs: &[&Tensor],
    compute: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>> + Send + 'static,
) -> Result<()> {
    let inputs = inputs.iter().map(|t| View::of(t)).collect::<Result<Vec<_>>>()?;
    let outs = outs.iter().map(|t| View::of(t)).collect::<Result<Vec<_>>>()?;
    later(move || {
        let images = inputs.iter().map(View::image).collect::<Result<Vec<_>>>()?;
        outs.iter().zip(&compute(&images)?).try_for_each(|(o, t)| o.store(t))
    })
}

/// Every pointwise row, from its formula.
fn pointwise(call: &PointwiseCall) -> Result<()> {
    let inputs: Vec<&Tensor> = call.inputs.iter().collect();
    let (spec, compute, params) = (call.spec, call.compute, call.params.to_vec());
    kernel(&inputs, &[call.out], move |t| {
        let t: Vec<&Tensor> = t.iter().collect();
        Ok(vec![pointwise_typed(spec, Some(compute), &t, &params)?])
    })
}
fn mm(a: &args::Mm, out: &Tensor) -> Result<()> {
    kernel(&[a.self_, a.mat2], &[out], |t| Ok(vec![ops::mm(&t[0], &t[1])?]))
}
fn max_pool(a: &nn_args::MaxPool, [values, indices]: [&Tensor; 2]) -> Result<()> {
    let [k, s, p, d] = [a.kernel_size, a.stride, a.padding, a.dilation].map(<[i64]>::to_vec);
    let ceil = a.ceil_mode;
    kernel(&[a.self_], &[values, indices], move |t| {
        let (values, indices) = nn::max_pool(&t[0], &k, &s, &p, &d, ceil)?;
        Ok(vec![values, indices])
    })
}
fn layer_norm(a: &nn_args::NativeLayerNorm, outs: [&Tensor; 3]) -> Result<()> {
    let (shape, eps) = (a.normalized_shape.to_vec(), a.eps);
    let given: Vec<&Tensor> = [Some(a.input), a.weight, a.bias].into_iter().flatten().collect();
    let (weight, bias) = (a.weight.map(|_| 1), a.bias.map(|_| 1 + usize::from(a.weight.is_some())));
    kernel(&given, &outs, move |t| {
        let (w, b) = (weight.map(|i| &t[i]), bias.map(|i| &t[i]));
        let (y, mean, rstd) = nn::native_layer_norm(&t[0], &shape, w, b, eps)?;
        Ok(vec![y, mean, rstd])
    })
}

#[rustfmt::skip]
fn sgd(
    p: &[Tensor], g: &[Tensor], b: &[Tensor], decay: f64, momentum: f64, lr: f64, dampening: f64, nesterov: bool,
    maximize: bool, first: bool, scale: Option<&Tensor>, inf: Option<&Tensor>,
) -> Result<()> {
    ensure!(scale.or(inf).is_none(), Missing, "scaled gradients in the vault");
    p.iter().chain(b).for_each(backend::kernel::written);
    let (all, n): (Vec<&Tensor>, usize) = (p.iter().chain(g).chain(b).collect(), p.len());
    kernel(&all, &all, move |t| {
        let (p, g, b) = (&t[..n], &t[n..2 * n], &t[2 * n..]);
        steps::fused_sgd_(p, g, b, decay, momentum, lr, dampening, nesterov, maximize, first, None, None)?;
        Ok(t.to_vec())
    })
}

/// Twenty rows run in the vault; all others by way of the CPU.
fn fill() {
    for spec in [&a::ADD_SPEC, &a::SUB_SPEC, &a::MUL_SPEC, &a::DIV_SPEC, &a::MAXIMUM_SPEC, &a::MINIMUM_SPEC] {
        spec.kernels.register(Key::Private, pointwise);
    }
    for spec in [&u::EXP_SPEC, &u::LOG_SPEC, &u::SQRT_SPEC, &u::NEG_SPEC, &u::ABS_SPEC, &u::RECIPROCAL_SPEC] {
        spec.kernels.register(Key::Private, pointwise);
    }
    for spec in [&u::TANH_SPEC, &u::SIGMOID_SPEC, &u::RELU_SPEC, &u::RSQRT_SPEC] {
        spec.kernels.register(Key::Private, pointwise);
    }
    blas::MM_KERNEL.register(Key::Private, mm);
    pool::MAX_POOL_KERNEL.register(Key::Private, max_pool);
    norm::NATIVE_LAYER_NORM_KERNEL.register(Key::Private, layer_norm);
    optim::FUSED_SGD_.register(Key::Private, sgd);
    fallback::through_the_cpu(Key::Private);
}

/// The vault's entry among the crates; programs that run without link-time lists register it by hand.
pub static REG: CrateReg = CrateReg { name: env!("CARGO_PKG_NAME"), ops: &[], fills: &[fill] };
#[linkme::distributed_slice(flambeau_core::dispatch::registry::CRATES)]
static ENTRY: &CrateReg = &REG;
#[linkme::distributed_slice(backend::BACKENDS)]
static TABLE: (Key, &dyn Backend) = (Key::Private, &Vault);
#[linkme::distributed_slice(PRIVATE_NAMES)]
static NAME: &str = "vault";
