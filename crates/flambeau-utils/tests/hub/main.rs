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

/// A server with GitHub's paths for one repository, `some/models`, whose one branch is `main`.
fn github(archive: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            lines.map_while(Result::ok).take_while(|l| !l.is_empty()).for_each(drop);
            let path = first.split(' ').nth(1).unwrap().to_string();
            let (status, body): (_, &[u8]) = match &path[..] {
                "/some/models/tree/main/" => ("200 OK", b"page"),
                "/some/models/zipball/main" => ("200 OK", &archive),
                "/api/v3/repos/some/models/branches?per_page=100&page=1" => {
                    ("200 OK", br#"[{"name": "main", "commit": {"sha": "0123abcd"}}]"#)
                }
                p if p.starts_with("/api/v3/repos/some/models/") => ("200 OK", b"[]"),
                _ => ("404 Not Found", b""),
            };
            log.lock().unwrap().push(path);
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    (address, asked)
}
fn zipped(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
const HUBCONF: &str = r#"
"""Not the docstring of an entry: def nothing(): pass"""
dependencies = ['torch']
import os, json as j
from functools import partial
from vision.models import (resnet18,  # the small one
                           Wide as wide, _hidden, layers)
from vision.extra import *

def plain(pretrained=False, **kwargs):
    r"""
    A plain model.

        indented \n as it is
    """
    def inner(): pass
    return None
async def later(
    x={"a": [1, 2]},
): return x
class Net(object):
    'One line'
    x = 1
try:
    import fast
    def guarded():
        u"It isn\'t \"quoted\""
except ImportError:
    guarded = None
    guarded = plain
if True: pass
def _private(): pass
text = 'def hidden(): pass'; other = plain
made = partial(plain, pretrained=True)
short = lambda x: x
long = \
    plain
"#;

#[test]
fn entry_points_are_read_and_not_run() {
    alone!();
    let kept = tempfile::tempdir().unwrap();
    set_dir(kept.path());
    let files = [
        ("some-models-0123abcd/hubconf.py", HUBCONF),
        (
            "some-models-0123abcd/vision/models/__init__.py",
            "from .resnet import *\nfrom .resnet import Wide\nfrom . import layers\ndef _hidden(): pass\n",
        ),
        ("some-models-0123abcd/vision/models/layers.py", "def layer(): pass\n"),
        (
            "some-models-0123abcd/vision/models/resnet.py",
            "__all__ = ['resnet18']\n@register\ndef resnet18(w=None):\n    '''Eighteen layers.'''\nclass Wide: ...\n",
        ),
        ("some-models-0123abcd/vision/extra.py", "def more():\n\t'''More.'''\nfrom .models import *\n"),
    ];
    let (address, asked) = github(zipped(&files));
    let o = RepositoryOptions::new().server(&address).verbose(false);
    let names = list("some/models", &o).unwrap();
    let expected =
        ["Net", "Wide", "guarded", "later", "long", "more", "other", "plain", "resnet18", "short", "wide"];
    assert_eq!(names, expected);
    let doc = |name: &str| help("some/models:main", name, &o).unwrap();
    assert_eq!(doc("plain").unwrap(), "\nA plain model.\n\n    indented \\n as it is\n");
    assert_eq!(doc("guarded"), doc("plain"));
    assert_eq!(doc("resnet18").unwrap(), "Eighteen layers.");
    assert_eq!(doc("Net").unwrap(), "One line");
    assert_eq!([doc("later"), doc("short"), doc("wide")], [None, None, None]);
    let e = help("some/models", "made", &o).unwrap_err();
    assert_eq!(e.message(), "Cannot find callable made in hubconf");
    // fetched once, where PyTorch keeps it
    let fetched = || asked.lock().unwrap().iter().filter(|p| p.contains("zipball")).count();
    assert_eq!(fetched(), 1);
    assert!(kept.path().join("some_models_main/vision/extra.py").is_file());
    list("some/models:main", &o.clone().force_reload(true)).unwrap();
    assert_eq!(fetched(), 2);
    let e = list("some/models:0123", &o).unwrap_err();
    assert!(e.message().starts_with("HTTP Error 404"), "{}", e.message());
    let e = list("some/models:feature/x", &o).unwrap_err();
    assert!(e.message().starts_with("Cannot find feature/x in "), "{}", e.message());
    for text in ["models", "a/b/c", "../models", "some/models:../x", ""] {
        assert_eq!(list(text, &o).unwrap_err().kind(), ErrorKind::Value, "{text}");
    }
    // kept copies need no server
    let nowhere = RepositoryOptions::new().server("http://127.0.0.1:9").verbose(false);
    assert_eq!(list("some/models", &nowhere).unwrap(), expected);
    let e = list("some/others", &nowhere).unwrap_err();
    assert!(e.message().starts_with("It looks like there is no internet connection"), "{}", e.message());
    let names: Vec<_> = std::fs::read_dir(kept.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["some_models_main"]);
}

/// Files that take all names of each other, every path between them being one of 20^20.
#[test]
fn files_that_take_each_others_names_end() {
    alone!();
    let kept = tempfile::tempdir().unwrap();
    set_dir(kept.path());
    let folder = kept.path().join("some_stars_main");
    std::fs::create_dir(&folder).unwrap();
    let stars: String = (0..20).map(|i| format!("from m{i} import *\n")).collect();
    std::fs::write(folder.join("hubconf.py"), &stars).unwrap();
    for i in 0..20 {
        let text = format!("{stars}def f{i}():\n    'Says {i}.'\n");
        std::fs::write(folder.join(format!("m{i}.py")), text).unwrap();
    }
    // a kept copy needs no server
    let o = RepositoryOptions::new().server("http://127.0.0.1:9").verbose(false);
    assert_eq!(list("some/stars", &o).unwrap().len(), 20);
    assert_eq!(help("some/stars", "f7", &o).unwrap(), Some("Says 7.".into()));
    assert!(help("some/stars", "none", &o).is_err());
}

/// Texts that end anywhere, and texts with anything put into them.
#[test]
fn any_text_is_read() {
    const WHOLE: &str = "from m.a import net as n, other\nfrom m import *\nfrom .b import (x,\n  y)\n__all__ = ['f', \"g\"]\n\
        same = f\nlam = lambda x: x\nasync def f(a, b='\\'x', c=\"\"\"d\n#\"\"\"):\n    r'''Doc\n      string \u{e9}\n    '''\n    return 1\n\
        class G(object):\n\tu'a\\nb'\n\tpass\nif x: \\\n  y = 3; z = {1: [2, (3)]}\n";
    const PARTS: &[&str] = &[
        "'''",
        "\"\"\"",
        "'",
        "\"",
        "\\",
        "\\\n",
        "#",
        ";",
        "(",
        "]",
        "\t",
        "\r\n",
        "\u{e9}",
        "\u{2028}",
        "def ",
        "from ",
        " import *",
        "__all__ = ",
        " as ",
        "=",
    ];
    alone!();
    let kept = tempfile::tempdir().unwrap();
    set_dir(kept.path());
    let folder = kept.path().join("any_text_main");
    std::fs::create_dir(&folder).unwrap();
    let o = RepositoryOptions::new().server("http://127.0.0.1:9").verbose(false);
    // what is found may be anything, but it is found or is an error
    let read = |text: &str| {
        std::fs::write(folder.join("hubconf.py"), text).unwrap();
        let _ = list("any/text", &o);
        let _ = help("any/text", "f", &o);
    };
    let whole: Vec<char> = WHOLE.chars().collect();
    for at in 0..=whole.len() {
        read(&whole[..at].iter().collect::<String>());
        for part in PARTS {
            let text: String = whole[..at].iter().copied().chain(part.chars()).collect();
            read(&text);
            read(&(text + &whole[at..].iter().collect::<String>()));
        }
    }
    // a string without an end, whose last character is longer than the quotes
    read("def f():\n  '''   string \u{e9}");
}

#[test]
fn archives_stay_in_their_folder() {
    alone!();
    let kept = tempfile::tempdir().unwrap();
    set_dir(kept.path().join("hub"));
    let (address, _) = github(zipped(&[("a/hubconf.py", ""), ("a/../../../evil.py", "")]));
    let o = RepositoryOptions::new().server(&address).skip_validation(true);
    let e = list("some/models", &o).unwrap_err();
    assert!(e.message().starts_with("Attempted Path Traversal"), "{}", e.message());
    assert_eq!(std::fs::read_dir(kept.path().join("hub")).unwrap().count(), 0);
    let (address, _) = github(zipped(&[("a/other.py", "")]));
    let e = list("some/models", &o.clone().server(&address)).unwrap_err();
    assert!(e.message().starts_with("there is no "), "{}", e.message());
    let (address, _) = github(b"no archive".to_vec());
    assert!(list("some/models", &o.server(&address).force_reload(true)).is_err());
}
