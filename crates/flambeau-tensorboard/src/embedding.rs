//! Points for the projector: files beside the events.

use crate::picture::{self, Picture};
use flambeau_core::text::PyText;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
use std::path::Path;

/// Options of [`add_embedding`](crate::SummaryWriter::add_embedding).
#[derive(Clone, Debug)]
pub struct EmbeddingOptions {
    metadata: Option<Vec<Vec<String>>>,
    header: Vec<String>,
    label_img: Option<Tensor>,
    global_step: i64,
    tag: String,
}
impl Default for EmbeddingOptions {
    fn default() -> Self {
        EmbeddingOptions {
            metadata: None,
            header: Vec::new(),
            label_img: None,
            global_step: 0,
            tag: "default".into(),
        }
    }
}
impl EmbeddingOptions {
    /// Points without labels, under the tag `default`.
    pub fn new() -> Self {
        Self::default()
    }
    /// A label for each point.
    pub fn metadata<T: Into<String>>(mut self, labels: impl IntoIterator<Item = T>) -> Self {
        self.metadata = Some(labels.into_iter().map(|l| vec![l.into()]).collect());
        self.header.clear();
        self
    }
    /// Several labels for each point, with the names of the columns.
    pub fn metadata_columns<T: Into<String>>(
        mut self,
        header: impl IntoIterator<Item = T>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        self.header = header.into_iter().map(Into::into).collect();
        self.metadata = Some(rows.into_iter().collect());
        self
    }
    /// A picture for each point (N, C, H, W).
    pub fn label_img(mut self, pictures: &Tensor) -> Self {
        self.label_img = Some(pictures.clone());
        self
    }
    /// The step.
    pub fn global_step(mut self, step: i64) -> Self {
        self.global_step = step;
        self
    }
    /// The name.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into();
        self
    }
}

/// A tag as a folder's name.
fn encode(tag: &str) -> String {
    tag.replace('%', "%25").replace('/', "%2f").replace('\\', "%5c")
}
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|e| Error::io(format!("{}: {e}", path.display())))
}
/// A string of protobuf's text format.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// All pictures in one square picture.
fn sprite(pictures: &Tensor, path: &Path) -> Result<()> {
    ensure!(pictures.dim() == 4, Assertion, "Input should be a 4D numpy array with 3 channels");
    let side = (pictures.sizes()[0] as f64).sqrt().ceil() as i64;
    let pictures = ops::contiguous(pictures, flambeau_core::MemoryFormat::Contiguous)?;
    let grid = picture::grid(&pictures, side)?;
    let (height, width) = (grid.sizes()[1] as usize, grid.sizes()[2] as usize);
    let mut pixels = picture::bytes(&ops::permute(&grid, &[1, 2, 0])?, 255.0)?;
    ensure!(height <= width, Value, "pictures that are higher than wide do not fit into a square sprite");
    pixels.resize(width * width * 3, 0);
    write(path, &picture::png(&Picture { height: width, width, channels: 3, pixels })?)
}

/// Writes the files of one embedding; its entry in the projector's configuration.
pub fn make(log_dir: &Path, mat: &Tensor, o: &EmbeddingOptions) -> Result<String> {
    ensure!(mat.dim() == 2, Assertion, "mat should be 2D, where mat.size(0) is the number of data points");
    let (points, width) = (mat.sizes()[0] as usize, mat.sizes()[1] as usize);
    let subdir = format!("{:05}/{}", o.global_step, encode(&o.tag));
    let dir = log_dir.join(&subdir);
    if let Some(rows) = &o.metadata {
        ensure!(rows.len() == points, Assertion, "#labels should equal with #data points");
        let columns = if o.header.is_empty() { 1 } else { o.header.len() };
        ensure!(
            rows.iter().all(|r| r.len() == columns),
            Assertion,
            "len of header must be equal to the number of columns in metadata"
        );
    }
    if let Some(pictures) = &o.label_img {
        let fits = pictures.sizes().first() == Some(&(points as i64));
        ensure!(fits, Assertion, "#images should equal with #data points");
    }
    std::fs::create_dir_all(&dir).map_err(|e| Error::io(format!("{}: {e}", dir.display())))?;

    let mut entry =
        format!("embeddings {{\n  tensor_name: {}\n", quoted(&format!("{}:{:05}", o.tag, o.global_step)));
    if let Some(rows) = &o.metadata {
        let header = (!o.header.is_empty()).then_some(&o.header);
        let text: String = header.into_iter().chain(rows).map(|r| r.join("\t") + "\n").collect();
        write(&dir.join("metadata.tsv"), text.as_bytes())?;
        entry += &format!("  metadata_path: {}\n", quoted(&format!("{subdir}/metadata.tsv")));
    }
    if let Some(pictures) = &o.label_img {
        sprite(pictures, &dir.join("sprite.png"))?;
        let (h, w) = (pictures.sizes()[2], pictures.sizes()[3]);
        let path = quoted(&format!("{subdir}/sprite.png"));
        entry += &format!(
            "  sprite {{\n    image_path: {path}\n    single_image_dim: {w}\n    single_image_dim: {h}\n  }}\n"
        );
    }
    let number: fn(f64) -> String = if mat.is_floating_point() || mat.dtype() == DType::Bool {
        |v| v.py_text()
    } else {
        |v| format!("{v}")
    };
    let values = mat.try_to_vec::<f64>()?;
    let row = |r: &[f64]| r.iter().map(|v| number(*v)).collect::<Vec<_>>().join("\t") + "\n";
    let text: String = values.chunks_exact(width.max(1)).map(row).collect();
    write(&dir.join("tensors.tsv"), text.as_bytes())?;
    entry += &format!("  tensor_path: {}\n}}\n", quoted(&format!("{subdir}/tensors.tsv")));
    Ok(entry)
}

/// The configuration of all embeddings so far.
pub fn configure(log_dir: &Path, entries: &[String]) -> Result<()> {
    write(&log_dir.join("projector_config.pbtxt"), entries.concat().as_bytes())
}
