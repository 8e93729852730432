//! Repositories of sources with entry points for PyTorch's hub: fetched, kept, and read, never run.

use super::hubconf::Repository;
use super::{DownloadOptions, at, download_url_to_file, get_dir, net};
use flambeau_core::{Error, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// How [`list`] and [`help`] fetch a repository.
#[derive(Clone, Debug)]
pub struct RepositoryOptions {
    force_reload: bool,
    skip_validation: bool,
    verbose: bool,
    server: Option<String>,
}
impl Default for RepositoryOptions {
    fn default() -> Self {
        RepositoryOptions { force_reload: false, skip_validation: false, verbose: true, server: None }
    }
}
impl RepositoryOptions {
    /// What [`get_dir`] keeps, or else GitHub's, with a check that the branch is the owner's.
    pub fn new() -> Self {
        Self::default()
    }
    /// Fetches it again although it is there.
    pub fn force_reload(mut self, on: bool) -> Self {
        self.force_reload = on;
        self
    }
    /// Does not ask the server whether the branch, tag or commit is of the repository itself, and not of a fork.
    pub fn skip_validation(mut self, on: bool) -> Self {
        self.skip_validation = on;
        self
    }
    /// Says on standard error that the kept copy is used.
    pub fn verbose(mut self, on: bool) -> Self {
        self.verbose = on;
        self
    }
    /// A server of one's own with GitHub's paths, `https://HOST`; its interface for programs is under `/api/v3`.
    pub fn server(mut self, address: impl Into<String>) -> Self {
        self.server = Some(address.into());
        self
    }
    fn page(&self) -> &str {
        self.server.as_deref().unwrap_or("https://github.com")
    }
    fn api(&self) -> String {
        self.server.as_ref().map_or_else(|| "https://api.github.com".into(), |s| format!("{s}/api/v3"))
    }
}

/// `OWNER/NAME[:BRANCH]`
struct Source<'a> {
    owner: &'a str,
    name: &'a str,
    branch: String,
}
impl<'a> Source<'a> {
    fn of(text: &'a str, o: &RepositoryOptions) -> Result<Self> {
        let (repository, branch) = text.split_once(':').map_or((text, None), |(r, b)| (r, Some(b)));
        let plain = |s: &str| {
            !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && s != ".."
        };
        let parts = repository.split_once('/').filter(|(owner, name)| plain(owner) && plain(name));
        let (owner, name) = parts.ok_or_else(|| {
            Error::value(format!("expected a repository as \"owner/name[:branch]\", but got \"{text}\""))
        })?;
        let branch = match branch {
            Some(b) => {
                ensure!(b.split('/').all(plain), Value, "\"{b}\" is no name of a branch, tag or commit");
                b.to_string()
            }
            None => main_branch(owner, name, o)?,
        };
        Ok(Source { owner, name, branch })
    }
    fn folder(&self) -> PathBuf {
        get_dir().join(format!("{}_{}_{}", self.owner, self.name, self.branch.replace('/', "_")))
    }
}
/// `main` where there is one, else `master`; without a net the one that is kept.
fn main_branch(owner: &str, name: &str, o: &RepositoryOptions) -> Result<String> {
    let url = format!("{}/{owner}/{name}/tree/main/", o.page());
    match ureq::get(&url).header("User-Agent", "torch.hub").call() {
        Ok(_) => Ok("main".into()),
        Err(ureq::Error::StatusCode(404)) => Ok("master".into()),
        Err(e @ ureq::Error::StatusCode(_)) => Err(net(&url, &e)),
        Err(_) => {
            let kept = |b: &&str| get_dir().join(format!("{owner}_{name}_{b}")).exists();
            ["main", "master"].into_iter().find(kept).map(str::to_string).ok_or_else(|| {
                Error::runtime(format!(
                    "It looks like there is no internet connection and the repo could not be found in the cache ({})",
                    get_dir().display()
                ))
            })
        }
    }
}
/// Asks the server whether the branch, tag or commit is the repository's own.
fn validate(s: &Source, o: &RepositoryOptions) -> Result<()> {
    // GitHub's token is for GitHub alone
    let token = std::env::var("GITHUB_TOKEN").ok().filter(|t| !t.is_empty() && o.server.is_none());
    for kind in ["branches", "tags"] {
        for page in 1.. {
            let url = format!("{}/repos/{}/{}/{kind}?per_page=100&page={page}", o.api(), s.owner, s.name);
            let ask = |token: Option<&String>| {
                let request = ureq::get(&url)
                    .header("User-Agent", "torch.hub")
                    .header("Accept", "application/vnd.github.v3+json");
                match token {
                    Some(t) => request.header("Authorization", format!("token {t}")).call(),
                    None => request.call(),
                }
            };
            // a token may lack the right that nobody needs
            let answer = match ask(token.as_ref()) {
                Err(ureq::Error::StatusCode(_)) if token.is_some() => ask(None),
                r => r,
            };
            let text = answer.and_then(|mut r| r.body_mut().read_to_string()).map_err(|e| net(&url, &e))?;
            let all: serde_json::Value = serde_json::from_str(&text)
                .map_err(|e| Error::runtime(format!("{url}: not the expected answer: {e}")))?;
            let Some(all) = all.as_array().filter(|a| !a.is_empty()) else { break };
            let is = |b: &serde_json::Value| {
                let sha = b["commit"]["sha"].as_str().unwrap_or_default();
                b["name"].as_str() == Some(&s.branch) || sha.starts_with(&s.branch)
            };
            if all.iter().any(is) {
                return Ok(());
            }
        }
    }
    Err(Error::value(format!(
        "Cannot find {} in {}/{}/{}. If it's a commit from a forked repo, please call hub.load() with forked repo directly.",
        s.branch,
        o.page(),
        s.owner,
        s.name
    )))
}
/// The repository's folder, fetched where it is not kept.
fn folder(repository: &str, o: &RepositoryOptions) -> Result<PathBuf> {
    let hub = get_dir();
    fs::create_dir_all(&hub).map_err(at(&hub))?;
    let s = Source::of(repository, o)?;
    let folder = s.folder();
    if !o.force_reload && folder.exists() {
        if o.verbose {
            eprintln!("Using cache found in {}", folder.display());
        }
        return Ok(folder);
    }
    if !o.skip_validation {
        validate(&s, o)?;
    }
    let archive = folder.with_added_extension("zip");
    let url = format!("{}/{}/{}/zipball/{}", o.page(), s.owner, s.name, s.branch);
    eprintln!("Downloading: \"{url}\" to {}", archive.display());
    download_url_to_file(&url, &archive, &DownloadOptions::new())?;
    let fresh = folder.with_added_extension("fresh");
    let unpacked = unpack(&archive, &fresh);
    fs::remove_file(&archive).map_err(at(&archive))?;
    let placed = unpacked.and_then(|()| {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        fs::rename(&fresh, &folder).map_err(at(&folder))
    });
    if placed.is_err() {
        // what is half there is of no use, and the error is already known
        let _ = fs::remove_dir_all(&fresh);
    }
    placed.map(|()| folder)
}
/// Unpacks what lies in the archive's one folder. Links and names that lead out of it are refused.
fn unpack(archive: &Path, to: &Path) -> Result<()> {
    let broken = |e: &dyn std::fmt::Display| Error::runtime(format!("{}: {e}", archive.display()));
    if to.exists() {
        fs::remove_dir_all(to).map_err(at(to))?;
    }
    fs::create_dir_all(to).map_err(at(to))?;
    let mut zip = zip::ZipArchive::new(File::open(archive).map_err(at(archive))?).map_err(|e| broken(&e))?;
    for i in 0..zip.len() {
        let mut file = zip.by_index(i).map_err(|e| broken(&e))?;
        let inside = file.enclosed_name().filter(|_| !file.is_symlink());
        let name = inside.ok_or_else(|| {
            let name = file.name().unwrap_or_default();
            Error::value(format!("Attempted Path Traversal in zip file: {name}"))
        })?;
        let name: PathBuf = name.components().skip(1).collect();
        let path = to.join(&name);
        if file.is_dir() || name.as_os_str().is_empty() {
            fs::create_dir_all(&path).map_err(at(&path))?;
            continue;
        }
        let parent = path.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(at(parent))?;
        let mut out = File::create(&path).map_err(at(&path))?;
        std::io::copy(&mut file, &mut out).map_err(at(&path))?;
    }
    Ok(())
}
fn with_hubconf(repository: &str, o: &RepositoryOptions) -> Result<PathBuf> {
    let folder = folder(repository, o)?;
    let file = folder.join("hubconf.py");
    ensure!(file.is_file(), Runtime, "there is no {}", file.display());
    Ok(folder)
}

/// The entry points of a repository, `"owner/name"` or `"owner/name:branch"`, in the order of their names: the functions and
/// classes that its `hubconf.py` defines, or takes from other files of the repository, without a leading `_`.
///
/// The sources are read and not run, so nobody is asked whether to trust them; what `hubconf.py` takes from elsewhere
/// (`from functools import partial`) or makes by calls is unknown and left out. The repository is fetched once and kept in
/// [`get_dir`], where PyTorch keeps it.
///
/// `hub::list("pytorch/vision:main", &RepositoryOptions::new())?` names the models of torchvision.
///
/// # Errors
/// Of the net and the file system; a branch that the repository lacks; a repository without `hubconf.py`.
#[doc(alias = "torch.hub.list")]
#[doc(alias = "torch.hub:hubconf.py")]
pub fn list(repository: &str, options: &RepositoryOptions) -> Result<Vec<String>> {
    Ok(Repository::new(&with_hubconf(repository, options)?).entries())
}
/// The docstring of an entry point, without its indentation; nothing where it has none. See [`list`].
///
/// # Errors
/// Those of [`list`]; a name that is not one of its: `Cannot find callable NAME in hubconf`.
#[doc(alias = "torch.hub.help")]
pub fn help(repository: &str, model: &str, options: &RepositoryOptions) -> Result<Option<String>> {
    let folder = with_hubconf(repository, options)?;
    let found = Repository::new(&folder).doc(model);
    found.ok_or_else(|| Error::runtime(format!("Cannot find callable {model} in hubconf")))
}
