//! NumPy's npy arrays and npz archives of them.

use crate::container::{atomic_write, check_unpacked, swap_bytes};
use crate::error::{Error, Result};
use crate::safetensors::plain_tensor;
use crate::source::{TensorSink, TensorSource, required_bytes, write_elements};
use crate::torch_format::{StorageInfo, swap_unit};
use flambeau_dtype::DType;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
const MAX_HEADER: usize = 1 << 16;
/// Deflate cannot shrink by more than this.
const MAX_RATIO: u64 = 1032;
const CODES: [(&str, DType); 14] = [
    ("b1", DType::Bool),
    ("u1", DType::U8),
    ("i1", DType::I8),
    ("u2", DType::U16),
    ("i2", DType::I16),
    ("u4", DType::U32),
    ("i4", DType::I32),
    ("u8", DType::U64),
    ("i8", DType::I64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("c8", DType::C64),
    ("c16", DType::C128),
];

fn bad(text: &str) -> Error {
    Error::malformed(format!("npy: {text}"))
}

/// Writes one array, in column-major order if it lies so and in row-major order otherwise.
///
/// # Errors
/// [`Error::Unsupported`] for dtypes NumPy lacks (bfloat16, float8, complex32, quantized);
/// [`Error::Missing`] for tensors that are lazily conjugated or negated.
pub fn write_npy<T: TensorSource>(out: &mut dyn Write, t: &T) -> Result<()> {
    if t.is_conj() || t.is_neg() {
        return Err(Error::Missing(
            "npy: the tensor is lazily conjugated or negated; resolve it first".into(),
        ));
    }
    let code = CODES.iter().find(|(_, d)| *d == t.dtype()).map(|(c, _)| *c);
    let code = code.ok_or_else(|| Error::Unsupported(format!("NumPy has no dtype {}", t.dtype())))?;
    let order = match (t.dtype().size(), cfg!(target_endian = "little")) {
        (1, _) => '|',
        (_, true) => '<',
        (_, false) => '>',
    };
    let sizes = t.sizes();
    let mut shape: Vec<String> = sizes.iter().map(i64::to_string).collect();
    if shape.len() == 1 {
        shape.push(String::new());
    }
    let shape = shape.join(", ");
    let shape = shape.trim_end_matches(' ');
    let mut strides = t.strides();
    let fortran = is_fortran(&sizes, &strides);
    let word = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{order}{code}', 'fortran_order': {word}, 'shape': ({shape}), }}");
    // Magic, version, length, text and line break together fill whole 64-byte blocks.
    let total = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64);
    let length = total - MAGIC.len() - 4;
    header.push_str(&" ".repeat(length - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(length).map_err(|_| Error::Unsupported("npy: too many dimensions".into()))?;
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    let mut sizes = sizes;
    if fortran {
        sizes.reverse();
        strides.reverse();
    }
    write_elements(t, &sizes, &strides, out)
}

/// Whether an array is dense in column-major order and not in row-major order as well.
fn is_fortran(sizes: &[i64], strides: &[i64]) -> bool {
    let dense = |dims: &mut dyn Iterator<Item = (&i64, &i64)>| {
        let mut step = 1;
        dims.filter(|(n, _)| **n != 1).all(|(n, s)| {
            let fits = *s == step;
            step = step.saturating_mul(*n);
            fits
        })
    };
    !sizes.contains(&0)
        && !dense(&mut sizes.iter().zip(strides).rev())
        && dense(&mut sizes.iter().zip(strides))
}

/// Reads one array; `available` bounds how many bytes the stream can give.
///
/// # Errors
/// [`Error::Malformed`] for damaged files; [`Error::Unsupported`] for element types without a dtype
/// (strings, objects, records).
pub fn read_npy<R: Read, S: TensorSink>(
    reader: &mut R,
    available: u64,
    key: &str,
    sink: &mut S,
) -> Result<S::Tensor> {
    let mut head = [0; 8];
    reader.read_exact(&mut head)?;
    if &head[..6] != MAGIC {
        return Err(bad("the magic bytes are missing"));
    }
    let width = match head[6] {
        1 => 2,
        2 | 3 => 4,
        v => return Err(Error::Unsupported(format!("npy version {v}"))),
    };
    let mut length = [0; 4];
    reader.read_exact(&mut length[..width])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(bad("the header is too long"));
    }
    let mut header = vec![0; length];
    reader.read_exact(&mut header)?;
    let header = std::str::from_utf8(&header).map_err(|_| bad("the header is not text"))?;
    let descr = field(header, "descr")?;
    let quote = descr.chars().next().filter(|c| *c == '\'' || *c == '"');
    let quote = quote.ok_or_else(|| {
        let fields: String = descr.chars().take(80).collect();
        Error::Unsupported(format!("npy: record arrays, which no tensor holds (dtype {fields} ...)"))
    })?;
    let descr = descr[1..].split(quote).next().unwrap_or("");
    let (order, code) = match descr.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &descr[1..]),
        _ => ('=', descr),
    };
    let dtype = CODES.iter().find(|(c, _)| *c == code).map(|(_, d)| *d);
    let dtype = dtype.ok_or_else(|| {
        let what = match code.chars().next() {
            Some('O') => "Python objects",
            Some('U' | 'S' | 'a') => "text",
            Some('M' | 'm') => "dates and times",
            Some('V') => "raw bytes",
            _ => "an element type without a dtype",
        };
        Error::Unsupported(format!("npy: {what} ({descr:?}), which no tensor holds"))
    })?;
    let fortran = match field(header, "fortran_order")? {
        s if s.starts_with("True") => true,
        s if s.starts_with("False") => false,
        _ => return Err(bad("fortran_order is neither True nor False")),
    };
    let shape = field(header, "shape")?.strip_prefix('(').and_then(|s| s.split_once(')')).map(|(s, _)| s);
    let size = shape
        .ok_or_else(|| bad("the shape is not a tuple"))?
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| s.parse::<i64>().map_err(|_| bad("the shape is not made of numbers")))
        .collect::<Result<Vec<_>>>()?;
    let mut tensor = plain_tensor(0, key, dtype, size);
    if fortran {
        let mut step = 1i64;
        for (stride, &n) in tensor.stride.iter_mut().zip(&tensor.size) {
            *stride = step;
            step = step.saturating_mul(n.max(1));
        }
    }
    let nbytes = required_bytes(&tensor.size, &tensor.stride, 0, dtype.size())?;
    if nbytes as u64 > available {
        return Err(bad("the array claims more bytes than the file holds"));
    }
    let swap = match order {
        '<' => cfg!(target_endian = "big"),
        '>' => cfg!(target_endian = "little"),
        _ => false,
    };
    let info = StorageInfo { key: key.to_owned(), dtype, nbytes, location: "cpu".into(), file_offset: None };
    let storage = sink.storage(&info, &mut |out| {
        reader.read_exact(out)?;
        if swap {
            swap_bytes(out, swap_unit(dtype));
        }
        Ok(())
    })?;
    sink.tensor(&storage, &tensor)
}

/// The text after `'name':` in the header's dict.
fn field<'a>(header: &'a str, name: &str) -> Result<&'a str> {
    let missing = || bad(&format!("the header has no {name}"));
    let quoted = [format!("'{name}'"), format!("\"{name}\"")];
    let at =
        quoted.iter().find_map(|q| header.find(q.as_str()).map(|at| at + q.len())).ok_or_else(missing)?;
    Ok(header[at..].trim_start().strip_prefix(':').ok_or_else(missing)?.trim_start())
}

/// Writes an npy file; it appears complete or not at all.
pub fn save<T: TensorSource>(path: impl AsRef<Path>, t: &T) -> Result<()> {
    atomic_write(path.as_ref(), |out| write_npy(out, t))
}

/// Reads an npy file.
pub fn load<S: TensorSink>(path: impl AsRef<Path>, sink: &mut S) -> Result<S::Tensor> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    read_npy(&mut BufReader::new(file), length, "array", sink)
}

/// Writes named arrays as `numpy.savez` does, or as `savez_compressed` does.
pub fn save_npz<T: TensorSource>(
    path: impl AsRef<Path>,
    tensors: &[(String, T)],
    compress: bool,
) -> Result<()> {
    atomic_write(path.as_ref(), |out| {
        let mut zip = zip::ZipWriter::new(out);
        for (name, t) in tensors {
            let method =
                if compress { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
            let options = SimpleFileOptions::default()
                .compression_method(method)
                .last_modified_time(zip::DateTime::default())
                // The array may be broadcast, so its size is that of its elements, not of its storage.
                .large_file(t.sizes().iter().map(|&n| n as f64).product::<f64>() * 16.0 > 4e9);
            zip.start_file(format!("{name}.npy"), options)?;
            write_npy(&mut zip, t)?;
        }
        zip.finish()?;
        Ok(())
    })
}

/// Reads all arrays of an npz archive, in file order, by their names without `.npy`.
pub fn load_npz<S: TensorSink>(path: impl AsRef<Path>, sink: &mut S) -> Result<Vec<(String, S::Tensor)>> {
    read_npz(BufReader::new(File::open(path)?), sink)
}

/// [`load_npz`] from a stream.
pub fn read_npz<R: Read + Seek, S: TensorSink>(
    mut file: R,
    sink: &mut S,
) -> Result<Vec<(String, S::Tensor)>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut archive = crate::container::directory(Box::new(file))?;
    let mut out = Vec::new();
    let (mut packed, mut unpacked) = (0u64, 0u64);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = archive_name(&entry)?;
        let Some(name) = name.strip_suffix(".npy") else {
            continue;
        };
        packed = packed.saturating_add(entry.compressed_size());
        if packed > length {
            return Err(Error::malformed("npz: the entries claim more bytes than the file holds"));
        }
        unpacked = unpacked.saturating_add(entry.size());
        check_unpacked(unpacked, length)?;
        let available = entry.size().min(entry.compressed_size().saturating_mul(MAX_RATIO));
        let tensor = read_npy(&mut entry, available, name, sink)?;
        // The end of the entry is where its checksum is compared.
        if entry.read(&mut [0])? != 0 {
            return Err(bad("bytes after the array"));
        }
        out.push((name.to_owned(), tensor));
    }
    Ok(out)
}

fn archive_name<R: Read>(entry: &zip::read::ZipFile<'_, R>) -> Result<String> {
    Ok(entry.name()?.to_string())
}
