//! The small model against itself, and against transformers where Python has it.

use llama::generate;
use llama::model::Llama;
use llama::sample::Sampling;
use std::path::Path;
use std::process::Command;
use torch::prelude::*;
use torch::serialization::save_sharded;

const CONFIG: &str = r#"{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 50, "rms_norm_eps": 1e-6, "max_position_embeddings": 64, "rope_theta": 10000.0, "eos_token_id": null}"#;

/// A folder with random weights, in shards.
fn folder(config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config).unwrap();
    torch::manual_seed(0);
    let mut tensors = vec![("model.embed_tokens.weight".to_string(), torch::randn([50, 32]))];
    let small = |sizes: [i64; 2]| torch::randn(sizes) * 0.2;
    for i in 0..2 {
        let at = |part: &str| format!("model.layers.{i}.{part}.weight");
        tensors.push((at("input_layernorm"), torch::ones(32)));
        tensors.push((at("post_attention_layernorm"), torch::ones(32)));
        for (part, out, input) in [
            ("self_attn.q_proj", 32, 32),
            ("self_attn.k_proj", 16, 32),
            ("self_attn.v_proj", 16, 32),
            ("self_attn.o_proj", 32, 32),
            ("mlp.gate_proj", 48, 32),
            ("mlp.up_proj", 48, 32),
            ("mlp.down_proj", 32, 48),
        ] {
            tensors.push((at(part), small([out, input])));
        }
    }
    tensors.push(("model.norm.weight".into(), torch::ones(32)));
    tensors.push(("lm_head.weight".into(), torch::randn([50, 32])));
    let files = save_sharded(tensors, dir.path(), "model", 10_000, None).unwrap();
    assert!(files.len() > 1);
    dir
}

#[test]
fn one_by_one_is_all_at_once() {
    let dir = folder(CONFIG);
    let model = Llama::load(dir.path(), f32).unwrap();
    let tokens = [3, 1, 4, 1, 5, 9, 2, 6];
    let whole = model.read(&mut model.begin(8).unwrap(), &tokens).unwrap();
    let mut session = model.begin(8).unwrap();
    let mut last = None;
    for t in tokens {
        last = Some(model.read(&mut session, &[t]).unwrap());
    }
    // in two parts: the second sees the first through a mask
    let mut session = model.begin(8).unwrap();
    model.read(&mut session, &tokens[..3]).unwrap();
    let parts = model.read(&mut session, &tokens[3..]).unwrap();
    for other in [last.unwrap(), parts] {
        let apart = (&whole - other).abs().max().item::<f32>();
        assert!(apart < 1e-4, "{apart}");
    }
    assert!(model.read(&mut session, &[1]).is_err());
}

#[test]
fn choices_follow_the_logits() {
    let logits = torch::tensor([0.0, 3.0, 2.0, -1.0]);
    assert_eq!(Sampling::default().draw(&logits), 1);
    torch::manual_seed(1);
    let draw = |s: Sampling| {
        let mut seen: Vec<i64> = (0..200).map(|_| s.draw(&logits)).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    let hot = Sampling { temperature: 2.0, ..Sampling::default() };
    assert_eq!(draw(hot.clone()), [0, 1, 2, 3]);
    assert_eq!(draw(Sampling { top_k: 2, ..hot.clone() }), [1, 2]);
    assert_eq!(draw(Sampling { top_p: 0.1, ..hot }), [1]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let dir = folder(CONFIG);
    let error = |config: &str| {
        std::fs::write(dir.path().join("config.json"), config).unwrap();
        Llama::load(dir.path(), f32).err().expect("an error").to_string()
    };
    assert!(
        error(&CONFIG.replace("\"hidden_size\": 32", "\"hidden_size\": 64"))
            .contains("model.embed_tokens.weight")
    );
    assert!(
        error(&CONFIG.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"))
            .contains("model.layers.2")
    );
    assert!(
        error(&CONFIG.replace("\"num_attention_heads\": 4", "\"num_attention_heads\": 0"))
            .contains("above 0")
    );
    assert!(error("{}").contains("hidden_size"));
}

#[test]
fn tokens_are_those_of_transformers() {
    let python = std::env::var("FLAMBEAU_PYTHON").unwrap_or("python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("main.py");
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Command::new(&python).arg(&script).arg(dir.path()).args(args).output();
    if !run(&["--make"]).is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: no Python with transformers");
        return;
    }
    let out = run(&["1,2,3,4,5", "--tokens", "60", "--ids"]).unwrap();
    let theirs: Vec<i64> =
        String::from_utf8(out.stdout).unwrap().split_whitespace().map(|t| t.parse().unwrap()).collect();
    assert_eq!(theirs.len(), 60);
    let model = Llama::load(dir.path(), f32).unwrap();
    let ours = generate(&model, &[1, 2, 3, 4, 5], 60, &Sampling::default(), |_| true).unwrap();
    assert_eq!(ours, theirs);
}
