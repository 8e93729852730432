//! `torch.load`.

use super::lazy::read_safetensors;
use super::{Sink, open, outward};
use crate::config;
use crate::container::{self, Kind, ReadSeek, ZipFile};
use crate::error::Error as FileError;
use crate::map_location::MapLocation;
use crate::safe_globals::{self, SafeGlobal};
use crate::torch_format::{self, ArchivePart, ReadOptions, Tree};
use flambeau_core::tensor::storage::MappedFile;
use flambeau_core::{Error, Result, Tensor};
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// Options of [`load_with`].
#[derive(Debug)]
pub struct LoadOptions<'a> {
    pub(super) map_location: MapLocation<'a>,
    weights_only: Option<bool>,
    verify: bool,
}
impl Default for LoadOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}
impl<'a> LoadOptions<'a> {
    /// The documented defaults.
    pub fn new() -> Self {
        LoadOptions { map_location: MapLocation::Saved, weights_only: None, verify: false }
    }
    /// Where the storages go: a device or its name, a map from place to place, or a function
    /// ([`MapLocation::with`]). With `"meta"` no data is read.
    pub fn map_location(mut self, to: impl Into<MapLocation<'a>>) -> Self {
        self.map_location = to.into();
        self
    }
    /// Off: classes and functions outside the list come as opaque [`Tree::Object`] and [`Tree::Global`] (nothing is
    /// executed even then), and TorchScript archives are read. The environment's `TORCH_FORCE_WEIGHTS_ONLY_LOAD`
    /// and `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` are heeded as by PyTorch.
    pub fn weights_only(mut self, on: bool) -> Self {
        self.weights_only = Some(on);
        self
    }
    /// On: the checksums of all records of the archive are compared before anything of it is used, also those of records that
    /// the checkpoint does not need and those of a mapped file. That reads the file once more: 256 MB that the system holds in its cache take 43 ms to load, and 60 to 75 ms so. Off, checksums are compared of
    /// what is unpacked anyway, which is all but mapped storages.
    pub fn verify(mut self, on: bool) -> Self {
        self.verify = on;
        self
    }
    /// The error of a format that has no checksums.
    pub(super) fn refuse_verify(&self, what: &str) -> Result<()> {
        if self.verify {
            return Err(Error::unsupported(format!("LoadOptions::verify(true): {what} have no checksums")));
        }
        Ok(())
    }
    fn strict(&self) -> Result<bool> {
        let set = |name: &str| {
            let v = std::env::var(name).unwrap_or_default().to_lowercase();
            matches!(v.as_str(), "1" | "y" | "yes" | "true")
        };
        match (set("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")) {
            (true, true) => Err(Error::runtime(
                "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, \
                 but both were set.",
            )),
            (true, false) => Ok(true),
            (false, no) => Ok(self.weights_only.unwrap_or(!no)),
        }
    }
}

const UNSAFE_MESSAGE: &str = "In PyTorch 2.6, we changed the default value of the `weights_only` argument in \
    `torch.load` from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely \
    succeed, but it can result in arbitrary code execution. Do it only if you got the file from a trusted source.";
const DOCS_MESSAGE: &str = "\n\nCheck the documentation of torch.load to learn more about types accepted by default \
    with weights_only https://pytorch.org/docs/stable/generated/torch.load.html.";

/// What PyTorch says around the refusal of a name.
fn refusal(e: FileError) -> Error {
    let FileError::Global { module, .. } = &e else { return outward(e) };
    let blocked = crate::error::BLOCKED_MODULES.contains(&module.as_str());
    Error::serialization(if blocked {
        format!("Weights only load failed. {UNSAFE_MESSAGE}\n\n\n{e}{DOCS_MESSAGE}")
    } else {
        format!(
            "Weights only load failed. This file can still be loaded, to do so you have two options, \
             \u{1b}[1mdo those steps only if you trust the source of the checkpoint\u{1b}[0m. \n\t(1) {UNSAFE_MESSAGE}\
             \n\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps in the \
             following error message.\n\tWeightsUnpickler error: {e}{DOCS_MESSAGE}"
        )
    })
}

/// Reads a PyTorch checkpoint; nothing in it is executed, and classes outside the list of safe ones are an error
/// (PyTorch's `weights_only=True`). Storages go where they were. The older format and safetensors files (by their
/// ending) are read too.
///
/// ```
/// use torch::serialization::{LoadOptions, load, load_with, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("w.pt");
/// save(&torch::ones([2]), &path)?;
/// assert_eq!(load(&path)?.as_tensor().unwrap().to_vec::<f32>(), [1.0, 1.0]);
/// let shape = load_with(&path, LoadOptions::new().map_location("meta"))?;
/// assert_eq!(shape.as_tensor().unwrap().sizes(), &[2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; damaged files; classes outside the allow-list; storages of devices that are not there.
#[doc(alias = "torch.load")]
pub fn load(path: impl AsRef<Path>) -> Result<Tree<Tensor>> {
    load_with(path, LoadOptions::new())
}

/// [`load`] with its options.
///
/// # Errors
/// As for [`load`].
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<Tree<Tensor>> {
    read_path(path.as_ref(), &options)
}
pub(super) fn read_path(path: &Path, options: &LoadOptions<'_>) -> Result<Tree<Tensor>> {
    if path.extension().is_some_and(|e| e == "safetensors") {
        let tensors = read_safetensors(path, options)?;
        return Ok(Tree::Dict(tensors.into_iter().map(|(n, t)| (Tree::Str(n), Tree::Tensor(t))).collect()));
    }
    read_from(&mut BufReader::new(open(path)?), options).map_err(|e| e.at_path(path))
}

/// [`load`] from a stream that can seek, as a `Cursor` over bytes.
///
/// ```
/// use std::io::Cursor;
/// use torch::serialization::{LoadOptions, load_from, save_to};
/// let mut file = Cursor::new(Vec::new());
/// save_to(&torch::ones([2]), &mut file)?;
/// file.set_position(0);
/// assert_eq!(load_from(file, LoadOptions::new())?.as_tensor().unwrap().to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As for [`load`].
pub fn load_from<R: Read + Seek>(mut reader: R, options: LoadOptions<'_>) -> Result<Tree<Tensor>> {
    read_from(&mut reader, &options)
}
fn read_from(reader: &mut dyn ReadSeek, options: &LoadOptions<'_>) -> Result<Tree<Tensor>> {
    check_sums(reader, options)?;
    let mut sink = Sink::new(&options.map_location);
    read(reader, &mut sink, options.strict()?)
}

/// Compares the checksums of an archive, if that is asked for.
pub(super) fn check_sums(mut reader: &mut dyn ReadSeek, options: &LoadOptions<'_>) -> Result<()> {
    if !options.verify {
        return Ok(());
    }
    if container::detect(&mut reader).map_err(outward)? != Kind::Zip {
        return options.refuse_verify("checkpoints of the format before PyTorch 1.6");
    }
    container::verify(reader).map_err(outward)?;
    reader.rewind()?;
    Ok(())
}

/// [`load`] with storages that are parts of a mapped file (`mmap=True`): only what is used is read from the disk, and
/// checksums are compared only if the options ask for it ([`LoadOptions::verify`]). Storages that are compressed, or not aligned, are copied. A map serves one load, since
/// no two storages may be the same bytes.
///
/// ```
/// use torch::serialization::{MapMode, MappedFile};
/// use torch::serialization::{LoadOptions, load_mapped, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("w.pt");
/// save(&torch::ones((2, 3)), &path)?;
/// // SAFETY: nobody writes to the file while its tensors live.
/// let file = unsafe { MappedFile::open(&path, MapMode::Private)? };
/// let w = load_mapped(&file, LoadOptions::new())?;
/// assert_eq!(w.as_tensor().unwrap().to_vec::<f32>(), [1.0; 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`load`]; the format before PyTorch 1.6; a map that served a load before.
pub fn load_mapped(file: &MappedFile, options: LoadOptions<'_>) -> Result<Tree<Tensor>> {
    let mut reader = BufReader::new(file.reader());
    if container::detect(&mut reader).map_err(outward)? != Kind::Zip {
        return Err(Error::runtime(
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), please \
             torch.save your checkpoint with this option in order to use mmap.",
        ));
    }
    check_sums(&mut reader, &options)?;
    let mut sink = Sink { mapped: Some(file), ..Sink::new(&options.map_location) };
    read(&mut reader, &mut sink, options.strict()?)
}

pub(super) fn read_options(strict: bool, marked: &[SafeGlobal]) -> ReadOptions {
    ReadOptions {
        lenient: !strict,
        safe_globals: marked.iter().map(|g| g.path().to_owned()).collect(),
        byte_order: config::byte_order(),
    }
}

pub(super) fn read(mut reader: &mut dyn ReadSeek, sink: &mut Sink<'_>, strict: bool) -> Result<Tree<Tensor>> {
    let marked = safe_globals::marked();
    let options = read_options(strict, &marked);
    let refuse = |what: &str| {
        Error::runtime(format!("Cannot use ``weights_only=True`` with {what}. {UNSAFE_MESSAGE}"))
    };
    let tree = match container::detect(&mut reader).map_err(outward)? {
        Kind::Tar if strict => return Err(refuse("files saved in the legacy .tar format")),
        Kind::Zip => {
            let mut file = ZipFile::open_any(reader).map_err(outward)?;
            if file.is_torchscript() && strict {
                return Err(refuse("TorchScript archives passed to ``torch.load``"));
            }
            if !file.has("data.pkl") {
                return Err(Error::unsupported(
                    "this zip archive is not a torch.save checkpoint: it has no data.pkl",
                ));
            }
            torch_format::load_part(&mut file, ArchivePart::CHECKPOINT, sink, &options)
        }
        _ => torch_format::load_any(reader, sink, &options),
    };
    let tree = super::sparse::put_together(safe_globals::construct(tree.map_err(refusal)?, &marked)?)?;
    super::quantized::put_together(tree)
}
