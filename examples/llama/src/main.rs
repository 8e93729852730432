//! `cargo run --release -p llama -- FOLDER "Once upon a time" [--tokens 100] [--temperature 0.8] [--top-k 40] [--top-p 0.95]
//! [--seed 0] [--dtype f32|bf16] [--ids]`: writes on, token by token. With `--ids` the prompt is token ids, and ids are printed.

use llama::model::Llama;
use llama::sample::Sampling;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use tokenizers::Tokenizer;
use torch::DType;

struct Arguments {
    plain: Vec<String>,
    flags: Vec<(String, String)>,
}

impl Arguments {
    fn read() -> Result<Arguments, String> {
        const KNOWN: [&str; 6] = ["--tokens", "--temperature", "--top-k", "--top-p", "--seed", "--dtype"];
        let (mut plain, mut flags) = (Vec::new(), Vec::new());
        let mut args = std::env::args().skip(1);
        while let Some(a) = args.next() {
            if a == "--ids" {
                flags.push((a, String::new()));
            } else if KNOWN.contains(&&*a) {
                let value = args.next().ok_or(format!("{a} needs a value"))?;
                flags.push((a, value));
            } else if a.starts_with("--") {
                return Err(format!("{a}: not one of {}, --ids", KNOWN.join(", ")));
            } else {
                plain.push(a);
            }
        }
        Ok(Arguments { plain, flags })
    }
    fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(n, _)| n == name)
    }
    fn value<T: std::str::FromStr>(&self, name: &str, otherwise: T) -> Result<T, String> {
        match self.flags.iter().find(|(n, _)| n == name) {
            None => Ok(otherwise),
            Some((_, v)) => v.parse().map_err(|_| format!("{name} {v}: not understood")),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let args = Arguments::read()?;
    let [folder, prompt] = &args.plain[..] else {
        return Err("usage: llama FOLDER PROMPT [--tokens N] [--temperature T] [--top-k K] [--top-p P] [--seed S] [--ids]".into());
    };
    let dtype = match args.value("--dtype", "f32".to_string())?.as_str() {
        "f32" => DType::F32,
        "bf16" => DType::BF16,
        other => return Err(format!("--dtype {other}: f32 or bf16").into()),
    };
    torch::manual_seed(args.value("--seed", 0)?);
    let sampling = Sampling {
        temperature: args.value("--temperature", 0.0)?,
        top_k: args.value("--top-k", 0)?,
        top_p: args.value("--top-p", 1.0)?,
    };
    let count: usize = args.value("--tokens", 100)?;
    let start = Instant::now();
    let model = Llama::load(Path::new(folder), dtype)?;
    let loaded = start.elapsed();

    let start = Instant::now();
    let mut first = None;
    let mut seen = || _ = first.get_or_insert_with(|| start.elapsed());
    let written = if args.has("--ids") {
        let prompt = prompt.split(',').map(|t| t.trim().parse()).collect::<Result<Vec<i64>, _>>()?;
        llama::generate(&model, &prompt, count, &sampling, |token| {
            seen();
            print!("{token} ");
            std::io::stdout().flush().is_ok()
        })?
    } else {
        let tokenizer = Tokenizer::from_file(Path::new(folder).join("tokenizer.json"))?;
        let ids: Vec<i64> =
            tokenizer.encode(prompt.as_str(), true)?.get_ids().iter().map(|id| i64::from(*id)).collect();
        print!("{prompt}");
        // pieces of a character come in several tokens: the stream holds them back until they are whole
        let mut stream = tokenizer.decode_stream(true);
        llama::generate(&model, &ids, count, &sampling, |token| {
            seen();
            let piece = u32::try_from(token).ok().and_then(|t| stream.step(t).ok().flatten());
            print!("{}", piece.unwrap_or_default());
            // a closed pipe ends the text
            std::io::stdout().flush().is_ok()
        })?
    };
    println!();
    let (all, first) = (start.elapsed(), first.unwrap_or_default());
    let later = written.len().saturating_sub(1);
    let each = (all - first).as_secs_f64() * 1e3 / later.max(1) as f64;
    eprintln!(
        "loaded in {:.2} s; first token after {:.0} ms; {later} more, {each:.1} ms each",
        loaded.as_secs_f64(),
        first.as_secs_f64() * 1e3,
    );
    Ok(())
}
