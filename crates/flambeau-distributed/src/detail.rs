//! Calls are compared before they run, where `TORCH_DISTRIBUTED_DEBUG` says `DETAIL`: by connections of their own, as PyTorch does.

use crate::calls::What;
use crate::gloo::algorithms::Call;
use crate::gloo::mesh::Mesh;
use flambeau_core::{DType, Result, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// PyTorch's names of operations, by their numbers.
const NAMES: [&str; 17] = [
    "BROADCAST",
    "ALLREDUCE",
    "ALLREDUCE_COALESCED",
    "REDUCE",
    "ALLGATHER",
    "_ALLGATHER_BASE",
    "ALLGATHER_COALESCED",
    "GATHER",
    "SCATTER",
    "REDUCE_SCATTER",
    "ALLTOALL_BASE",
    "ALLTOALL",
    "SEND",
    "RECV",
    "RECVANYSOURCE",
    "BARRIER",
    "_REDUCE_SCATTER_BASE",
];
/// The number of an operation that is compared: messages are not.
fn number(operation: &str) -> Option<i64> {
    match operation {
        "all_gather_into_tensor" => return Some(5),
        "sparse_all_reduce" => return Some(1),
        "all_to_all_single" => return Some(10),
        "reduce_scatter_tensor" => return Some(16),
        _ => {}
    }
    let plain = |n: &str| n.to_uppercase().replace('_', "");
    let at = NAMES.iter().position(|n| plain(n) == plain(operation))?;
    (at < 12 || at == 15).then_some(at as i64)
}
/// PyTorch's numbers and names of dtypes.
const DTYPES: [(DType, i64, &str); 13] = [
    (DType::U8, 0, "Byte"),
    (DType::I8, 1, "Char"),
    (DType::I16, 2, "Short"),
    (DType::I32, 3, "Int"),
    (DType::I64, 4, "Long"),
    (DType::F16, 5, "Half"),
    (DType::F32, 6, "Float"),
    (DType::F64, 7, "Double"),
    (DType::C32, 8, "ComplexHalf"),
    (DType::C64, 9, "ComplexFloat"),
    (DType::C128, 10, "ComplexDouble"),
    (DType::Bool, 11, "Bool"),
    (DType::BF16, 15, "BFloat16"),
];
const DEVICE: &str = "TensorOptions(dtype=float (default), device=cpu, layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))";

/// The connections by which calls are compared, and how many were.
pub(crate) struct Detail {
    pub(crate) mesh: Arc<Mesh>,
    next: AtomicI64,
}
/// What is compared of a call.
#[derive(Clone, PartialEq, Default)]
struct Print {
    operation: i64,
    sequence: i64,
    dtypes: Vec<i64>,
    shapes: Vec<Vec<i64>>,
}
impl Print {
    fn words(&self) -> Vec<i64> {
        let mut w = vec![self.operation, self.sequence, self.shapes.len() as i64];
        w.extend(&self.dtypes);
        w.extend(self.shapes.iter().map(|_| 0));
        for s in &self.shapes {
            w.push(s.len() as i64);
            w.extend(s);
        }
        w
    }
    /// What words say, as far as they go.
    fn read(words: &[i64]) -> Print {
        let mut rest = words.iter().copied();
        let mut p = Print {
            operation: rest.next().unwrap_or(0),
            sequence: rest.next().unwrap_or(0),
            ..Print::default()
        };
        let n = rest.next().unwrap_or(0).clamp(0, words.len() as i64) as usize;
        p.dtypes = rest.by_ref().take(n).collect();
        rest.by_ref().take(n).for_each(drop);
        for _ in 0..n {
            let dims = rest.next().unwrap_or(0).clamp(0, words.len() as i64) as usize;
            p.shapes.push(rest.by_ref().take(dims).collect());
        }
        p
    }
    fn name(&self) -> &'static str {
        usize::try_from(self.operation).ok().and_then(|i| NAMES.get(i)).copied().unwrap_or("UNKNOWN")
    }
    fn types(&self) -> String {
        let name = |d: &i64| DTYPES.iter().find(|x| x.1 == *d).map_or("Undefined", |x| x.2);
        self.dtypes.iter().map(name).collect::<Vec<_>>().join(" ")
    }
    fn sizes(&self) -> String {
        self.shapes.iter().flatten().map(i64::to_string).collect::<Vec<_>>().join(" ")
    }
    fn devices(&self) -> String {
        vec![DEVICE; self.shapes.len()].join(" ")
    }
    fn shown(&self) -> String {
        if self.shapes.is_empty() {
            return format!("CollectiveFingerPrint(SequenceNumber={}OpType={})", self.sequence, self.name());
        }
        let all: Vec<String> = self.shapes.iter().flatten().map(i64::to_string).collect();
        format!(
            "CollectiveFingerPrint(SequenceNumber={}, OpType={}, TensorShape=[{}], TensorDtypes={}, TensorDeviceTypes={})",
            self.sequence,
            self.name(),
            all.join(", "),
            self.types(),
            self.devices()
        )
    }
    fn differences(&self, o: &Print) -> String {
        let mut all = String::new();
        let mut say = |what: &str, a: String, b: String| {
            if a != b {
                all.push_str(&format!("  {what}: {a}vs {b}"));
            }
        };
        say("Sequence number", self.sequence.to_string(), o.sequence.to_string());
        say("Op type", self.name().into(), o.name().into());
        say("Tensor Tensor shapes", self.sizes(), o.sizes());
        say("Tensor Tensor dtypes", self.types(), o.types());
        say("Tensor Tensor devices", self.devices(), o.devices());
        all
    }
}
impl Detail {
    pub(crate) fn new(mesh: Arc<Mesh>) -> Detail {
        Detail { mesh, next: AtomicI64::new(0) }
    }
    /// Waits for all ranks, and compares what they are about to call.
    pub(crate) fn check(&self, what: &What) -> Result<()> {
        let Some(operation) = number(what.operation) else { return Ok(()) };
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let dtype = |d: &DType| DTYPES.iter().find(|x| x.0 == *d).map_or(-1, |x| x.1);
        let mine = Print {
            operation,
            sequence,
            dtypes: what.dtypes.iter().map(dtype).collect(),
            shapes: what.sizes.clone(),
        };
        crate::collectives::monitored(&self.mesh, self.mesh.timeout(), true)?;
        let words = mine.words();
        // as many words first: data of different lengths cannot be gathered
        self.same(&mine, &[words.len() as i64])?;
        self.same(&mine, &words)
    }
    fn same(&self, mine: &Print, words: &[i64]) -> Result<()> {
        let call = Call { mesh: &self.mesh, tag: self.mesh.next_tag(), timeout: self.mesh.timeout() };
        let own: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let all = call.all_gather(&own)?;
        for (rank, theirs) in all.chunks(own.len()).enumerate() {
            if theirs != own {
                let words: Vec<i64> =
                    theirs.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect();
                let o = Print::read(&words);
                bail!(
                    Runtime,
                    "Detected mismatch between collectives on ranks. Rank {} is running collective: {}, but Rank {rank} is running collective: {}.Collectives differ in the following aspects: {}",
                    self.mesh.rank,
                    mine.shown(),
                    o.shown(),
                    mine.differences(&o)
                );
            }
        }
        Ok(())
    }
}
