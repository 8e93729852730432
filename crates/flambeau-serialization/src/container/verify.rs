//! The checksums of a whole archive.

use super::zip_read::ReadSeek;
use crate::error::{Error, Result};
use std::io::{Read, SeekFrom};

/// Bytes that are read at a time.
const STRETCH: usize = 1 << 17;
/// Where a record's header says its flags, method and checksum, and how long its name is.
const HEADER: usize = 30;

/// Compares the checksum of each record with its bytes, and each record's own header with the archive's directory.
///
/// # Errors
/// [`Error::Malformed`] for the first record that does not fit, and for records that were written without a checksum.
pub fn verify(mut reader: &mut dyn ReadSeek) -> Result<()> {
    reader.seek(SeekFrom::Start(0))?;
    let mut archive = super::zip_read::directory(Box::new(&mut reader))?;
    let mut heads = Vec::with_capacity(archive.len());
    let mut stretch = vec![0; STRETCH];
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i)?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        if entry.crc32() == 0 && entry.size() > 0 {
            return Err(Error::malformed(format!("record {name} was written without a checksum")));
        }
        heads.push((entry.header_start(), entry.name_raw().to_vec(), entry.crc32()));
        let mut length = 0u64;
        loop {
            match entry.read(&mut stretch) {
                Ok(0) => break,
                Ok(n) => length += n as u64,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(Error::malformed(format!("record {name} does not fit its checksum: {e}")));
                }
            }
        }
        if length != entry.size() {
            return Err(Error::malformed(format!("record {name} has {length} bytes, not {}", entry.size())));
        }
    }
    drop(archive);
    for (start, name, crc) in heads {
        reader.seek(SeekFrom::Start(start))?;
        let mut head = [0; HEADER];
        reader.read_exact(&mut head)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = usize::from(u16::from_le_bytes([head[26], head[27]]));
        let mut own = vec![0; length.min(name.len())];
        reader.read_exact(&mut own)?;
        // a sum that stands behind the record's bytes is 0 here
        let sum = number(14);
        if own != name || length != name.len() || (sum != crc && sum != 0) {
            let name = String::from_utf8_lossy(&name);
            return Err(Error::malformed(format!("record {name}: its header differs from the directory's")));
        }
    }
    Ok(())
}
