//! One rank of a job whose other ranks may be PyTorch's: it runs the steps of a script in order and reports what it got, so that a judge
//! can hold the bytes against those of a job of PyTorch alone.
//!
//! ```sh
//! RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 mixed_rank --script steps.json --report got.json
//! ```
//!
//! A script is `{"timeout": seconds, "steps": [{"op": "all_reduce", "shape": [5], "dtype": "float32", ..}, ..]}`. The inputs of a step
//! follow from its seed, the rank and their number by [`formula`], so nothing but the script is needed. The report is
//! `{"steps": [{"sha256": .., "first": ..}, ..]}`: the hash of this rank's results of each step, and their first 64 bytes.

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::Duration;
use torch::distributed::{self, *};
use torch::nn::parallel::{DistributedDataParallel, DistributedDataParallelOptions};
use torch::prelude::*;
use torch::{DType, nn, optim};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
/// A value that is sent as an object.
type Tree = torch::serialization::Tree<Tensor>;

/// What one step gave: tensors, or text.
enum Output {
    Tensor(Tensor),
    Text(Vec<u8>),
}
impl From<Tensor> for Output {
    fn from(t: Tensor) -> Output {
        Output::Tensor(t)
    }
}

/// With `h(i) = ((i + 1) * 2654435761 + seed * 40503) mod 2^32`: floats `h / 2^32 - 0.5`, complex numbers `(x, -x / 2)` of those,
/// signed integers `(h >> 8) % 17 - 8`, unsigned ones `(h >> 8) % 17`, truth values `(h >> 8) % 2`.
fn formula(seed: i64, shape: &[i64], dtype: DType) -> Tensor {
    let n: i64 = shape.iter().product();
    let h = |i: i64| (i * 2_654_435_761 + seed * 40_503).rem_euclid(1 << 32);
    let each = |f: &dyn Fn(i64) -> i64| torch::tensor((1..=n).map(|i| f(h(i))).collect::<Vec<i64>>());
    // `torch::tensor` would round to the default dtype
    let x =
        || Tensor::from_vec((1..=n).map(|i| h(i) as f64 / 4_294_967_296.0 - 0.5).collect::<Vec<f64>>(), [n]);
    let flat = if dtype == torch::bool {
        each(&|h| (h >> 8) % 2)
    } else if dtype.is_complex() {
        torch::complex(&x(), &(x() * -0.5))
    } else if dtype.is_floating() {
        x()
    } else if dtype == torch::uint8 {
        each(&|h| (h >> 8) % 17)
    } else {
        each(&|h| (h >> 8) % 17 - 8)
    };
    flat.to(dtype).reshape(shape)
}

/// The elements in order.
fn bytes(t: &Tensor) -> Vec<u8> {
    if t.numel() == 0 {
        return Vec::new();
    }
    let t = t.detach().contiguous();
    let t = if t.is_complex() { torch::view_as_real(&t) } else { t };
    t.reshape([-1]).view_dtype(torch::uint8).to_vec::<u8>()
}

/// A value as Python's `json.dumps` writes it with `sort_keys=True`.
fn dumps(v: &Tree) -> Outcome<String> {
    let quoted = |s: &str| {
        let mut out = String::from("\"");
        for c in s.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                ' '..='~' => out.push(c),
                _ => {
                    let mut units = [0; 2];
                    out.extend(c.encode_utf16(&mut units).iter().map(|u| format!("\\u{u:04x}")));
                }
            }
        }
        out + "\""
    };
    Ok(match v {
        Tree::None => "null".into(),
        Tree::Bool(b) => b.to_string(),
        Tree::Int(i) => i.to_string(),
        Tree::Float(f) => format!("{f:?}"),
        Tree::Str(s) => quoted(s),
        Tree::List(l) | Tree::Tuple(l) => {
            format!("[{}]", l.iter().map(dumps).collect::<Outcome<Vec<_>>>()?.join(", "))
        }
        Tree::Dict(d) => {
            let mut all = Vec::new();
            for (k, v) in d {
                all.push((k.as_str().ok_or("a key that is no text")?.to_owned(), dumps(v)?));
            }
            all.sort();
            let all: Vec<String> = all.iter().map(|(k, v)| format!("{}: {v}", quoted(k))).collect();
            format!("{{{}}}", all.join(", "))
        }
        other => return Err(format!("{other:?} in JSON").into()),
    })
}
fn text(s: &str) -> Tree {
    Tree::Str(s.into())
}
fn entries<const N: usize>(all: [(&str, Tree); N]) -> Tree {
    Tree::Dict(all.into_iter().map(|(k, v)| (text(k), v)).collect())
}
fn numbers(j: &Json) -> Vec<i64> {
    j.as_array().into_iter().flatten().filter_map(Json::as_i64).collect()
}

struct Job {
    rank: i64,
    world: i64,
    groups: HashMap<String, ProcessGroup>,
}

/// A step and what it says.
struct Step<'a> {
    said: &'a Json,
    rank: i64,
    shape: Vec<i64>,
    dtype: DType,
    seed: i64,
}
impl Step<'_> {
    fn number(&self, key: &str) -> Option<i64> {
        self.said[key].as_i64()
    }
    fn must(&self, key: &str) -> Outcome<i64> {
        self.number(key).ok_or_else(|| format!("a step without {key}").into())
    }
    fn text(&self, key: &str) -> Outcome<&str> {
        self.said[key].as_str().ok_or_else(|| format!("a step without {key}").into())
    }
    fn says(&self, key: &str) -> bool {
        self.said[key].as_bool() == Some(true)
    }
    /// The `k`th input, of this shape.
    fn input_of(&self, k: i64, shape: &[i64]) -> Tensor {
        formula(self.seed * 1000 + self.rank * 10 + k, shape, self.dtype)
    }
    fn input(&self, k: i64) -> Tensor {
        self.input_of(k, &self.shape)
    }
    fn inputs(&self, n: i64) -> Vec<Tensor> {
        (0..n).map(|k| self.input(k)).collect()
    }
    fn space_of(&self, shape: &[i64]) -> Tensor {
        torch::zeros(shape).to(self.dtype)
    }
    fn space(&self) -> Tensor {
        self.space_of(&self.shape)
    }
    fn spaces(&self, n: i64) -> Vec<Tensor> {
        (0..n).map(|_| self.space()).collect()
    }
    /// The shape with another number of rows.
    fn rows(&self, n: i64) -> Vec<i64> {
        let mut all = self.shape.clone();
        all[0] = n;
        all
    }
}

fn run(job: &mut Job, said: &Json) -> Outcome<Vec<Output>> {
    let name = said["dtype"].as_str().unwrap_or("float32");
    let s = Step {
        said,
        rank: job.rank,
        shape: if said["shape"].is_array() { numbers(&said["shape"]) } else { vec![5] },
        dtype: DType::from_name(name).ok_or_else(|| format!("dtype {name}"))?,
        seed: said["seed"].as_i64().unwrap_or(0),
    };
    let op = s.text("op")?;
    if op == "new_group" {
        let group = try_new_group(&numbers(&said["ranks"]), NewGroupOptions::new())?;
        job.groups.insert(s.text("name")?.into(), group);
        return Ok(Vec::new());
    }
    let group = match said["group"].as_str().unwrap_or("world") {
        "world" => try_default_group()?,
        name => job.groups.get(name).ok_or_else(|| format!("group {name}"))?.clone(),
    };
    match op {
        "store" | "store_add" => store(job, &s, op),
        _ if !group.is_member() => Ok(Vec::new()),
        "ddp" => train(job, &s),
        "all_gather_object" | "broadcast_object_list" | "gather_object" | "scatter_object_list" => {
            objects(&s, op, &group)
        }
        "send_recv" | "ring" => messages(job, &s, op, &group),
        _ => collective(&s, op, &group),
    }
}

fn collective(s: &Step<'_>, op: &str, group: &ProcessGroup) -> Outcome<Vec<Output>> {
    let n = group.size();
    let name = s.said["reduce_op"].as_str().unwrap_or("SUM");
    let reduce_op = ReduceOp::from_name(name).ok_or_else(|| format!("reduction {name}"))?;
    let reduction = || ReduceOptions::new().op(reduce_op).group(group);
    let options = || CollectiveOptions::new().group(group);
    let at_root = || Ok::<bool, Box<dyn std::error::Error>>(s.must("root")? == s.rank);
    let out = match op {
        "all_reduce" => {
            let all = s.inputs(s.number("count").unwrap_or(1));
            let mut works = Vec::new();
            for t in &all {
                works.push(try_all_reduce(t, reduction().async_op(true))?);
            }
            works.iter().try_for_each(Work::try_wait)?;
            all
        }
        "all_reduce_coalesced" => {
            let all = vec![s.input(0), s.input_of(1, &[3])];
            try_all_reduce_coalesced(&all, reduction())?;
            all
        }
        "reduce" => {
            let t = s.input(0);
            try_reduce(&t, s.must("root")?, reduction())?;
            if at_root()? { vec![t] } else { Vec::new() }
        }
        "broadcast" => {
            let t = s.input(0);
            try_broadcast(&t, s.must("root")?, options())?;
            vec![t]
        }
        "all_gather" => {
            let all = s.spaces(n);
            try_all_gather(&all, &s.input(0), options())?;
            all
        }
        "all_gather_into_tensor" => {
            let all = s.space_of(&s.rows(s.shape[0] * n));
            try_all_gather_into_tensor(&all, &s.input(0), options())?;
            vec![all]
        }
        "gather" => {
            let o = GatherOptions::new().dst(s.must("root")?).group(group);
            let all = if at_root()? { s.spaces(n) } else { Vec::new() };
            try_gather(&s.input(0), if at_root()? { o.gather_list(all.clone()) } else { o })?;
            all
        }
        "scatter" => {
            let o = ScatterOptions::new().src(s.must("root")?).group(group);
            let mine = s.space();
            try_scatter(&mine, if at_root()? { o.scatter_list(s.inputs(n)) } else { o })?;
            vec![mine]
        }
        "reduce_scatter" => {
            let mine = s.space();
            try_reduce_scatter(&mine, &s.inputs(n), reduction())?;
            vec![mine]
        }
        "reduce_scatter_tensor" => {
            let mine = s.space();
            try_reduce_scatter_tensor(&mine, &s.input_of(0, &s.rows(s.shape[0] * n)), reduction())?;
            vec![mine]
        }
        "all_to_all_single" => {
            let mut o = AllToAllOptions::new().group(group);
            let (mut ins, mut outs) = (s.shape[0] * n, s.shape[0] * n);
            if s.says("uneven") {
                // rank i sends 1 + (i + j) % 3 rows to rank j
                let parts: Vec<i64> = (0..n).map(|j| 1 + (group.rank() + j) % 3).collect();
                (ins, outs) = (parts.iter().sum(), parts.iter().sum());
                o = o.input_split_sizes(parts.clone()).output_split_sizes(parts);
            }
            let all = s.space_of(&s.rows(outs));
            try_all_to_all_single(&all, &s.input_of(0, &s.rows(ins)), o)?;
            vec![all]
        }
        "all_to_all" => {
            let all = s.spaces(n);
            try_all_to_all(&all, &s.inputs(n), options())?;
            all
        }
        "barrier" => {
            try_barrier(options())?;
            Vec::new()
        }
        "monitored_barrier" => {
            let o = MonitoredBarrierOptions::new().group(group).timeout(Duration::from_secs(30));
            try_monitored_barrier(o)?;
            Vec::new()
        }
        other => return Err(format!("step {other}").into()),
    };
    Ok(out.into_iter().map(Output::from).collect())
}

fn messages(job: &Job, s: &Step<'_>, op: &str, group: &ProcessGroup) -> Outcome<Vec<Output>> {
    if op == "ring" {
        // everybody sends to the next and receives from the previous at once
        let (next, last) = ((job.rank + 1) % job.world, (job.rank + job.world - 1) % job.world);
        let got = s.space();
        let works = try_batch_isend_irecv(&[P2POp::isend(&s.input(0), next), P2POp::irecv(&got, last)])?;
        works.iter().try_for_each(Work::try_wait)?;
        return Ok(vec![got.into()]);
    }
    let o = MessageOptions::new().tag(s.number("tag").unwrap_or(0)).group(group);
    if s.must("src")? == job.rank {
        try_send(&s.input(0), s.must("dst")?, o)?;
    } else if s.must("dst")? == job.rank {
        let got = s.space();
        let from = if s.says("any_source") { None } else { Some(Peer::from(s.must("src")?)) };
        let source = try_recv(&got, from, o)?;
        return Ok(vec![got.into(), Output::Text(source.to_string().into_bytes())]);
    }
    Ok(Vec::new())
}

fn objects(s: &Step<'_>, op: &str, group: &ProcessGroup) -> Outcome<Vec<Output>> {
    let o = ObjectOptions::new().group(group);
    let rank = Tree::Int(s.rank);
    let got = match op {
        "all_gather_object" => {
            let list = vec![Tree::Int(1), Tree::Float(2.5), Tree::None, Tree::Bool(true)];
            let mine = entries([
                ("rank", rank),
                ("text", text(&"é".repeat(s.rank as usize + 1))),
                ("list", Tree::List(list)),
                ("big", Tree::Int(1 << 40)),
            ]);
            try_all_gather_object(&mine, o)?
        }
        "broadcast_object_list" => {
            let root = s.must("root")?;
            let mut all = vec![Tree::None; 3];
            if root == s.rank {
                all = vec![entries([("from", rank.clone())]), Tree::List(vec![rank; 3]), text("x")];
            }
            try_broadcast_object_list(&mut all, root, o)?;
            all
        }
        "gather_object" => {
            let mine = Tree::Tuple(vec![rank, text("t")]);
            match try_gather_object(&mine, s.must("root")?, o)? {
                Some(all) => all,
                None => return Ok(Vec::new()),
            }
        }
        _ => {
            let root = s.must("root")?;
            let all: Vec<Tree> = group.ranks().iter().map(|r| entries([("for", Tree::Int(*r))])).collect();
            let mine = try_scatter_object_list((root == s.rank).then_some(&all[..]), root, o)?;
            vec![mine.unwrap_or(Tree::None)]
        }
    };
    Ok(vec![Output::Text(dumps(&Tree::List(got))?.into_bytes())])
}

fn store(job: &Job, s: &Step<'_>, op: &str) -> Outcome<Vec<Output>> {
    let (store, key) = (default_store()?, s.text("key")?);
    if op == "store_add" {
        store.add(key, job.rank + 1)?;
        try_barrier(CollectiveOptions::new())?;
    } else if s.must("from")? == job.rank {
        store.set(key, s.text("value")?.as_bytes())?;
    }
    Ok(vec![Output::Text(store.get(key)?)])
}

/// Trains two linear layers on this rank's batches. The ranks begin with different parameters: those of rank 0 count.
fn train(job: &Job, s: &Step<'_>) -> Outcome<Vec<Output>> {
    let model = nn::Sequential::new((nn::Linear::new(6, 8), nn::ReLU::new(), nn::Linear::new(8, 3)));
    torch::no_grad(|| {
        for (i, p) in model.parameters().iter().enumerate() {
            p.copy_(&(formula(900 + i as i64, p.sizes(), f32) + job.rank as f64));
        }
    });
    let mut o = DistributedDataParallelOptions::new();
    for (key, v) in s.said["ddp"].as_object().into_iter().flatten() {
        let yes = v.as_bool() == Some(true);
        o = match key.as_str() {
            "find_unused_parameters" => o.find_unused_parameters(yes),
            "gradient_as_bucket_view" => o.gradient_as_bucket_view(yes),
            "static_graph" => o.static_graph(yes),
            "bucket_cap_mb" => o.bucket_cap_mb(v.as_f64().unwrap_or(25.0)),
            other => return Err(format!("keyword {other}").into()),
        };
    }
    let model = DistributedDataParallel::try_new(model, o)?;
    let mut optimizer = optim::SGD::new(model.parameters(), 0.1);
    let mut out = Vec::new();
    for k in 0..s.number("steps").unwrap_or(3) {
        let seed = s.must("seed")? * 1000 + 100 * k + job.rank;
        let loss = nn::functional::mse_loss(
            &model.call(&formula(seed, &[4, 6], f32)),
            &formula(seed + 50, &[4, 3], f32),
        );
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        out.push(loss.detach());
    }
    out.extend(model.parameters().iter().map(|p| p.detach()));
    Ok(out.into_iter().map(Output::from).collect())
}

/// One step's line of the report.
fn report(out: &[Output], training: bool) -> Json {
    let part = |o: &Output| match o {
        Output::Tensor(t) => bytes(t),
        Output::Text(b) => b.clone(),
    };
    let all: Vec<u8> = out.iter().flat_map(part).collect();
    let hex = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<String>();
    let mut line = json!({"sha256": hex(&Sha256::digest(&all)), "first": hex(&all[..all.len().min(64)])});
    if training {
        let values =
            out.iter().filter_map(|o| if let Output::Tensor(t) = o { Some(t.to_vec::<f32>()) } else { None });
        line["values"] = values.flatten().collect::<Vec<f32>>().into();
    }
    line
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let (mut script, mut to) = (None, None);
    while let Some(a) = args.next() {
        match a.as_str() {
            "--script" => script = args.next(),
            "--report" => to = args.next(),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let (Some(script), Some(to)) = (script, to) else {
        println!(
            "a rank of a job: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and --script FILE --report FILE"
        );
        return Ok(());
    };
    let script: Json = serde_json::from_str(&std::fs::read_to_string(script)?)?;
    let timeout = Duration::from_secs_f64(script["timeout"].as_f64().unwrap_or(30.0));
    try_init_process_group("gloo", InitProcessGroupOptions::new().timeout(timeout))?;
    let mut job = Job { rank: try_get_rank()?, world: try_get_world_size()?, groups: HashMap::new() };
    let (mut steps, mut failed) = (Vec::new(), None);
    for said in script["steps"].as_array().into_iter().flatten() {
        match run(&mut job, said) {
            Ok(out) => steps.push(report(&out, said["op"] == "ddp")),
            Err(e) => {
                failed = Some(format!("step {}: {e}", steps.len()));
                steps.push(json!({"error": failed}));
                break;
            }
        }
    }
    if failed.is_none() {
        try_barrier(CollectiveOptions::new())?;
        if job.rank == 0 {
            // the store is served here: the others leave first
            std::thread::sleep(Duration::from_millis(300));
        }
        distributed::destroy_process_group();
    }
    std::fs::write(to, serde_json::to_string(&json!({"steps": steps}))?)?;
    failed.map_or(Ok(()), |e| Err(e.into()))
}
