//! Recorded distributed jobs: what each rank called and what it got. A file says its section; one runner per section.

pub mod collectives;
mod ddp;
pub mod elastic;
pub mod errors;
pub mod local;
mod mesh;
pub mod objects;
pub mod ranks;
pub mod shared;
pub mod store;
pub mod wire;

use crate::families::{Case, File, Outcome, text};
use serde_json::Value as J;

/// The folders of such a set, in the order they are reported; `errors` is one as well, and a family of other sets.
pub const SECTIONS: [&str; 13] = [
    "collectives",
    "store",
    "gloo_wire",
    "objects",
    "ddp",
    "fsdp",
    "dtensor",
    "tensor_parallel",
    "pipelining",
    "checkpoint",
    "rpc",
    "elastic",
    "local",
];

/// All cases of a file of such a set; none where it is a file of another kind.
pub fn cases(f: &File) -> Option<Vec<Case<'_>>> {
    let section = f.json.get("section")?.as_str()?;
    f.json.get("job")?;
    let run: fn(&File, &J) -> Outcome = match section {
        "local" => local::run,
        "store" => store::run,
        "collectives" => collectives::run,
        "errors" => errors::run,
        "gloo_wire" => wire::run,
        "objects" => objects::run,
        "ddp" => ddp::run,
        "elastic" => elastic::run,
        "dtensor" => mesh::run,
        _ => unread,
    };
    let one = |c| Case {
        id: text(c, "id").into(),
        call: format!("{section} {}", text(&f.json, "job")),
        core: false,
        run: Box::new(move || run(f, c)),
    };
    Some(f.list("cases").iter().map(one).collect())
}

/// Of a section without a runner: counted, not passed over.
fn unread(f: &File, _: &J) -> Outcome {
    Outcome::Missing(format!("a runner of {}", text(&f.json, "section")))
}
