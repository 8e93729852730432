//! How tensors are printed: `torch.set_printoptions`.

use crate::types::order::RwLock;
use std::cell::Cell;
use std::sync::PoisonError;

/// A set of print settings.
///
/// ```
/// use torch::options::PrintOptions;
/// use torch::{Profile, printoptions};
/// let x = torch::tensor([0.12345]);
/// let short = printoptions(PrintOptions::new().profile(Profile::Short), || x.to_string());
/// assert_eq!(short, "tensor([0.12])");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// 4 digits, summaries above 1000 elements, 3 items at each edge, 80 columns.
    Default,
    /// The same with 2 digits and 2 items at each edge.
    Short,
    /// The default without summaries.
    Full,
}

/// Print settings to change; what is not set stays as it is, except `sci_mode`, which goes back to automatic.
///
/// ```
/// # use torch::options::PrintOptions;
/// # use torch::Tensor;
/// let x = Tensor::from_vec(vec![1.12345f32], 1);
/// assert_eq!(torch::printoptions(PrintOptions::new().precision(2), || x.to_string()), "tensor([1.12])");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "torch.set_printoptions")]
pub struct PrintOptions {
    profile: Option<Profile>,
    precision: Option<usize>,
    threshold: Option<usize>,
    edgeitems: Option<usize>,
    linewidth: Option<usize>,
    sci_mode: Option<bool>,
}
impl PrintOptions {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }
    /// Settings to start from.
    pub fn profile(mut self, p: Profile) -> Self {
        self.profile = Some(p);
        self
    }
    /// Digits after the point.
    pub fn precision(mut self, digits: usize) -> Self {
        self.precision = Some(digits);
        self
    }
    /// Number of elements above which a summary is printed; `usize::MAX` for never.
    pub fn threshold(mut self, elements: usize) -> Self {
        self.threshold = Some(elements);
        self
    }
    /// Items shown at the beginning and at the end of each dimension of a summary.
    pub fn edgeitems(mut self, items: usize) -> Self {
        self.edgeitems = Some(items);
        self
    }
    /// Columns of a line.
    pub fn linewidth(mut self, columns: usize) -> Self {
        self.linewidth = Some(columns);
        self
    }
    /// Scientific notation always or never; automatic if not set.
    pub fn sci_mode(mut self, on: bool) -> Self {
        self.sci_mode = Some(on);
        self
    }
    fn apply(self, mut l: Limits) -> Limits {
        if let Some(p) = self.profile {
            l = Limits { sci_mode: l.sci_mode, ..Limits::of(p) };
        }
        Limits {
            precision: self.precision.unwrap_or(l.precision),
            threshold: self.threshold.unwrap_or(l.threshold),
            edgeitems: self.edgeitems.unwrap_or(l.edgeitems),
            linewidth: self.linewidth.unwrap_or(l.linewidth),
            sci_mode: self.sci_mode,
        }
    }
}

/// The print settings in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Digits after the point.
    pub precision: usize,
    /// Number of elements above which a summary is printed.
    pub threshold: usize,
    /// Items shown at each edge of a dimension in a summary.
    pub edgeitems: usize,
    /// Columns of a line.
    pub linewidth: usize,
    /// Scientific notation; automatic if `None`.
    pub sci_mode: Option<bool>,
}
impl Limits {
    const fn of(p: Profile) -> Limits {
        let (precision, edgeitems) = match p {
            Profile::Short => (2, 2),
            _ => (4, 3),
        };
        let threshold = if matches!(p, Profile::Full) { usize::MAX } else { 1000 };
        Limits { precision, threshold, edgeitems, linewidth: 80, sci_mode: None }
    }
}
impl From<Limits> for PrintOptions {
    /// Options that bring back these settings.
    fn from(l: Limits) -> PrintOptions {
        PrintOptions {
            profile: None,
            precision: Some(l.precision),
            threshold: Some(l.threshold),
            edgeitems: Some(l.edgeitems),
            linewidth: Some(l.linewidth),
            sci_mode: l.sci_mode,
        }
    }
}

static GLOBAL: RwLock<Limits> = RwLock::new(Limits::of(Profile::Default));
thread_local! {
    /// Settings of an enclosing [`printoptions`].
    static LOCAL: Cell<Option<Limits>> = const { Cell::new(None) };
}

/// Changes how tensors are printed, in all threads; inside of [`printoptions`], for that closure only.
///
/// ```
/// use torch::options::PrintOptions;
/// torch::set_printoptions(PrintOptions::new().precision(1));
/// assert_eq!(torch::tensor([0.125]).to_string(), "tensor([0.1])");
/// assert_eq!(torch::get_printoptions().precision, 1);
/// ```
#[doc(alias = "torch.set_printoptions")]
pub fn set_printoptions(o: impl Into<PrintOptions>) {
    let o = o.into();
    match LOCAL.get() {
        Some(l) => LOCAL.set(Some(o.apply(l))),
        None => {
            let mut g = GLOBAL.write().unwrap_or_else(PoisonError::into_inner);
            *g = o.apply(*g);
        }
    }
}
/// The settings in force; `set_printoptions` takes them back.
#[doc(alias = "torch.get_printoptions")]
pub fn get_printoptions() -> Limits {
    LOCAL.get().unwrap_or_else(|| *GLOBAL.read().unwrap_or_else(PoisonError::into_inner))
}
/// Runs `f` with other settings in this thread.
#[doc(alias = "torch.printoptions")]
pub fn printoptions<R>(o: impl Into<PrintOptions>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Limits>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOCAL.set(self.0);
        }
    }
    let now = get_printoptions();
    let _restore = Restore(LOCAL.get());
    LOCAL.set(Some(o.into().apply(now)));
    f()
}
