//! The writer.

use crate::embedding::{self, EmbeddingOptions};
use crate::events::{EventFile, FILE_VERSION, host, now};
use crate::histogram::{self, HistogramOptions, RawHistogram};
use crate::hparams::{self, HParam, HParamOptions};
use crate::picture::{self, BoxOptions, Figure};
use crate::proto::{Event, SESSION_START, SessionLog, Summary, TaggedRunMetadata, Value};
use crate::summary::{self, Chart, MeshOptions, PrCurveOptions, RawPrCurve, ScalarOptions};
use crate::values::{IntoStep, ScalarValue};
use crate::{audio, graph, video};
use flambeau_core::text::PyText;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Result, Tensor, ensure};
use flambeau_nn::{Call, Module};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// Options of [`SummaryWriter`].
#[derive(Clone, Debug)]
pub struct SummaryWriterOptions {
    log_dir: Option<PathBuf>,
    comment: String,
    purge_step: Option<i64>,
    max_queue: usize,
    flush_secs: f64,
    filename_suffix: String,
}
impl Default for SummaryWriterOptions {
    fn default() -> Self {
        SummaryWriterOptions {
            log_dir: None,
            comment: String::new(),
            purge_step: None,
            max_queue: 10,
            flush_secs: 120.0,
            filename_suffix: String::new(),
        }
    }
}
impl SummaryWriterOptions {
    /// Into `runs/DATE_TIME_HOST`, the time in UTC.
    pub fn new() -> Self {
        Self::default()
    }
    /// The folder.
    pub fn log_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(dir.into());
        self
    }
    /// A suffix to the folder's name where none is given.
    pub fn comment(mut self, text: impl Into<String>) -> Self {
        self.comment = text.into();
        self
    }
    /// TensorBoard hides events of this step and later ones from before: for a run that goes on after a crash.
    pub fn purge_step(mut self, step: i64) -> Self {
        self.purge_step = Some(step);
        self
    }
    /// How many events may wait to be written. Default: 10.
    pub fn max_queue(mut self, events: usize) -> Self {
        self.max_queue = events;
        self
    }
    /// How long they may wait, in seconds. Default: 120.
    pub fn flush_secs(mut self, seconds: f64) -> Self {
        self.flush_secs = seconds;
        self
    }
    /// A suffix to the names of files.
    pub fn filename_suffix(mut self, text: impl Into<String>) -> Self {
        self.filename_suffix = text.into();
        self
    }
    /// The writer.
    ///
    /// # Errors
    /// The folder or the file cannot be made.
    pub fn build(self) -> Result<SummaryWriter> {
        let log_dir = self.log_dir.clone().unwrap_or_else(|| {
            Path::new("runs").join(format!("{}_{}{}", date(now() as i64), host(), self.comment))
        });
        let state = State { files: HashMap::new(), purge: self.purge_step, embeddings: Vec::new() };
        let writer = SummaryWriter {
            inner: Arc::new(Inner { log_dir, options: self, state: Mutex::new(state) }),
            walltime: None,
        };
        let mut state = writer.inner.lock();
        writer.inner.file(&mut state, &writer.inner.log_dir)?;
        drop(state);
        Ok(writer)
    }
}

/// `Nov22_05-37-56` of seconds since 1970.
fn date(seconds: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // days since 1 March of year 0, in cycles of 400 years (H. Hinnant, "chrono-compatible low-level date algorithms")
    let z = days + 719_468;
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let name = MONTHS[((month + 2) % 12) as usize];
    format!("{name}{day:02}_{:02}-{:02}-{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

struct State {
    files: HashMap<PathBuf, EventFile>,
    /// The step to purge from, until it is written.
    purge: Option<i64>,
    embeddings: Vec<String>,
}
struct Inner {
    log_dir: PathBuf,
    options: SummaryWriterOptions,
    state: Mutex<State>,
}
impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The file in a folder, made where there is none.
    fn file<'a>(&self, state: &'a mut State, dir: &Path) -> Result<&'a EventFile> {
        if !state.files.contains_key(dir) {
            let o = &self.options;
            let file = EventFile::new(dir, o.max_queue, o.flush_secs, &o.filename_suffix)?;
            if let Some(step) = state.purge.take_if(|_| dir == self.log_dir) {
                let event = Event { wall_time: now(), step, ..Event::default() };
                file.add(&Event { file_version: Some(FILE_VERSION.into()), ..event.clone() })?;
                file.add(&Event { session_log: Some(SessionLog { status: SESSION_START }), ..event })?;
            }
            state.files.insert(dir.to_path_buf(), file);
        }
        Ok(&state.files[dir])
    }
}

/// Writes what TensorBoard shows into a folder.
///
/// A handle: clones write into the same files, from any thread. Events are written by a thread of their own, at the latest
/// after `flush_secs`; [`SummaryWriter::flush`] waits for it and tells of its errors. After [`SummaryWriter::close`], adding
/// something begins a new file.
#[doc(alias = "torch.utils.tensorboard.SummaryWriter")]
#[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter")]
#[derive(Clone)]
pub struct SummaryWriter {
    inner: Arc<Inner>,
    walltime: Option<f64>,
}
impl fmt::Debug for SummaryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryWriter").field("log_dir", &self.inner.log_dir).finish_non_exhaustive()
    }
}

impl SummaryWriter {
    /// Into a folder, which is made where it does not exist.
    ///
    /// # Errors
    /// The folder or the file cannot be made.
    pub fn new(log_dir: impl Into<PathBuf>) -> Result<Self> {
        SummaryWriterOptions::new().log_dir(log_dir).build()
    }
    /// The folder.
    pub fn log_dir(&self) -> &Path {
        &self.inner.log_dir
    }
    /// The same writer, with a fixed time for what is added (PyTorch's `walltime`), in seconds since 1970.
    pub fn at(&self, walltime: f64) -> Self {
        SummaryWriter { inner: self.inner.clone(), walltime: Some(walltime) }
    }
    fn event(&self, step: impl IntoStep) -> Event {
        Event {
            wall_time: self.walltime.unwrap_or_else(now),
            step: step.into_step().unwrap_or(0),
            ..Event::default()
        }
    }
    fn add_to(&self, dir: &Path, events: &[Event]) -> Result<()> {
        let mut state = self.inner.lock();
        let file = self.inner.file(&mut state, dir)?;
        events.iter().try_for_each(|e| file.add(e))
    }
    fn add(&self, values: Vec<Value>, step: impl IntoStep) -> Result<()> {
        let event = Event { summary: Some(Summary { value: values }), ..self.event(step) };
        self.add_to(&self.inner.log_dir, &[event])
    }

    /// A number of a curve.
    ///
    /// # Errors
    /// Of a tensor: it has not one element. As all methods: the file cannot be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_scalar")]
    pub fn add_scalar(&self, tag: &str, value: impl ScalarValue, step: impl IntoStep) -> Result<()> {
        self.add_scalar_with(tag, value, step, ScalarOptions::new())
    }
    /// [`SummaryWriter::add_scalar`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_scalar_with(
        &self,
        tag: &str,
        value: impl ScalarValue,
        step: impl IntoStep,
        options: ScalarOptions,
    ) -> Result<()> {
        self.add(vec![summary::scalar(tag, value.scalar()?, &options)], step)
    }
    /// Numbers of several curves in one picture. Each has a file in a folder of its own.
    ///
    /// # Errors
    /// As [`SummaryWriter::add_scalar`].
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_scalars")]
    pub fn add_scalars<T: AsRef<str>, V: ScalarValue>(
        &self,
        main_tag: &str,
        values: impl IntoIterator<Item = (T, V)>,
        step: impl IntoStep,
    ) -> Result<()> {
        let event = self.event(step);
        for (tag, number) in values {
            let mut dir = self.inner.log_dir.clone().into_os_string();
            dir.push(format!("/{}_{}", main_tag.replace('/', "_"), tag.as_ref()));
            let value = summary::scalar(main_tag, number.scalar()?, &ScalarOptions::new());
            let event = Event { summary: Some(Summary { value: vec![value] }), ..event.clone() };
            self.add_to(Path::new(&dir), &[event])?;
        }
        Ok(())
    }
    /// A tensor as it is.
    ///
    /// # Errors
    /// It is larger than 2 GB, or TensorBoard has no such dtype.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_tensor")]
    pub fn add_tensor(&self, tag: &str, tensor: &Tensor, step: impl IntoStep) -> Result<()> {
        self.add(vec![summary::tensor(tag, tensor)?], step)
    }
    /// How the values of a tensor are distributed.
    ///
    /// # Errors
    /// No element, or bins that hold none.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_histogram")]
    pub fn add_histogram(&self, tag: &str, values: &Tensor, step: impl IntoStep) -> Result<()> {
        self.add_histogram_with(tag, values, step, HistogramOptions::new())
    }
    /// [`SummaryWriter::add_histogram`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_histogram_with(
        &self,
        tag: &str,
        values: &Tensor,
        step: impl IntoStep,
        options: HistogramOptions,
    ) -> Result<()> {
        let histo = histogram::make(&values.try_to_vec::<f64>()?, &options)?;
        self.add(vec![Value { histo: Some(histo), ..summary::value(tag) }], step)
    }
    /// A histogram that was counted elsewhere.
    ///
    /// # Errors
    /// Not as many limits as counts.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_histogram_raw")]
    pub fn add_histogram_raw(&self, tag: &str, histogram: &RawHistogram, step: impl IntoStep) -> Result<()> {
        self.add(vec![Value { histo: Some(histogram.proto()?), ..summary::value(tag) }], step)
    }
    /// A picture (C, H, W): bytes, or numbers from 0 to 1. One channel is grey, three are colours, four have opacity.
    ///
    /// # Errors
    /// Not a picture.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_image")]
    pub fn add_image(&self, tag: &str, image: &Tensor, step: impl IntoStep) -> Result<()> {
        self.add_image_as(tag, image, step, "CHW")
    }
    /// A picture whose dimensions are in another order: `"HWC"`, `"HW"`.
    ///
    /// # Errors
    /// As [`SummaryWriter::add_image`].
    pub fn add_image_as(
        &self,
        tag: &str,
        image: &Tensor,
        step: impl IntoStep,
        dataformats: &str,
    ) -> Result<()> {
        self.add(vec![picture::make(tag, image, dataformats)?], step)
    }
    /// Pictures (N, C, H, W), side by side.
    ///
    /// # Errors
    /// As [`SummaryWriter::add_image`].
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_images")]
    pub fn add_images(&self, tag: &str, images: &Tensor, step: impl IntoStep) -> Result<()> {
        self.add_image_as(tag, images, step, "NCHW")
    }
    /// A drawing: pixels, or a PNG file as plotting libraries write it. PyTorch's takes a figure of matplotlib, which it
    /// turns into pixels.
    ///
    /// # Errors
    /// Not a picture, not a PNG file.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_figure")]
    pub fn add_figure(&self, tag: &str, figure: impl Into<Figure>, step: impl IntoStep) -> Result<()> {
        self.add(vec![picture::figure(tag, figure.into())?], step)
    }
    /// A picture (C, H, W) with red frames `[xmin, ymin, xmax, ymax]` (N, 4).
    ///
    /// # Errors
    /// As [`SummaryWriter::add_image`].
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_image_with_boxes")]
    pub fn add_image_with_boxes(
        &self,
        tag: &str,
        image: &Tensor,
        boxes: &Tensor,
        step: impl IntoStep,
    ) -> Result<()> {
        self.add_image_with_boxes_with(tag, image, boxes, step, BoxOptions::new())
    }
    /// [`SummaryWriter::add_image_with_boxes`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_image_with_boxes_with(
        &self,
        tag: &str,
        image: &Tensor,
        boxes: &Tensor,
        step: impl IntoStep,
        options: BoxOptions,
    ) -> Result<()> {
        self.add(vec![picture::with_boxes(tag, image, boxes, &options)?], step)
    }
    /// Moving pictures (N, T, C, H, W), side by side, so many frames a second.
    ///
    /// # Errors
    /// Not such a tensor, or too large for a GIF.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_video")]
    pub fn add_video(&self, tag: &str, video: &Tensor, step: impl IntoStep, fps: f64) -> Result<()> {
        self.add(vec![video::make(tag, video, fps)?], step)
    }
    /// Sound (1, L) from -1 to 1, at so many samples a second.
    ///
    /// # Errors
    /// More than one dimension.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_audio")]
    pub fn add_audio(&self, tag: &str, sound: &Tensor, step: impl IntoStep, sample_rate: u32) -> Result<()> {
        self.add(vec![audio::make(tag, sound, sample_rate)?], step)
    }
    /// A text, in Markdown.
    ///
    /// # Errors
    /// The file cannot be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_text")]
    pub fn add_text(&self, tag: &str, text: &str, step: impl IntoStep) -> Result<()> {
        self.add(vec![summary::text(tag, text)], step)
    }
    /// The graph of a model: the operator calls of `model.call(input)` in evaluation mode, in the scopes of its modules.
    ///
    /// # Errors
    /// The file cannot be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_graph")]
    pub fn add_graph<M>(&self, model: &M, input: &Tensor) -> Result<()>
    where
        M: Module + for<'a> Call<&'a Tensor, Output = Tensor>,
    {
        self.add_graph_of(model, std::slice::from_ref(input), |x| vec![model.call(&x[0])])
    }
    /// The graph of `run(inputs)`, for models that take or give more than one tensor.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_graph_of(
        &self,
        model: &impl Module,
        inputs: &[Tensor],
        run: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Result<()> {
        let (graph_def, run_metadata) = graph::record(model.as_module(), inputs, run)?;
        let event = Event { graph_def: Some(graph_def), ..self.event(()) };
        let tagged = TaggedRunMetadata { tag: "step1".into(), run_metadata };
        let stats = Event { tagged_run_metadata: Some(tagged), ..self.event(()) };
        self.add_to(&self.inner.log_dir, &[event, stats])
    }
    /// Points (N, D) for the projector, with labels and pictures.
    ///
    /// # Errors
    /// Not as many labels or pictures as points, or the files cannot be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_embedding")]
    pub fn add_embedding(&self, mat: &Tensor) -> Result<()> {
        self.add_embedding_with(mat, EmbeddingOptions::new())
    }
    /// [`SummaryWriter::add_embedding`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_embedding_with(&self, mat: &Tensor, options: EmbeddingOptions) -> Result<()> {
        let entry = embedding::make(&self.inner.log_dir, mat, &options)?;
        let mut state = self.inner.lock();
        state.embeddings.push(entry);
        embedding::configure(&self.inner.log_dir, &state.embeddings)
    }
    /// Precision against recall of predictions from 0 to 1, with labels 0 and 1.
    ///
    /// # Errors
    /// Labels, predictions and weights differ in number.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_pr_curve")]
    pub fn add_pr_curve(
        &self,
        tag: &str,
        labels: &Tensor,
        predictions: &Tensor,
        step: impl IntoStep,
    ) -> Result<()> {
        self.add_pr_curve_with(tag, labels, predictions, step, PrCurveOptions::new())
    }
    /// [`SummaryWriter::add_pr_curve`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_pr_curve_with(
        &self,
        tag: &str,
        labels: &Tensor,
        predictions: &Tensor,
        step: impl IntoStep,
        options: PrCurveOptions,
    ) -> Result<()> {
        self.add(vec![summary::pr_curve(tag, labels, predictions, &options)?], step)
    }
    /// Precision and recall that were counted elsewhere.
    ///
    /// # Errors
    /// The lists are not of one length.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_pr_curve_raw")]
    pub fn add_pr_curve_raw(
        &self,
        tag: &str,
        curve: &RawPrCurve,
        step: impl IntoStep,
        num_thresholds: usize,
    ) -> Result<()> {
        self.add(vec![summary::pr_curve_raw(tag, curve, num_thresholds)?], step)
    }
    /// Which curves stand in which charts, by category and title.
    ///
    /// # Errors
    /// The file cannot be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_custom_scalars")]
    pub fn add_custom_scalars<C: AsRef<str>, T: AsRef<str>>(
        &self,
        layout: &[(C, Vec<(T, Chart)>)],
    ) -> Result<()> {
        self.add(vec![summary::custom_scalars(layout)], ())
    }
    /// One chart with several curves.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_custom_scalars_multilinechart(
        &self,
        tags: &[&str],
        category: &str,
        title: &str,
    ) -> Result<()> {
        let chart = Chart::Multiline(tags.iter().map(|t| (*t).to_string()).collect());
        self.add_custom_scalars(&[(category, vec![(title, chart)])])
    }
    /// One chart with a curve, the one below it and the one above it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_custom_scalars_marginchart(
        &self,
        [value, lower, upper]: [&str; 3],
        category: &str,
        title: &str,
    ) -> Result<()> {
        let chart = Chart::Margin { value: value.into(), lower: lower.into(), upper: upper.into() };
        self.add_custom_scalars(&[(category, vec![(title, chart)])])
    }
    /// Points in space (B, N, 3), with colours and faces.
    ///
    /// # Errors
    /// A tensor has not three dimensions.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_mesh")]
    pub fn add_mesh(&self, tag: &str, vertices: &Tensor, step: impl IntoStep) -> Result<()> {
        self.add_mesh_with(tag, vertices, step, MeshOptions::new())
    }
    /// [`SummaryWriter::add_mesh`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_mesh_with(
        &self,
        tag: &str,
        vertices: &Tensor,
        step: impl IntoStep,
        options: MeshOptions,
    ) -> Result<()> {
        self.add(summary::mesh(tag, vertices, &options)?, step)
    }
    /// The hyper-parameters of a run and what came of them, as a run of its own below this one.
    ///
    /// # Errors
    /// The domain of an unknown hyper-parameter, or of another type.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.add_hparams")]
    pub fn add_hparams<K: AsRef<str>, V: Into<HParam>, N: AsRef<str>, S: ScalarValue>(
        &self,
        hparams: impl IntoIterator<Item = (K, V)>,
        metrics: impl IntoIterator<Item = (N, S)>,
    ) -> Result<()> {
        self.add_hparams_with(hparams, metrics, HParamOptions::new())
    }
    /// [`SummaryWriter::add_hparams`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn add_hparams_with<K: AsRef<str>, V: Into<HParam>, N: AsRef<str>, S: ScalarValue>(
        &self,
        hparams: impl IntoIterator<Item = (K, V)>,
        metrics: impl IntoIterator<Item = (N, S)>,
        options: HParamOptions,
    ) -> Result<()> {
        let hparams: Vec<(String, HParam)> =
            hparams.into_iter().map(|(k, v)| (k.as_ref().to_string(), v.into())).collect();
        let metrics: Vec<(String, f64)> = metrics
            .into_iter()
            .map(|(k, v)| Ok((k.as_ref().to_string(), v.scalar()?)))
            .collect::<Result<_>>()?;
        let names: Vec<String> = metrics.iter().map(|m| m.0.clone()).collect();
        let values = hparams::make(&hparams, &names, &options)?;
        let run = options.run_name.clone().unwrap_or_else(|| now().py_text());
        ensure!(!run.is_empty(), Value, "run_name is empty");
        let writer = SummaryWriter::new(self.inner.log_dir.join(run))?;
        let writer = self.walltime.map_or_else(|| writer.clone(), |t| writer.at(t));
        for value in values {
            writer.add(vec![value], options.global_step)?;
        }
        for (name, number) in metrics {
            writer.add_scalar(&name, number, options.global_step)?;
        }
        writer.close()
    }

    /// Waits until everything that was added is in the files.
    ///
    /// # Errors
    /// Something could not be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.flush")]
    pub fn flush(&self) -> Result<()> {
        self.inner.lock().files.values().try_for_each(EventFile::flush)
    }
    /// Flushes and closes the files.
    ///
    /// # Errors
    /// Something could not be written.
    #[doc(alias = "torch.utils.tensorboard.writer.SummaryWriter.close")]
    pub fn close(&self) -> Result<()> {
        let files = std::mem::take(&mut self.inner.lock().files);
        files.values().try_for_each(EventFile::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(0), "Jan01_00-00-00");
        assert_eq!(date(951_782_400), "Feb29_00-00-00");
        assert_eq!(date(1_795_325_876), "Nov22_05-37-56");
        assert_eq!(date(1_767_225_599), "Dec31_23-59-59");
    }
}
