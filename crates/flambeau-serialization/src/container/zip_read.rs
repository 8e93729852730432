//! Records of a zip checkpoint.

use super::{ByteOrder, check_unpacked};
use crate::error::{Error, Result};
use std::io::{Read, Seek, SeekFrom};
use zip::read::{ArchiveOffset, Config};

/// Deflate cannot shrink by more than this, so a larger claimed size is a lie.
const MAX_RATIO: u64 = 1032;
/// Bytes that are read at a time, so that they are still in the cache when their checksum is computed.
const STRETCH: usize = 1 << 17;

/// Reads the directory of a zip file where the file says that it is.
///
/// PyTorch writes records of 76 bytes between the directory and the end of the file. Readers that look for the directory directly
/// before its end take the second entry for the first, where the first is as long as those records.
pub(crate) fn directory(mut reader: Stream<'_>) -> Result<zip::ZipArchive<Stream<'_>>> {
    let at_start = Config { archive_offset: ArchiveOffset::Known(0) };
    reader.seek(SeekFrom::Start(0))?;
    let borrowed: Stream<'_> = Box::new(&mut reader);
    if zip::ZipArchive::with_config(at_start, borrowed).is_ok() {
        return Ok(zip::ZipArchive::with_config(at_start, reader)?);
    }
    // behind other bytes
    reader.seek(SeekFrom::Start(0))?;
    Ok(zip::ZipArchive::new(reader)?)
}

/// What can be read from any place.
pub trait ReadSeek: Read + Seek {}
impl<R: Read + Seek> ReadSeek for R {}
/// Any reader: what reads archives is compiled once, not again for each kind of file and in each crate that has one.
pub(crate) type Stream<'a> = Box<dyn ReadSeek + 'a>;

/// A zip archive with the layout of `torch.save`: one folder with `data.pkl` and `data/<key>`.
pub struct ZipFile<'a> {
    archive: zip::ZipArchive<Stream<'a>>,
    prefix: String,
    length: u64,
    order: Option<ByteOrder>,
}

impl<'a> ZipFile<'a> {
    /// Reads the directory of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a TorchScript archive or another kind of zip file.
    pub fn open(reader: impl Read + Seek + 'a) -> Result<Self> {
        Self::checkpoint(Box::new(reader))
    }
    fn checkpoint(reader: Stream<'a>) -> Result<Self> {
        let file = Self::any(reader)?;
        if file.is_torchscript() {
            return Err(Error::Unsupported(
                "this is a TorchScript archive (torch.jit.save), not a torch.save checkpoint".into(),
            ));
        }
        if !file.has("data.pkl") {
            return Err(Error::Unsupported(
                "this zip archive is not a torch.save checkpoint: it has no data.pkl".into(),
            ));
        }
        Ok(file)
    }

    /// Reads the directory of any archive of PyTorch's: checkpoint, TorchScript, exported program.
    ///
    /// # Errors
    /// [`Error::Malformed`] for other files.
    pub fn open_any(reader: impl Read + Seek + 'a) -> Result<Self> {
        Self::any(Box::new(reader))
    }
    fn any(mut reader: Stream<'a>) -> Result<Self> {
        let length = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        let archive = directory(reader)?;
        let name = match archive.name_for_index(0) {
            Some(name) => name?.into_owned(),
            None => return Err(Error::malformed("the zip archive is empty")),
        };
        let prefix = match name.find('/') {
            Some(n) => name[..n].to_owned(),
            None => String::new(),
        };
        let mut file = ZipFile { archive, prefix, length, order: None };
        if file.has("byteorder") {
            file.order = match file.read("byteorder")?.as_slice() {
                b"little" => Some(ByteOrder::Little),
                b"big" => Some(ByteOrder::Big),
                other => {
                    return Err(Error::malformed(format!(
                        "Unknown endianness type: {}",
                        String::from_utf8_lossy(other)
                    )));
                }
            };
        }
        Ok(file)
    }

    /// Byte order of the storages, where the archive says it.
    pub fn byte_order(&self) -> Option<ByteOrder> {
        self.order
    }

    /// Whether `torch.jit.save` wrote it.
    pub fn is_torchscript(&self) -> bool {
        self.has("constants.pkl")
    }

    /// Names of the records, without the folder.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut out = Vec::with_capacity(self.archive.len());
        for name in self.archive.file_names() {
            let name = name?;
            out.extend(name.strip_prefix(self.prefix.as_str()).map(|n| n.trim_start_matches('/').to_owned()));
        }
        Ok(out)
    }

    fn index(&self, name: &str) -> Option<usize> {
        let full = if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        self.archive.index_for_name(&full)
    }

    /// Whether a record of that name, without the folder, is there.
    pub fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    fn known(&self, name: &str) -> Result<usize> {
        self.index(name).ok_or_else(|| Error::malformed(format!("the archive has no record {name}")))
    }
    /// Size of a record in bytes, and as it lies in the file, as the directory has them.
    fn sizes(&self, name: &str) -> Result<(u64, u64)> {
        let about = self.archive.by_index_data(self.known(name)?)?;
        let (size, packed) = (about.size(), about.compressed_size());
        let ratio = if about.compression() == zip::CompressionMethod::Stored { 1 } else { MAX_RATIO };
        if packed > self.length || size > packed.saturating_mul(ratio) {
            return Err(Error::malformed(format!("record {name} claims more bytes than the file holds")));
        }
        Ok((size, packed))
    }
    fn entry(&mut self, name: &str) -> Result<zip::read::ZipFile<'_, Stream<'a>>> {
        self.sizes(name)?;
        let index = self.known(name)?;
        // `torch.save` leaves the checksum out when told to (set_crc32_options), and reads such records.
        let about = self.archive.by_index_data(index)?;
        let unchecked =
            about.crc32() == 0 && about.compression() == zip::CompressionMethod::Stored && !about.encrypted();
        Ok(if unchecked { self.archive.by_index_raw(index)? } else { self.archive.by_index(index)? })
    }

    /// Size of a record in bytes.
    pub fn size(&mut self, name: &str) -> Result<u64> {
        Ok(self.sizes(name)?.0)
    }

    /// Size of a record as it lies in the file.
    pub fn packed_size(&mut self, name: &str) -> Result<u64> {
        Ok(self.sizes(name)?.1)
    }

    /// Where the bytes of a record start in the file, if they lie there as they are.
    pub fn offset(&mut self, name: &str) -> Result<Option<u64>> {
        let entry = self.entry(name)?;
        let plain = entry.compression() == zip::CompressionMethod::Stored && !entry.encrypted();
        Ok(entry.data_start().filter(|_| plain))
    }

    /// Size of the whole file in bytes.
    pub fn file_size(&self) -> u64 {
        self.length
    }

    /// Reads a whole record; the CRC is checked.
    pub fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let length = self.length;
        let entry = self.entry(name)?;
        let size = entry.size();
        check_unpacked(size, length)?;
        let mut out = Vec::new();
        entry.take(size.saturating_add(1)).read_to_end(&mut out)?;
        if out.len() as u64 != size {
            return Err(Error::malformed(format!("record {name} has {} bytes, not {size}", out.len())));
        }
        Ok(out)
    }

    /// Fills `out` from the start of a record that has at least that many bytes. The CRC is checked when
    /// `out` takes the whole record.
    pub fn read_into(&mut self, name: &str, out: &mut [u8]) -> Result<()> {
        let mut entry = self.entry(name)?;
        if (out.len() as u64) > entry.size() {
            return Err(Error::malformed(format!(
                "record {name} has {} bytes, {} are needed",
                entry.size(),
                out.len()
            )));
        }
        let whole = out.len() as u64 == entry.size();
        for stretch in out.chunks_mut(STRETCH) {
            entry.read_exact(stretch)?;
        }
        // The checksum is compared at the end of the stream, which one more read reaches.
        if whole && entry.read(&mut [0])? != 0 {
            return Err(Error::malformed(format!("record {name} is longer than it says")));
        }
        Ok(())
    }
}
