//! Where the storages of a checkpoint go, and how they are named when they are saved.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::types::order::RwLock;
use flambeau_core::{DType, Device, Error, Result, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// A function from a storage on the CPU and its location in the file to the storage to use; `None` leaves the choice
/// to the location.
pub type Relocate<'a> = dyn Fn(&Storage, &str) -> Result<Option<Storage>> + 'a;

/// Where the storages of a checkpoint go (`map_location` of `torch.load`).
///
/// ```
/// use torch::serialization::{LoadOptions, MapLocation, load_with, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("w.pt");
/// save(&torch::ones([2]), &path)?;
/// let read = |to: MapLocation| load_with(&path, LoadOptions::new().map_location(to));
/// let w = read("meta".into())?;
/// assert_eq!(w.as_tensor().unwrap().device(), torch::Device::Meta);
/// assert!(read(MapLocation::To("mars".into())).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub enum MapLocation<'a> {
    /// Where they were.
    #[default]
    Saved,
    /// All to one place.
    To(String),
    /// From place to place; others where they were.
    Map(HashMap<String, String>),
    /// As the function says.
    With(Box<Relocate<'a>>),
}
impl<'a> MapLocation<'a> {
    /// Decided by a function for each storage.
    pub fn with(f: impl Fn(&Storage, &str) -> Result<Option<Storage>> + 'a) -> Self {
        MapLocation::With(Box::new(f))
    }
    /// Whether no data is wanted at all.
    pub(crate) fn is_meta(&self) -> bool {
        matches!(self, MapLocation::To(place) if place == "meta")
    }
    /// The storage at the place it belongs to.
    pub(crate) fn restore(&self, storage: Storage, location: &str) -> Result<Storage> {
        match self {
            MapLocation::Saved => default_restore_location(storage, location),
            MapLocation::To(place) => default_restore_location(storage, place),
            MapLocation::Map(places) => {
                let place = places.get(location).map_or(location, String::as_str);
                default_restore_location(storage, place)
            }
            MapLocation::With(f) => match f(&storage, location)? {
                Some(moved) => Ok(moved),
                None => default_restore_location(storage, location),
            },
        }
    }
    /// The one device for safetensors files, which have no locations.
    pub(crate) fn of_safetensors(&self) -> Result<Device> {
        let refuse = |what: &str| {
            Error::runtime(format!(
                "Loading safetensors file with {what} map_location is not supported. Use a device string or torch.device instead."
            ))
        };
        match self {
            MapLocation::Saved => Ok(Device::Cpu),
            MapLocation::To(place) => Device::parse(place),
            MapLocation::Map(_) => Err(refuse("dict")),
            MapLocation::With(_) => Err(refuse("callable")),
        }
    }
}
impl std::fmt::Debug for MapLocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MapLocation::Saved => f.write_str("Saved"),
            MapLocation::To(place) => write!(f, "To({place:?})"),
            MapLocation::Map(places) => write!(f, "Map({places:?})"),
            MapLocation::With(_) => f.write_str("With(..)"),
        }
    }
}
impl From<Device> for MapLocation<'_> {
    fn from(d: Device) -> Self {
        MapLocation::To(d.to_string())
    }
}
impl From<&str> for MapLocation<'_> {
    fn from(place: &str) -> Self {
        MapLocation::To(place.to_owned())
    }
}
impl From<String> for MapLocation<'_> {
    fn from(place: String) -> Self {
        MapLocation::To(place)
    }
}
impl From<HashMap<String, String>> for MapLocation<'_> {
    fn from(places: HashMap<String, String>) -> Self {
        MapLocation::Map(places)
    }
}
impl<const N: usize> From<[(&str, &str); N]> for MapLocation<'_> {
    fn from(places: [(&str, &str); N]) -> Self {
        MapLocation::Map(places.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
    }
}

/// Names the place of a storage, or leaves it to others.
pub type Tagger = dyn Fn(&Storage) -> Option<String> + Send + Sync;
/// Brings a storage to a place, or leaves it to others.
pub type Deserializer = dyn Fn(&Storage, &str) -> Result<Option<Storage>> + Send + Sync;

#[derive(Clone)]
struct Package {
    priority: i64,
    tagger: Arc<Tagger>,
    deserializer: Arc<Deserializer>,
}
static PACKAGES: RwLock<Vec<Package>> = RwLock::new(Vec::new());

/// Back ends that PyTorch knows and that have no memory here, with the priority of their entry.
const ABSENT: [(i64, &str); 4] = [(21, "mps"), (24, "hpu"), (25, "xpu"), (26, "mtia")];

/// Adds a pair of functions that name the place of a storage when it is saved, and bring one to a place when it is
/// loaded. They are asked in the order of priority, lowest first, until one answers; the built-in ones have 10 (cpu),
/// 20 (cuda), 22 (meta), 23 (privateuseone).
///
/// ```
/// use torch::serialization::{load, register_package, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("w.pt");
/// // what lies on the CPU is called `host` in files, and found there again
/// register_package(5, |_| Some("host".into()), |s, place| Ok((place == "host").then(|| s.clone())));
/// save(&torch::ones([2]), &path)?;
/// assert_eq!(load(&path)?.as_tensor().unwrap().to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "torch.serialization.register_package")]
pub fn register_package(
    priority: i64,
    tagger: impl Fn(&Storage) -> Option<String> + Send + Sync + 'static,
    deserializer: impl Fn(&Storage, &str) -> Result<Option<Storage>> + Send + Sync + 'static,
) {
    let mut list = PACKAGES.write().unwrap_or_else(PoisonError::into_inner);
    list.push(Package { priority, tagger: Arc::new(tagger), deserializer: Arc::new(deserializer) });
    list.sort_by_key(|p| p.priority);
}

/// User's packages below and above a priority.
fn packages() -> Vec<Package> {
    PACKAGES.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The priority of the built-in entry for a device.
fn priority(d: Device) -> i64 {
    match d {
        Device::Cpu => 10,
        Device::Cuda(_) => 20,
        Device::Meta => 22,
        Device::Private(_) => 23,
    }
}

/// The name of a storage's place.
pub(crate) fn location_tag(storage: &Storage) -> String {
    let device = storage.device();
    for p in packages().iter().take_while(|p| p.priority < priority(device)) {
        if let Some(tag) = (p.tagger)(storage) {
            return tag;
        }
    }
    // every device has a built-in name, so nobody behind it is asked
    device.to_string()
}

/// What the built-in entries make of a place: `None` where they do not know it.
fn built_in(storage: &Storage, location: &str) -> Option<(i64, Result<Storage>)> {
    if location == "cpu" {
        return Some((10, Ok(storage.clone())));
    }
    if location == "meta" {
        return Some((22, Storage::empty(storage.nbytes(), Device::Meta)));
    }
    let of = |kind: &str| {
        let rest = location.strip_prefix(kind)?;
        (rest.is_empty() || rest.starts_with(|c: char| c == ':' || c.is_ascii_digit())).then_some(())
    };
    // a back end from outside has a name of its own, besides PyTorch's
    let own = Device::Private(0).kind();
    for (rank, kind) in [(20, "cuda"), (23, "privateuseone"), (23, own)] {
        if of(kind).is_some() {
            return Some((rank, moved(storage, location, kind)));
        }
    }
    let (rank, kind) = ABSENT.into_iter().find(|(_, kind)| of(kind).is_some())?;
    Some((rank, Err(absent(kind))))
}

fn absent(kind: &str) -> Error {
    if kind == "mps" {
        return Error::runtime("torch.UntypedStorage(): Storage device not recognized: mps");
    }
    let upper = kind.to_uppercase();
    let advice = "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') \
                  to map your storages to the CPU.";
    if matches!(kind, "hpu" | "privateuseone") {
        return Error::runtime(format!("The {upper} device module is not registered. {advice}"));
    }
    Error::runtime(format!(
        "Attempting to deserialize object on a {upper} device but torch.{kind}.is_available() is False. {advice}"
    ))
}

/// The bytes on a device that may have an allocator.
fn moved(storage: &Storage, location: &str, kind: &str) -> Result<Storage> {
    let device = Device::parse(location)?;
    let n = storage.nbytes();
    let bytes = Tensor::from_storage(storage, &[n as i64], &[1], 0, DType::U8)?;
    match bytes.try_to(device) {
        Ok(t) => Ok(t.storage().clone()),
        Err(_) => Err(absent(kind)),
    }
}

/// Brings a storage to a named place.
///
/// ```
/// use torch::{TypedStorage, serialization::default_restore_location};
/// let x = torch::ones([2]);
/// let at = default_restore_location(TypedStorage::of(&x).untyped().clone(), "cpu")?;
/// assert_eq!(at.nbytes(), 8);
/// assert!(default_restore_location(at, "nowhere").is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// No entry knows the place; the device is not there.
#[doc(alias = "torch.serialization.default_restore_location")]
pub fn default_restore_location(storage: Storage, location: &str) -> Result<Storage> {
    let mut native = built_in(&storage, location);
    for p in packages() {
        if native.as_ref().is_some_and(|(rank, _)| *rank <= p.priority) {
            break;
        }
        if let Some(s) = (p.deserializer)(&storage, location)? {
            return Ok(s);
        }
    }
    match native.take() {
        Some((_, r)) => r,
        None => Err(Error::runtime(format!(
            "don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
        ))),
    }
}
