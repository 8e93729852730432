//! Small archives, made here as PyTorch makes them.

use serde_json::{Value as J, json};
use std::path::{Path, PathBuf};

fn tensor(sizes: J) -> J {
    json!({ "dtype": 7, "sizes": sizes, "requires_grad": false, "device": { "type": "cpu", "index": null },
        "strides": [{ "as_int": 1 }], "storage_offset": { "as_int": 0 }, "layout": 7 })
}
fn named(name: &str) -> J {
    json!({ "as_tensor": { "name": name } })
}
/// `relu(x) + w` for `x` of any length but above 3 and at most 8, with `w` of one number.
pub fn model() -> J {
    let s0 = json!({ "as_expr": { "expr_str": "Symbol('s0', positive=True, integer=True)", "hint": { "as_int": 4 } } });
    let node = |name: &str, target: &str, inputs: J| {
        json!({ "target": target, "inputs": inputs, "outputs": [named(name)], "name": name,
            "metadata": { "stack_trace": "File \"net.py\", line 3, in forward\n    return F.relu(x) + self.w" },
            "is_hop_single_tensor_return": null })
    };
    let input = |name: &str, of: &str| json!({ "name": name, "arg": named(of), "kind": 1 });
    let leaf = json!({ "type": null, "context": null, "children_spec": [] });
    let args = json!({ "type": "builtins.tuple", "context": "null", "children_spec": [leaf] });
    let kwargs = json!({ "type": "builtins.dict", "context": "[]", "children_spec": [] });
    let spec = json!([1, { "type": "builtins.tuple", "context": "null", "children_spec": [args, kwargs] }]);
    json!({
        "graph_module": {
            "graph": {
                "inputs": [named("b_w"), named("x")],
                "outputs": [named("add")],
                "nodes": [
                    node("relu", "torch.ops.aten.relu.default", json!([input("self", "x")])),
                    node("add", "torch.ops.aten.add.Tensor", json!([input("self", "relu"), input("other", "b_w")])),
                ],
                "tensor_values": {
                    "b_w": tensor(json!([{ "as_int": 1 }])),
                    "x": tensor(json!([s0])), "relu": tensor(json!([s0])), "add": tensor(json!([s0])),
                },
                "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}, "custom_obj_values": {},
                "is_single_tensor_return": false,
            },
            "signature": {
                "input_specs": [
                    { "buffer": { "arg": { "name": "b_w" }, "buffer_name": "w", "persistent": true } },
                    { "user_input": { "arg": named("x") } },
                ],
                "output_specs": [{ "user_output": { "arg": named("add") } }],
            },
            "module_call_graph": [{ "fqn": "", "signature": {
                "inputs": [], "outputs": [], "in_spec": spec.to_string(),
                "out_spec": json!([1, leaf]).to_string(), "forward_arg_names": ["x"],
            } }],
            "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": { "aten": 10 },
        "range_constraints": { "s0": { "min_val": 3, "max_val": 8 } },
        "schema_version": { "major": 8, "minor": 20 },
        "torch_version": "2.15.0", "verifiers": ["TRAINING"],
        "guards_code": ["(2*L['x'].size()[0]) != 10"],
    })
}
/// Writes an archive with that program.
pub fn write(path: &Path, model: &[u8]) {
    let file = std::fs::File::create(path).unwrap();
    let mut zip =
        flambeau_serialization::container::ArchiveWriter::new(std::io::BufWriter::new(file), "archive");
    let mut meta = tensor(json!([{ "as_int": 1 }]));
    meta["requires_grad"] = json!(false);
    let config = json!({ "config": { "w": {
        "path_name": "weight_0", "is_param": false, "use_pickle": false, "tensor_meta": meta
    } } });
    zip.record("data/weights/model_weights_config.json", config.to_string().as_bytes()).unwrap();
    zip.record("data/weights/weight_0", &10f32.to_le_bytes()).unwrap();
    zip.record("data/constants/model_constants_config.json", br#"{"config": {}}"#).unwrap();
    zip.record("models/model.json", model).unwrap();
    zip.record("archive_format", b"pt2").unwrap();
    zip.record("byteorder", b"little").unwrap();
    zip.finish().unwrap();
}
pub fn saved(name: &str, model: &J) -> PathBuf {
    let path = std::env::temp_dir().join(format!("flambeau_export_{}_{name}.pt2", std::process::id()));
    write(&path, model.to_string().as_bytes());
    path
}
