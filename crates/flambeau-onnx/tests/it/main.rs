//! ONNX models of exported programs: their structure, files, errors. `programs.py` makes several hundred programs with PyTorch
//! and compares what onnxruntime gives for their models.

use flambeau_core::{DType, Device, Layout, Tensor};
use flambeau_export::ExportedProgram;
use flambeau_export::graph_signature::{
    ArgumentSpec, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
};
use flambeau_fx::symbolic::Expr;
use flambeau_fx::{Argument, Graph, GraphModule, TensorMeta, Val};
use flambeau_onnx::proto::ModelProto;
use flambeau_onnx::{Arg, ExportOptions, Registry, SaveOptions, try_export};
use prost::Message as _;

fn meta() -> Val {
    let s0 = Expr::Symbol { name: "s0".into(), positive: true };
    Val::Tensor(TensorMeta {
        dtype: DType::F32,
        shape: vec![s0, Expr::Int(4)],
        stride: vec![Expr::Int(4), Expr::Int(1)],
        storage_offset: Expr::Int(0),
        requires_grad: false,
        device: Device::Cpu,
        layout: Layout::Strided,
        memory_format: None,
    })
}
/// A program of one call on `x` and a weight.
fn program(target: &str) -> ExportedProgram {
    let mut g = Graph::new();
    let w = g.placeholder("p_weight");
    let x = g.placeholder("x");
    let y = g.call_function(target, [x, w], []);
    for n in [x, y] {
        g.meta_mut(n).val = Some(meta());
    }
    g.output(Argument::Tuple(vec![Argument::Node(y)]));
    let name = g.node(y).name.clone();
    let input = |kind, name: &str, target: Option<&str>| InputSpec {
        kind,
        arg: ArgumentSpec::Tensor(name.into()),
        target: target.map(str::to_string),
        persistent: None,
    };
    ExportedProgram {
        graph_module: GraphModule::new(g),
        graph_signature: ExportGraphSignature {
            input_specs: vec![
                input(InputKind::Parameter, "p_weight", Some("weight")),
                input(InputKind::UserInput, "x", None),
            ],
            output_specs: vec![OutputSpec {
                kind: OutputKind::UserOutput,
                arg: ArgumentSpec::Tensor(name),
                target: None,
            }],
        },
        state_dict: vec![("weight".into(), Tensor::from_vec(vec![1.5f32; 4], [4]))],
        constants: Vec::new(),
        range_constraints: Vec::new(),
        module_call_graph: Vec::new(),
        example_inputs: None,
        guards_code: Vec::new(),
    }
}
#[test]
fn structure_names_and_round_trip() {
    let options = ExportOptions::new().dynamic_axes(&[("x", 0, "batch")]).output_names(&["result"]);
    let model = try_export(&program("torch.ops.aten.mul.Tensor"), options).unwrap();
    assert_eq!((model.input_names(), model.output_names()), (vec!["x"], vec!["result"]));
    // another name of an output is a copy
    assert_eq!(model.operators(), ["Identity", "Mul"]);
    let proto = model.model_proto().unwrap();
    let again = ModelProto::decode(&proto.encode_to_vec()[..]).unwrap();
    assert_eq!(again, proto);
    let g = again.graph.unwrap();
    assert_eq!(g.initializer[0].name.as_deref(), Some("weight"));
    let tensor = g.input[0].r#type.clone().unwrap().tensor_type.unwrap();
    assert_eq!(tensor.shape.unwrap().dim[0].dim_param.as_deref(), Some("batch"));
}
#[test]
fn errors_say_what_to_do() {
    let e = try_export(&program("torch.ops.mine.twice.default"), ExportOptions::new()).unwrap_err();
    assert!(e.message().contains("node 'twice") && e.message().contains("mine.twice.default"), "{e}");
    let old = ExportOptions::new().opset_version(17);
    assert!(
        try_export(&program("torch.ops.aten.mul.Tensor"), old).unwrap_err().message().contains("18 to 23")
    );
    let no = ExportOptions::new().dynamic_axes(&[("x", 1, "n")]);
    assert!(try_export(&program("torch.ops.aten.mul.Tensor"), no).unwrap_err().message().contains("is 4"));
}
#[test]
fn own_translations_come_first() {
    let table = Registry::new().register("mine::twice", |b, call| {
        let x = call.tensor(0, "x")?;
        Ok(Arg::Var(b.mul_number(&x, 2.0)?))
    });
    let options = ExportOptions::new().custom_translation_table(table);
    let model = try_export(&program("torch.ops.mine.twice.default"), options).unwrap();
    assert_eq!(model.operators(), ["Mul"]);
}
#[test]
fn weights_are_applied_and_saved() {
    let mut model = try_export(&program("torch.ops.aten.add.Tensor"), ExportOptions::new()).unwrap();
    model.apply_weights(&[("weight".into(), Tensor::from_vec(vec![7f32; 4], [4]))]).unwrap();
    assert!(model.apply_weights(&[("other".into(), Tensor::from_vec(vec![7f32; 4], [4]))]).is_err());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    model.save_with(&path, SaveOptions::new().external_data(true)).unwrap();
    let read = ModelProto::decode(&std::fs::read(&path).unwrap()[..]).unwrap();
    // small ones stay in the model's file
    assert_eq!(
        read.graph.unwrap().initializer[0].raw_data.as_deref(),
        Some(&7f32.to_le_bytes().repeat(4)[..])
    );
}
