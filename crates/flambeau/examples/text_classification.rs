//! Tells the language of numbers written out in words, from the letters alone: `EmbeddingBag` over pieces of three letters,
//! and one linear layer on the mean.
//! `cargo run --release --example text_classification [-- --epochs 8] [--out text_classification.png]`
//!
//! The texts are the numbers from 0 to 999 in five languages, spelled by the rules below, so everybody can check them. A fifth
//! of the numbers is kept back, in all languages.
//!
//! text_classification.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, Frame, RED};
use common::{Flags, Outcome, progress};
use torch::prelude::*;
use torch::utils::data::{DataLoader, DataLoaderOptions, Dataset, random_split};
use torch::{nn, optim};

const LANGUAGES: [&str; 5] = ["English", "German", "French", "Spanish", "Italian"];
/// Rows of the table: pieces of letters are counted modulo this.
const ROWS: u64 = 2048;
const WIDTH: i64 = 16;
const BATCH: usize = 32;

fn small(words: &'static str, i: usize) -> &'static str {
    words.split_whitespace().nth(i).unwrap_or_default()
}

fn english(n: usize) -> String {
    const ONES: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
                        sixteen seventeen eighteen nineteen";
    const TENS: &str = "- - twenty thirty forty fifty sixty seventy eighty ninety";
    match n {
        0..20 => small(ONES, n).into(),
        20..100 if n.is_multiple_of(10) => small(TENS, n / 10).into(),
        20..100 => format!("{}-{}", small(TENS, n / 10), small(ONES, n % 10)),
        _ if n.is_multiple_of(100) => format!("{} hundred", small(ONES, n / 100)),
        _ => format!("{} hundred and {}", small(ONES, n / 100), english(n % 100)),
    }
}

fn german(n: usize) -> String {
    const ONES: &str = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn \
                        sechzehn siebzehn achtzehn neunzehn";
    const TENS: &str = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig";
    // "eins" loses its s before another word
    let joined = |n| if n == 1 { "ein" } else { small(ONES, n) };
    match n {
        0..20 => small(ONES, n).into(),
        20..100 if n.is_multiple_of(10) => small(TENS, n / 10).into(),
        20..100 => format!("{}und{}", joined(n % 10), small(TENS, n / 10)),
        _ if n.is_multiple_of(100) => format!("{}hundert", joined(n / 100)),
        _ => format!("{}hundert{}", joined(n / 100), german(n % 100)),
    }
}

fn french(n: usize) -> String {
    const ONES: &str = "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize \
                        dix-sept dix-huit dix-neuf";
    const TENS: &str = "- - vingt trente quarante cinquante soixante";
    match n {
        0..20 => small(ONES, n).into(),
        20..70 => match n % 10 {
            0 => small(TENS, n / 10).into(),
            1 => format!("{} et un", small(TENS, n / 10)),
            one => format!("{}-{}", small(TENS, n / 10), small(ONES, one)),
        },
        71 => "soixante et onze".into(),
        70..80 => format!("soixante-{}", french(n - 60)),
        80 => "quatre-vingts".into(),
        81..100 => format!("quatre-vingt-{}", french(n - 80)),
        _ => {
            let hundreds = if n < 200 { "cent".into() } else { format!("{} cent", small(ONES, n / 100)) };
            match n % 100 {
                0 if n > 100 => format!("{hundreds}s"),
                0 => hundreds,
                rest => format!("{hundreds} {}", french(rest)),
            }
        }
    }
}

fn spanish(n: usize) -> String {
    const ONES: &str = "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis \
                        diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco \
                        veintiséis veintisiete veintiocho veintinueve";
    const TENS: &str = "- - - treinta cuarenta cincuenta sesenta setenta ochenta noventa";
    const HUNDREDS: &str = "- ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos \
                            ochocientos novecientos";
    match n {
        0..30 => small(ONES, n).into(),
        30..100 if n.is_multiple_of(10) => small(TENS, n / 10).into(),
        30..100 => format!("{} y {}", small(TENS, n / 10), small(ONES, n % 10)),
        100 => "cien".into(),
        _ if n.is_multiple_of(100) => small(HUNDREDS, n / 100).into(),
        _ => format!("{} {}", small(HUNDREDS, n / 100), spanish(n % 100)),
    }
}

fn italian(n: usize) -> String {
    const ONES: &str = "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici \
                        quindici sedici diciassette diciotto diciannove";
    const TENS: &str = "- - venti trenta quaranta cinquanta sessanta settanta ottanta novanta";
    match n {
        0..20 => small(ONES, n).into(),
        20..100 => {
            let (tens, one) = (small(TENS, n / 10), n % 10);
            // a vowel drops the one before it, and a three at the end has an accent
            match one {
                0 => tens.into(),
                1 | 8 => format!("{}{}", &tens[..tens.len() - 1], small(ONES, one)),
                3 => format!("{tens}tré"),
                _ => format!("{tens}{}", small(ONES, one)),
            }
        }
        _ => {
            let hundreds = if n < 200 { "cento".into() } else { format!("{}cento", small(ONES, n / 100)) };
            match n % 100 {
                0 => hundreds,
                3 => hundreds + "tré",
                rest => hundreds + &italian(rest),
            }
        }
    }
}

fn spelled(n: usize, language: usize) -> String {
    [english, german, french, spanish, italian][language](n)
}

/// The pieces of three letters, each as a row of the table (FNV-1a of its bytes).
fn pieces(text: &str) -> Vec<i64> {
    let letters: Vec<char> = format!("^{text}$").chars().collect();
    let row = |piece: &[char]| {
        let bytes = piece.iter().collect::<String>().into_bytes();
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
        (hash % ROWS) as i64
    };
    letters.windows(3).map(row).collect()
}

/// The pieces of several texts one after another, where each text begins, and the languages.
type Batch = (Tensor, Tensor, Tensor);

fn batch(samples: &[(String, i64)]) -> Batch {
    let (mut rows, mut starts) = (Vec::new(), Vec::new());
    for (text, _) in samples {
        starts.push(rows.len() as i64);
        rows.extend(pieces(text));
    }
    let vector = |v: Vec<i64>| {
        let n = v.len();
        Tensor::from_vec(v, [n])
    };
    (vector(rows), vector(starts), vector(samples.iter().map(|s| s.1).collect()))
}

#[derive(Debug, Module)]
struct Classifier {
    base: nn::Base,
    embedding: nn::EmbeddingBag,
    fc: nn::Linear,
}
impl Classifier {
    fn new() -> Self {
        Classifier {
            base: nn::Base::new(),
            embedding: nn::EmbeddingBag::new(ROWS as i64, WIDTH),
            fc: nn::Linear::new(WIDTH, LANGUAGES.len() as i64),
        }
    }
}
#[nn::forward]
impl Classifier {
    fn forward(&self, rows: &Tensor, starts: &Tensor) -> Tensor {
        self.fc.call(&self.embedding.call(rows, starts, None))
    }
}

fn accuracy(model: &Classifier, loader: &DataLoader<Batch>) -> f64 {
    let (mut right, mut all) = (0, 0);
    torch::no_grad(|| {
        for (rows, starts, languages) in loader {
            let guess = model.call(&rows, &starts).argmax_with(torch::options::ArgmaxOptions::new().dim(1));
            right += guess.eq(&languages).sum().item::<i64>();
            all += languages.numel();
        }
    });
    100.0 * right as f64 / all as f64
}

fn main() -> Outcome {
    let flags = Flags::read(&["--epochs"])?;
    let epochs: u64 = flags.number("--epochs", 8)?;
    torch::manual_seed(0);
    let parts = random_split((0..1000).collect::<Vec<usize>>(), [0.8, 0.2]);
    let loader = |part: usize| -> Result<DataLoader<Batch>, torch::Error> {
        let numbers = parts[part].get_many(&(0..parts[part].len()).collect::<Vec<_>>())?;
        let texts: Vec<(String, i64)> =
            numbers.iter().flat_map(|n| (0..LANGUAGES.len()).map(|l| (spelled(*n, l), l as i64))).collect();
        let options = DataLoaderOptions::new(texts).batch_size(BATCH).shuffle(part == 0);
        Ok(options.collate_fn(|samples| Ok(batch(&samples))).build())
    };
    let (train, test) = (loader(0)?, loader(1)?);
    let count = |l: &DataLoader<Batch>| l.dataset_len().unwrap_or_default();
    println!("{} texts to learn from, {} unseen", count(&train), count(&test));

    let model = Classifier::new();
    let criterion = nn::CrossEntropyLoss::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-2);
    let (mut losses, mut right) = (Vec::new(), Vec::new());
    let bar = progress(epochs * train.len() as u64, "step");
    for _ in 0..epochs {
        for (rows, starts, languages) in &train {
            optimizer.zero_grad();
            let loss = criterion.call(&model.call(&rows, &starts), &languages);
            loss.backward();
            optimizer.step();
            losses.push(loss.item::<f64>());
            bar.inc(1);
        }
        right.push(accuracy(&model, &test));
        bar.set_message(format!("{:.2} % of unseen texts right", right[right.len() - 1]));
    }
    bar.finish();

    println!("\nnumbers of no list:");
    let samples = [
        "one million",
        "zwei Millionen",
        "trois millions",
        "cuatro millones",
        "cinque milioni",
        "ninety-nine red balloons",
        "neunundneunzig Luftballons",
        "vingt mille lieues sous les mers",
        "cien años de soledad",
        "otto e mezzo",
    ];
    for text in samples {
        let (rows, starts, _) = batch(&[(text.to_lowercase(), 0)]);
        let odds = torch::no_grad(|| model.call(&rows, &starts)).softmax(1);
        let best = odds.argmax().item::<i64>() as usize;
        println!("  {text:33} {:8} {:5.1} %", LANGUAGES[best], 100.0 * odds.i((0, best)).item::<f64>());
    }
    let mut c = Canvas::new(980, 420);
    c.chart("training loss", Frame { x: 16, y: 16, w: 460, h: 390 }, &[("", BLUE, &losses)]);
    c.chart("% of unseen texts right", Frame { x: 500, y: 16, w: 460, h: 390 }, &[("", RED, &right)]);
    let out = flags.text("--out", "text_classification.png");
    c.save(out)?;
    println!("drew {out}: the loss, and what is right after each epoch");
    println!("accuracy on unseen texts: {:.2} %", right.last().copied().unwrap_or_default());
    losses.extend(right);
    flags.save_losses(&losses)
}
