//! Files from a server on the loopback.

use flambeau_core::{ErrorKind, functions as torch};
use flambeau_serialization::tensors::{LoadOptions, save_to};
use flambeau_test_support::alone;
use flambeau_utils::hub::*;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Serves one file under every name; `/cut` breaks off after half of it, `/none` is not there. Gives the address and the requests so far.
fn serve(content: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            let mut from = 0;
            for line in lines.map_while(Result::ok).take_while(|l| !l.is_empty()) {
                if let Some(r) = line.to_lowercase().strip_prefix("range: bytes=") {
                    from = r.trim_end_matches('-').parse().unwrap();
                }
            }
            log.lock().unwrap().push(format!("{first} from {from}"));
            let status = match from {
                _ if first.contains("/none") => "404 Not Found",
                0 => "200 OK",
                n if n >= content.len() => "416 Range Not Satisfiable",
                _ => "206 Partial Content",
            };
            let whole = if status.starts_with('2') { &content[from..] } else { &[][..] };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", whole.len());
            let sent = if first.contains("/cut") && from == 0 { &whole[..whole.len() / 2] } else { whole };
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
        }
    });
    (address, asked)
}

#[test]
fn files_appear_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    let (address, asked) = serve(content.clone());
    let to = folder.path().join("file");
    download_url_to_file(&format!("{address}/a"), &to, &DownloadOptions::new()).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), content);
    std::fs::remove_file(&to).unwrap();
    let e = download_url_to_file(&format!("{address}/none"), &to, &DownloadOptions::new()).unwrap_err();
    assert!(e.message().starts_with("HTTP Error 404"), "{}", e.message());
    let e = download_url_to_file(&format!("{address}/a"), &to, &DownloadOptions::new().hash_prefix("00"))
        .unwrap_err();
    assert!(e.message().starts_with("invalid hash value (expected \"00\", got \""), "{}", e.message());
    assert!(!to.exists());
    // the line breaks, and the second call goes on from there
    assert!(download_url_to_file(&format!("{address}/cut"), &to, &DownloadOptions::new()).is_err());
    assert!(!to.exists());
    download_url_to_file(&format!("{address}/cut"), &to, &DownloadOptions::new()).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), content);
    assert!(asked.lock().unwrap().last().unwrap().ends_with("from 50000"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn weights_are_fetched_once() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    set_dir(folder.path());
    assert_eq!(get_dir(), folder.path());
    let (address, asked) = serve(save_to(&torch::ones([3]), Vec::new()).unwrap());
    let o = StateDictOptions::new().progress(false);
    for _ in 0..2 {
        let t = load_state_dict_from_url(&format!("{address}/w.pt?x=1"), &o, LoadOptions::new()).unwrap();
        assert_eq!(t.as_tensor().unwrap().to_vec::<f32>(), [1.0; 3]);
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert!(folder.path().join("checkpoints/w.pt").is_file());
    let checked = o.clone().check_hash(true);
    let e = load_state_dict_from_url(&format!("{address}/w-00ff00ff.pt"), &checked, LoadOptions::new())
        .unwrap_err();
    assert!(e.message().contains("00ff00ff"));
    let e = load_state_dict_from_url(&format!("{address}/"), &o, LoadOptions::new()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Value);
}
