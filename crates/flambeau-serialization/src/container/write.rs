//! Writing of zip checkpoints.

use super::STORAGE_ALIGNMENT;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;
use zip::write::{SimpleFileOptions, StreamWriter};

/// Bytes handed on at a time, so that the checksum pass and the write pass meet in the cache.
const CHUNK: usize = 1 << 20;
/// Tag of the padding field that PyTorch's writer uses.
const PADDING_FIELD: u16 = 0x4246;

/// Writes a file so that the destination is either complete or untouched: `f` writes to a temporary file
/// in the same folder, which then takes the destination's name. What is there and is no ordinary file (a pipe,
/// a device) is written to as it stands: it must not be replaced.
pub fn atomic_write<T>(path: &Path, f: impl FnOnce(&mut BufWriter<&File>) -> Result<T>) -> Result<T> {
    // A link keeps pointing at the file it points at.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&target).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let file = File::options().write(true).open(&target)?;
        let mut out = BufWriter::with_capacity(1 << 16, &file);
        let result = f(&mut out)?;
        out.flush()?;
        return Ok(result);
    }
    let folder = match target.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".flambeau-");
    // what is replaced keeps its mode: who could not read the old file cannot read the new one, at any time
    let old = std::fs::metadata(&target).ok().filter(|m| m.is_file()).map(|m| m.permissions());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As an ordinary new file: the process's umask applies.
        let new = || std::fs::Permissions::from_mode(0o666);
        let writable = |p: std::fs::Permissions| std::fs::Permissions::from_mode(p.mode() & 0o777 | 0o600);
        builder.permissions(old.clone().map_or_else(new, writable));
    }
    let file = builder.tempfile_in(folder)?;
    let mut out = BufWriter::with_capacity(1 << 16, file.as_file());
    let result = f(&mut out)?;
    out.flush()?;
    drop(out);
    if let Some(old) = old {
        file.as_file().set_permissions(old)?;
    }
    file.persist(&target).map_err(|e| Error::Io(e.error))?;
    Ok(result)
}

/// Writes records of a checkpoint, uncompressed and aligned as PyTorch's own writer does.
pub struct ArchiveWriter<W: Write + Seek> {
    zip: zip::ZipWriter<W>,
    folder: String,
    alignment: u16,
    /// Two FNV-1a sums that become the serialization id: of names, and of contents.
    sums: [u64; 2],
}

impl<W: Write> ArchiveWriter<StreamWriter<W>> {
    /// Starts an archive on a stream that cannot go back: sizes and checksums follow the records.
    pub fn stream(out: W, folder: &str) -> Self {
        Self::over(zip::ZipWriter::new_stream(out), folder)
    }
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Starts an archive with all records in `folder`.
    pub fn new(out: W, folder: &str) -> Self {
        Self::over(zip::ZipWriter::new(out), folder)
    }

    fn over(zip: zip::ZipWriter<W>, folder: &str) -> Self {
        let folder = if folder.is_empty() { "archive" } else { folder };
        ArchiveWriter {
            zip,
            folder: folder.to_owned(),
            alignment: STORAGE_ALIGNMENT,
            sums: [0xcbf2_9ce4_8422_2325; 2],
        }
    }

    /// The same with records at multiples of `alignment` bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for anything but a power of two up to 32768.
    pub fn aligned(mut self, alignment: u16) -> Result<Self> {
        if !alignment.is_power_of_two() {
            return Err(Error::Unsupported(format!(
                "a storage alignment of {alignment}: it must be a power of two"
            )));
        }
        self.alignment = alignment;
        Ok(self)
    }

    /// Adds a record from a slice.
    pub fn record(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.record_with(name, bytes.len(), |out| out(bytes))
    }

    /// Adds a record of `size` bytes that `f` hands over in any number of slices.
    ///
    /// # Errors
    /// [`Error::Malformed`] when `f` gives another number of bytes.
    pub fn record_with(
        &mut self,
        name: &str,
        size: usize,
        f: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .large_file(size as u64 >= u64::from(u32::MAX))
            .last_modified_time(zip::DateTime::default())
            .with_alignment_and_header_id(self.alignment, PADDING_FIELD);
        self.zip.start_file(format!("{}/{name}", self.folder), options)?;
        fnv(&mut self.sums[0], name.as_bytes());
        let (zip, sum, mut written) = (&mut self.zip, &mut self.sums[1], 0);
        f(&mut |bytes| {
            written += bytes.len();
            // A sample is enough to tell checkpoints apart; each record has its CRC besides.
            fnv(sum, &bytes[..bytes.len().min(4096)]);
            for chunk in bytes.chunks(CHUNK) {
                zip.write_all(chunk)?;
            }
            Ok(())
        })?;
        if written != size {
            return Err(Error::malformed(format!(
                "record {name}: {written} bytes were given, {size} announced"
            )));
        }
        Ok(())
    }

    /// Writes the last records and the directory.
    pub fn finish(mut self) -> Result<W> {
        self.record("version", b"3\n")?;
        let id = format!("{:020}{:020}", self.sums[0], self.sums[1]);
        self.record(".data/serialization_id", id.as_bytes())?;
        Ok(self.zip.finish()?)
    }
}

fn fnv(sum: &mut u64, bytes: &[u8]) {
    for &b in bytes {
        *sum = (*sum ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
