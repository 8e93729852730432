use crate::archive::{model, saved, write};
use flambeau_core::Value;
use flambeau_export::load;
use serde_json::{Value as J, json};

fn refused(name: &str, change: impl FnOnce(&mut J)) -> String {
    let mut j = model();
    change(&mut j);
    let path = saved(name, &j);
    let e = load(&path).and_then(|p| p.module()).expect_err(name).to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        e.contains(&format!("{name}.pt2"))
            || e.contains("signature")
            || e.contains("tensor")
            || e.contains("guard"),
        "{e}"
    );
    e
}
#[test]
fn what_does_not_fit_is_named() {
    fn graph(j: &mut J) -> &mut J {
        &mut j["graph_module"]["graph"]
    }
    let e = refused("cycle", |j| {
        graph(j)["nodes"][0]["inputs"][0]["arg"] = json!({ "as_tensor": { "name": "add" } })
    });
    assert!(e.contains("node 'relu'") && e.contains("'add' is used before it is there"), "{e}");
    let e = refused("twice", |j| graph(j)["nodes"][1]["name"] = json!("relu"));
    assert!(e.contains("node 'relu'"), "{e}");
    let e = refused("name", |j| graph(j)["nodes"][1]["name"] = json!("a; import os"));
    assert!(e.contains("is no name of a node"), "{e}");
    let e = refused("version", |j| j["schema_version"]["major"] = json!(9));
    assert!(e.contains("schema version"), "{e}");
    let e = refused("dtype", |j| graph(j)["tensor_values"]["x"]["dtype"] = json!(99));
    assert!(e.contains("tensor 'x'") && e.contains("dtype number 99"), "{e}");
    let e = refused("guard", |j| j["guards_code"] = json!(["__import__('os')"]));
    assert!(e.contains("is of a form that is not known"), "{e}");
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    refused("deep", |j| j["guards_code"] = json!([deep]));
    refused("target", |j| {
        j["graph_module"]["signature"]["input_specs"][0]["buffer"]["buffer_name"] = json!("v")
    });
    refused("inputs", |j| j["graph_module"]["signature"]["input_specs"] = json!([]));
}
#[test]
fn unknown_operators_are_errors_of_the_run() {
    let mut j = model();
    j["graph_module"]["graph"]["nodes"][0]["target"] = json!("torch.ops.evil.run.default");
    let path = saved("operator", &j);
    let m = load(&path).unwrap().module().unwrap();
    std::fs::remove_file(&path).unwrap();
    let x = flambeau_library::call_value("torch.ones", &[Value::Int(4)], &[]).unwrap();
    assert_eq!(m.run(&[x], &[]).unwrap_err().kind(), flambeau_core::ErrorKind::Missing);
}
/// Programs with changed bytes load or are refused, and run or fail: nothing panics.
#[test]
fn mutated_programs() {
    let text = model().to_string().into_bytes();
    let path = std::env::temp_dir().join(format!("flambeau_export_{}_mutated.pt2", std::process::id()));
    let again = path.with_extension("again");
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let x = flambeau_library::call_value("torch.ones", &[Value::Int(4)], &[]).unwrap();
    let mut loaded = 0;
    for turn in 0..10_000 {
        let mut t = text.clone();
        match random(4) {
            0 => t[random(text.len())] = random(256) as u8,
            1 => {
                // another digit
                let digits: Vec<usize> = (0..t.len()).filter(|i| t[*i].is_ascii_digit()).collect();
                t[digits[random(digits.len())]] = b'0' + random(10) as u8;
            }
            2 => {
                let at = random(t.len());
                let end = (at + random(30)).min(t.len());
                t.drain(at..end);
            }
            _ => {
                let at = random(t.len());
                let end = (at + random(60)).min(t.len());
                let part = t[at..end].to_vec();
                let to = random(t.len());
                t.splice(to..to, part);
            }
        }
        write(&path, &t);
        if let Ok(m) = load(&path).and_then(|p| {
            drop(p.to_string());
            // what was read can be written, or is refused
            if turn % 20 == 0 {
                drop(flambeau_export::save(&p, &again));
            }
            p.module()
        }) {
            loaded += 1;
            drop(m.run(std::slice::from_ref(&x), &[]));
        }
    }
    std::fs::remove_file(&path).unwrap();
    drop(std::fs::remove_file(&again));
    assert!(loaded > 300, "only {loaded} could be loaded: the changes are too coarse");
}
