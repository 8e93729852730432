//! Checksums, and errors that name their file.

use flambeau_core::functions as torch;
use flambeau_core::{ErrorKind, Tensor};
use flambeau_serialization::tensors::{
    LoadOptions, SaveOptions, ToTree, dict, load, load_npy, load_safetensors, load_safetensors_metadata,
    load_with, save, save_safetensors, save_with,
};
use std::collections::HashMap;
use std::error::Error as _;

#[test]
fn one_changed_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.pt");
    let w = torch::arange(50).to(flambeau_core::DType::F32);
    save(&dict([("w", &w as &dyn ToTree), ("epoch", &3)]), &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let verified = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        load_with(&path, LoadOptions::new().verify(true))
    };
    assert_eq!(verified(&whole).unwrap()["w"].as_tensor().unwrap().to_vec::<f32>(), w.to_vec::<f32>());
    // what no checksum covers, and nothing reads: padding, times, version numbers, attributes
    let (mut found, mut harmless) = (0, 0);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        match verified(&bytes) {
            Err(_) => found += 1,
            Ok(tree) => {
                harmless += 1;
                let back = tree["w"].as_tensor().unwrap().to_vec::<f32>();
                assert_eq!(back, w.to_vec::<f32>(), "byte {at} changed the tensor");
                assert_eq!(tree["epoch"].as_i64(), Some(3), "byte {at} changed a number");
            }
        }
    }
    assert!(found > harmless, "{found} found, {harmless} left");
    // a record that the checkpoint does not need is read too
    let at = whole.windows(8).position(|w| w == b"/version").map(|p| p + 8).unwrap();
    let number = (at..at + 80).find(|i| whole[*i] == b'3' && whole[*i + 1] == b'\n').unwrap();
    let mut bytes = whole.clone();
    bytes[number] = b'9';
    let e = verified(&bytes).unwrap_err();
    assert_eq!((e.kind(), e.path()), (ErrorKind::Serialization, Some(&*path)));
    assert!(e.message().contains("does not fit its checksum"), "{e}");
    assert!(load(&path).is_ok(), "what is not read is not checked without being asked to");
}

#[test]
fn formats_without_checksums_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let (old, safe) = (dir.path().join("old.pt"), dir.path().join("w.safetensors"));
    let w = torch::ones([2]);
    save_with(&w, &old, SaveOptions::new().use_new_zipfile_serialization(false)).unwrap();
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    save_safetensors([("w", w.clone())], &safe, Some(&metadata)).unwrap();
    for path in [&old, &safe] {
        assert!(load(path).is_ok());
        let e = load_with(path, LoadOptions::new().verify(true)).unwrap_err();
        assert_eq!((e.kind(), e.path()), (ErrorKind::Unsupported, Some(&**path)));
        assert!(e.message().contains("have no checksums"), "{e}");
    }
    let file = load_safetensors(&safe).unwrap();
    assert_eq!((file["w"].to_vec::<f32>(), file.keys().collect::<Vec<_>>()), (vec![1.0; 2], vec!["w"]));
    assert_eq!(load_safetensors_metadata(&safe).unwrap(), metadata);
}

#[test]
fn errors_name_the_file_and_keep_their_source() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.pt");
    let text = format!("[Errno 2] No such file or directory: '{}'", path.display());
    type Reader<'a> = Box<dyn Fn() -> flambeau_core::Error + 'a>;
    let readers: [Reader; 3] = [
        Box::new(|| load(&path).unwrap_err()),
        Box::new(|| load_npy(&path).unwrap_err()),
        Box::new(|| load_safetensors(&path).unwrap_err()),
    ];
    for r in readers {
        let e = r();
        assert_eq!((e.kind(), e.to_string()), (ErrorKind::NotFound, text.clone()));
        assert_eq!(
            (e.kind().class_name(), e.io_kind()),
            ("FileNotFoundError", Some(std::io::ErrorKind::NotFound))
        );
        assert_eq!(e.path(), Some(&*path));
        assert!(e.source().unwrap().downcast_ref::<std::io::Error>().is_some());
    }
    let w: Tensor = torch::ones([2]);
    let e = save(&w, dir.path().join("no/such/folder.pt")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.message().contains("folder.pt"), "{e}");
    std::fs::write(&path, b"no checkpoint").unwrap();
    let e = load(&path).unwrap_err();
    assert_eq!((e.io_kind(), e.path()), (None, Some(&*path)));
    // errors of a program's own
    let e = flambeau_core::Error::other("x".parse::<i32>().unwrap_err());
    assert_eq!((e.kind(), e.to_string().as_str()), (ErrorKind::Other, "invalid digit found in string"));
    assert!(e.clone().source().is_some() && !e.kind().is_bad_input() && ErrorKind::Shape.is_bad_input());
}

/// PyTorch's archives have 76 bytes behind the directory, which may be as long as the directory's first entry.
#[test]
fn the_directory_is_where_the_file_says() {
    let le16 = |n: usize| (n as u16).to_le_bytes().to_vec();
    let le32 = |n: usize| (n as u32).to_le_bytes().to_vec();
    let le64 = |n: usize| (n as u64).to_le_bytes().to_vec();
    for stem in 1..40 {
        let folder = "x".repeat(stem);
        let records =
            [(format!("{folder}/data.pkl"), b"one".to_vec()), (format!("{folder}/version"), b"3".to_vec())];
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, bytes) in &records {
            let at = file.len();
            // version, flags, method, time, date; no checksum, as `set_crc32_options(False)` writes it
            let head =
                [vec![0; 10], le32(0), le32(bytes.len()), le32(bytes.len()), le16(name.len()), le16(0)]
                    .concat();
            file.extend(
                [b"PK\x03\x04".to_vec(), head.clone(), name.clone().into_bytes(), bytes.clone()].concat(),
            );
            let rest = [vec![0; 10], le32(at)].concat();
            directory
                .extend([b"PK\x01\x02".to_vec(), vec![0; 2], head, rest, name.clone().into_bytes()].concat());
        }
        let (at, size) = (file.len(), directory.len());
        file.extend(&directory);
        let end = file.len();
        let counts = [vec![45, 0, 45, 0], vec![0; 8], le64(2), le64(2), le64(size), le64(at)].concat();
        file.extend([b"PK\x06\x06".to_vec(), le64(44), counts].concat());
        file.extend([b"PK\x06\x07".to_vec(), le32(0), le64(end), le32(1)].concat());
        let last = [vec![0; 4], le16(2), le16(2), le32(size), le32(at), le16(0)].concat();
        file.extend([b"PK\x05\x06".to_vec(), last].concat());
        let mut read =
            flambeau_serialization::container::ZipFile::open_any(std::io::Cursor::new(file)).unwrap();
        assert_eq!(read.names().unwrap().len(), 2, "{stem}");
        assert_eq!(read.read("data.pkl").unwrap(), b"one", "{stem}");
    }
}
