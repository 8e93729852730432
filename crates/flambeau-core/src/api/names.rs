//! Names of dimensions, as users give and read them.

use crate::dispatch::names::ignoring;
use crate::ensure;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result, expect};
use crate::types::names::{ELLIPSIS, IntoNames, Names, Shown};
use std::sync::Arc;

/// The place of the ellipsis in a list of names.
fn ellipsis(names: &Names, function: &str) -> Result<Option<usize>> {
    let is = |n: &Option<Arc<str>>| n.as_deref() == Some(ELLIPSIS);
    ensure!(
        names.iter().filter(|n| is(n)).count() < 2,
        Runtime,
        "{function}: More than one Ellipsis ('...') found in names ({}). This function supports up to one Ellipsis.",
        names.tuple_text()
    );
    Ok(names.iter().position(is))
}
/// The list with the tensor's own names in the place of the ellipsis.
fn filled_in(names: Names, own: &Names, function: &str) -> Result<Names> {
    let Some(at) = ellipsis(&names, function)? else { return Ok(names) };
    let after = names.len() - at - 1;
    let middle = own.get(at..own.len().saturating_sub(after)).unwrap_or(&[]);
    Ok(Names([&names[..at], middle, &names[at + 1..]].concat()))
}
fn named(t: Tensor, names: Names) -> Result<Tensor> {
    t.set_dim_names(names)?;
    Ok(t)
}

impl Tensor {
    /// Names of the dimensions; none where a dimension has none.
    ///
    /// ```
    /// let x = torch::zeros([2, 3]).refine_names(["N", "C"]);
    /// assert_eq!(x.names(), ["N", "C"]);
    /// assert_eq!(x.sum_dim(x.dim_of("C"), false).names(), ["N"]);
    /// ```
    #[doc(alias = "torch.Tensor.names")]
    pub fn names(&self) -> Names {
        self.dim_names()
    }
    /// A view with other names of dimensions: one for each, with `"..."` for those that keep theirs; `None` takes all names
    /// away.
    ///
    /// ```
    /// let x = torch::zeros([2, 3]).rename(["N", "C"]);
    /// assert_eq!(x.rename(["batch", "..."]).names(), ["batch", "C"]);
    /// assert!(!x.rename(None).has_names());
    /// ```
    ///
    /// # Panics
    /// Another number of names than dimensions, a name twice, names that are no identifiers.
    #[doc(alias = "torch.Tensor.rename")]
    #[track_caller]
    pub fn rename(&self, names: impl IntoNames) -> Tensor {
        expect(self.try_rename(names))
    }
    /// [`Tensor::rename`] with errors as values.
    ///
    /// # Errors
    /// Another number of names than dimensions, a name twice, names that are no identifiers.
    pub fn try_rename(&self, names: impl IntoNames) -> Result<Tensor> {
        let names = self.renamed(names.into_names(), "rename")?;
        named(self.unnamed_alias()?, names)
    }
    /// Gives the dimensions of this tensor other names, as [`Tensor::rename`].
    ///
    /// # Panics
    /// As [`Tensor::rename`].
    #[doc(alias = "torch.Tensor.rename_")]
    #[track_caller]
    pub fn rename_(&self, names: impl IntoNames) {
        expect(self.try_rename_(names));
    }
    /// [`Tensor::rename_`] with errors as values.
    ///
    /// # Errors
    /// As [`Tensor::try_rename`].
    pub fn try_rename_(&self, names: impl IntoNames) -> Result<()> {
        self.set_dim_names(self.renamed(names.into_names(), "rename_")?)
    }
    /// A view with some dimensions called otherwise: pairs of the old and the new name.
    ///
    /// # Panics
    /// No dimension has the old name; as [`Tensor::rename`].
    #[doc(alias = "torch.Tensor.rename")]
    #[track_caller]
    pub fn rename_map(&self, pairs: &[(&str, &str)]) -> Tensor {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| (*a, Some(*b))).collect();
        let renamed = self.replaced(&pairs, "rename").and_then(|n| named(self.unnamed_alias()?, n));
        expect(renamed)
    }
    /// The names that a tensor gets by a list.
    pub(crate) fn renamed(&self, names: Names, function: &str) -> Result<Names> {
        if let [None] = names[..] {
            return Ok(Names::none(self.dim()));
        }
        filled_in(names, &self.dim_names(), function)
    }
    /// Its names with some of them exchanged; a dimension without name is called by its number.
    pub(crate) fn replaced(&self, pairs: &[(&str, Option<&str>)], function: &str) -> Result<Names> {
        let own = self.dim_names();
        let mut names = own.clone();
        for (old, new) in pairs {
            let at = own.iter().position(|n| n.as_deref() == Some(*old)).ok_or_else(|| {
                Error::runtime(format!(
                    "{function}: Tried to rename dim '{old}' to dim {} in Tensor[{}] but dim '{old}' does not exist",
                    new.unwrap_or("None"),
                    own.tuple_text()
                ))
            })?;
            names.0[at] = new.map(Arc::from);
        }
        Ok(names)
    }
    /// A view of the same elements without names.
    pub(crate) fn unnamed_alias(&self) -> Result<Tensor> {
        ignoring(|| ops::alias(self))
    }
    /// A view whose dimensions without names have got some; the others must be called as they are. `"..."` stands for the
    /// dimensions that are not mentioned.
    ///
    /// ```
    /// let x = torch::zeros([2, 3, 5, 7]).refine_names(["N", "...", "W"]);
    /// assert_eq!(x.names(), [Some("N"), None, None, Some("W")]);
    /// ```
    ///
    /// # Panics
    /// Other names than a dimension has; as [`Tensor::rename`].
    #[doc(alias = "torch.Tensor.refine_names")]
    #[track_caller]
    pub fn refine_names(&self, names: impl IntoNames) -> Tensor {
        expect(self.try_refine_names(names))
    }
    /// [`Tensor::refine_names`] with errors as values.
    ///
    /// # Errors
    /// Other names than a dimension has; as [`Tensor::try_rename`].
    pub fn try_refine_names(&self, names: impl IntoNames) -> Result<Tensor> {
        let own = self.dim_names();
        let names = filled_in(names.into_names(), &own, "refine_names")?;
        ensure!(
            own.len() == names.len(),
            Runtime,
            "refine_names: cannot coerce Tensor{own} to Tensor{names} because they have a different number of dims ({} and \
             {} respectively).",
            own.len(),
            names.len()
        );
        names.check_for(self.dim())?;
        for (i, (a, b)) in own.iter().zip(names.iter()).enumerate() {
            if a.is_none() || a == b {
                continue;
            }
            let why = if b.is_none() {
                format!("{} is less specific than {}", Shown(b), Shown(a))
            } else {
                format!("{} is different from {}", Shown(a), Shown(b))
            };
            return Err(Error::runtime(format!(
                "refine_names: cannot coerce Tensor{own} to Tensor{names} because {why} at index {i}."
            )));
        }
        named(self.unnamed_alias()?, names)
    }
    /// A view with the dimensions in the order of the names, and dimensions of one element for names that this tensor does
    /// not have. `"..."` stands for the dimensions that are not mentioned, in their order. All dimensions must have names.
    ///
    /// ```
    /// let x = torch::zeros([2, 3]).refine_names(["N", "C"]);
    /// let y = x.align_to(["C", "H", "N"]);
    /// assert_eq!((y.sizes(), y.names()), (&[3, 1, 2][..], x.align_to(["C", "H", "..."]).names()));
    /// ```
    ///
    /// # Panics
    /// A dimension without name, or whose name is not in the list.
    #[doc(alias = "torch.Tensor.align_to")]
    #[track_caller]
    pub fn align_to(&self, names: impl IntoNames) -> Tensor {
        expect(self.try_align_to(names))
    }
    /// [`Tensor::align_to`] with errors as values.
    ///
    /// # Errors
    /// A dimension without name, or whose name is not in the list.
    pub fn try_align_to(&self, names: impl IntoNames) -> Result<Tensor> {
        let own = self.dim_names();
        let mut names = names.into_names();
        if let Some(i) = own.iter().position(Option::is_none) {
            return Err(Error::runtime(format!(
                "align_to: All input dims must be named. Found unnamed dim at index {i} of Tensor{own}"
            )));
        }
        if let Some(at) = ellipsis(&names, "align_to")? {
            let rest: Vec<_> = own.iter().filter(|n| !names.contains(n)).cloned().collect();
            names = Names([&names[..at], &rest, &names[at + 1..]].concat());
        }
        ensure!(
            names.iter().all(Option::is_some),
            Runtime,
            "align_to: the desired order of dimensions cannot contain a None name, got {names}"
        );
        names.check_for(names.len())?;
        if let Some(name) = own.iter().find(|n| !names.contains(n)) {
            return Err(Error::runtime(format!(
                "align_to: Cannot find dim {} from Tensor{own} in desired alignment {names}.",
                Shown(name)
            )));
        }
        let order: Vec<i64> =
            names.iter().filter_map(|n| own.iter().position(|o| o == n)).map(|d| d as i64).collect();
        let t = ignoring(|| {
            let mut t = ops::permute(self, &order)?;
            for (d, _) in names.iter().enumerate().filter(|(_, n)| !own.contains(n)) {
                t = ops::unsqueeze(&t, d as i64)?;
            }
            Ok::<Tensor, Error>(t)
        })?;
        named(t, names)
    }
    /// [`Tensor::align_to`] the names of another tensor.
    ///
    /// # Panics
    /// As [`Tensor::align_to`].
    #[doc(alias = "torch.Tensor.align_as")]
    #[track_caller]
    pub fn align_as(&self, other: &Tensor) -> Tensor {
        expect(self.try_align_as(other))
    }
    /// [`Tensor::align_as`] with errors as values.
    ///
    /// # Errors
    /// As [`Tensor::try_align_to`].
    pub fn try_align_as(&self, other: &Tensor) -> Result<Tensor> {
        self.try_align_to(other.dim_names())
    }
    /// Joins dimensions that follow each other into one of that name: `flatten(dims, out_dim)` with names.
    ///
    /// ```
    /// let x = torch::zeros([2, 3, 5]).refine_names(["N", "H", "W"]);
    /// let y = x.flatten_names(["H", "W"], "pixels");
    /// assert_eq!((y.sizes(), y.unflatten_names("pixels", &[("H", 3), ("W", 5)]).names()), (&[2, 15][..], x.names()));
    /// ```
    ///
    /// # Panics
    /// Dimensions that do not exist or do not follow each other.
    #[doc(alias = "torch.Tensor.flatten")]
    #[track_caller]
    pub fn flatten_names(&self, dims: impl IntoNames, out_dim: &str) -> Tensor {
        expect(self.try_flatten_names(dims, out_dim))
    }
    /// [`Tensor::flatten_names`] with errors as values.
    ///
    /// # Errors
    /// Dimensions that do not exist or do not follow each other.
    pub fn try_flatten_names(&self, dims: impl IntoNames, out_dim: &str) -> Result<Tensor> {
        let dims = dims.into_names();
        let places = self.places(&dims)?;
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Err(Error::runtime("flatten(tensor, dims, out_dim): dims cannot be empty"));
        };
        ensure!(
            places.windows(2).all(|w| w[0] + 1 == w[1]),
            Runtime,
            "flatten(tensor, dims, out_dim): dims {dims} must be consecutive in Tensor{}",
            self.dim_names()
        );
        self.flatten_range(*first, *last, out_dim)
    }
    /// Joins a range of dimensions into one with a name.
    pub(crate) fn flatten_range(&self, first: i64, last: i64, out_dim: &str) -> Result<Tensor> {
        let rank = self.dim() as i64;
        let wrap = |d: i64| if d < 0 { d + rank } else { d };
        let t = ignoring(|| ops::flatten(&ops::alias(self)?, first, last))?;
        let mut names = self.dim_names();
        let range = usize::try_from(wrap(first)).ok().zip(usize::try_from(wrap(last)).ok());
        if let Some((a, b)) = range.filter(|(a, b)| a <= b && *b < names.len()) {
            names.0.splice(a..=b, [Some(Arc::from(out_dim))]);
        }
        named(t, names)
    }
    /// Takes a dimension apart into dimensions of these names and sizes: `unflatten(dim, namedshape)`.
    ///
    /// # Panics
    /// No dimension of that name; sizes whose product is not the dimension's.
    #[doc(alias = "torch.Tensor.unflatten")]
    #[track_caller]
    pub fn unflatten_names(&self, dim: &str, sizes: &[(&str, i64)]) -> Tensor {
        let place = self.dim_names().position(dim);
        expect(place.and_then(|d| self.try_unflatten_at(d as i64, sizes)))
    }
    /// The same of the dimension at a place.
    pub(crate) fn try_unflatten_at(&self, dim: i64, sizes: &[(&str, i64)]) -> Result<Tensor> {
        ensure!(!sizes.is_empty(), Runtime, "unflatten: sizes must be non-empty");
        let numbers: Vec<i64> = sizes.iter().map(|s| s.1).collect();
        let t = ignoring(|| ops::unflatten(self, dim, &numbers))?;
        let mut names = self.dim_names();
        let at = if dim < 0 { dim + self.dim() as i64 } else { dim };
        if let Some(at) = usize::try_from(at).ok().filter(|d| *d < names.len()) {
            names.0.splice(at..=at, sizes.iter().map(|s| Some(Arc::from(s.0))));
        }
        named(t, names)
    }
    /// The place of the dimension of that name: what operators take as `dim`.
    ///
    /// ```
    /// let x = torch::ones([2, 3]).refine_names(["N", "C"]);
    /// assert_eq!(x.softmax(x.dim_of("C")).names(), ["N", "C"]);
    /// ```
    ///
    /// # Panics
    /// No dimension has that name.
    #[track_caller]
    pub fn dim_of(&self, name: &str) -> i64 {
        expect(self.dim_names().position(name)) as i64
    }
    /// The places of the dimensions of these names.
    ///
    /// # Panics
    /// No dimension has one of the names.
    #[track_caller]
    pub fn dims_of(&self, names: impl IntoNames) -> Vec<i64> {
        expect(self.places(&names.into_names()))
    }
    fn places(&self, names: &Names) -> Result<Vec<i64>> {
        let own = self.dim_names();
        let place = |n: &Option<Arc<str>>| match n {
            Some(n) => own.position(n).map(|d| d as i64),
            None => Err(Error::runtime("Please look up dimensions by name, got: name = None.")),
        };
        names.iter().map(place).collect()
    }
}
