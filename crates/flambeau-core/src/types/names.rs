//! Names of dimensions: what they may be, how those of several tensors are matched, and what an operator's row says it
//! does with them.

use super::error::{Error, Result};
use crate::ensure;
use std::fmt;
use std::sync::Arc;

/// The name of one dimension; none where the dimension has none, which matches every name.
///
/// ```
/// use torch::DimName;
/// let all: Vec<DimName> = torch::zeros([2, 3]).rename(["N", "C"]).names().0;
/// assert_eq!(all[0].as_deref(), Some("N"));
/// ```
pub type DimName = Option<Arc<str>>;

/// What an operator makes of the names of its arguments' dimensions: the key `names` of its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameRule {
    /// Named tensors are refused.
    #[doc(alias = "named-tensor.rule:unsupported-subsystems")]
    Unsupported,
    /// Results have the names of the first tensor.
    #[doc(alias = "named-tensor.rule:keeps-input-names")]
    Keep,
    /// Names of all tensors are matched from the right; results have the more specific ones.
    #[doc(alias = "named-tensor.rule:unifies-names")]
    Unify,
    /// The same check; results have no names.
    Match,
    /// Results lack the dimensions that were reduced or taken apart, and so their names.
    #[doc(alias = "named-tensor.rule:removes-dimensions")]
    Remove,
    /// The same of dimensions of one element.
    Squeeze,
    /// Names go where their dimensions go.
    #[doc(alias = "named-tensor.rule:permutes-dimensions")]
    Permute,
    /// Products of matrices: dimensions that are summed over vanish, those of batches are matched.
    #[doc(alias = "named-tensor.rule:contracts-away-dims")]
    Contract,
    /// Distances: rows of both arguments, and matched batches.
    Pairs,
    /// Tensors of a list are joined: their names are matched one by one.
    Join,
    /// Two dimensions become a last one without name.
    Diagonal,
    /// New dimensions in front have no names.
    Expand,
    /// Results have no names.
    Nothing,
    /// Made of sizes: the function takes `names`.
    #[doc(alias = "named-tensor.rule:factory-functions")]
    Factory,
}

/// Names of all dimensions of a tensor.
///
/// ```
/// use torch::Names;
/// let x = torch::zeros([2, 3]).rename([Some("N"), None]);
/// let names: Names = x.names();
/// assert_eq!((names.0[0].as_deref(), names.0[1].as_deref()), (Some("N"), None));
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Names(pub Vec<DimName>);

/// More dimensions than this have no names.
const MOST: usize = 64;

impl Names {
    /// No dimension has a name.
    pub fn none(dims: usize) -> Names {
        Names(vec![None; dims])
    }
    /// Whether any dimension has a name.
    pub fn any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }
    /// Whether they may be the names of a tensor of so many dimensions.
    ///
    /// # Errors
    /// Another number of names, names that are no identifiers or begin with an underscore, the same name twice.
    #[doc(alias = "named-tensor.rule:name-syntax")]
    pub fn check_for(&self, dims: usize) -> Result<()> {
        ensure!(
            dims <= MOST,
            Runtime,
            "Named tensors only support up to {MOST} dims: Attempted to create a tensor with dim {dims} with names {self}"
        );
        ensure!(
            dims == self.0.len(),
            Runtime,
            "Number of names ({}) and number of dimensions in tensor ({dims}) do not match. Attempted to create a tensor \
             with names {self}",
            self.0.len()
        );
        for (i, name) in self.0.iter().enumerate() {
            let Some(name) = name else { continue };
            check_identifier(name)?;
            ensure!(
                !self.0[i + 1..].iter().flatten().any(|n| n == name),
                Runtime,
                "Cannot construct a tensor with duplicate names. Got names: {self}."
            );
        }
        Ok(())
    }
    /// The place of a dimension.
    ///
    /// # Errors
    /// No dimension has that name.
    pub fn position(&self, name: &str) -> Result<usize> {
        self.0
            .iter()
            .position(|n| n.as_deref() == Some(name))
            .ok_or_else(|| Error::runtime(format!("Name '{name}' not found in Tensor{self}.")))
    }
    /// `('N', None)`, as Python prints the tuple.
    pub fn tuple_text(&self) -> String {
        match &self.0[..] {
            [one] => format!("({},)", Shown(one)),
            all => {
                format!("({})", all.iter().map(|n| Shown(n).to_string()).collect::<Vec<_>>().join(", "))
            }
        }
    }
    /// Names of tensors that broadcast to each other: matched from the right, the more specific ones.
    ///
    /// # Errors
    /// Names that do not match, or are at different places from the right.
    #[doc(alias = "named-tensor.rule:match-unify")]
    #[doc(alias = "named-tensor.rule:broadcast-alignment")]
    pub fn unify(&self, other: &Names, action: &str) -> Result<Names> {
        let n = self.0.len().max(other.0.len());
        let mut all = vec![None; n];
        let from_right = |l: &Names, i: usize| l.0.len().checked_sub(i + 1).and_then(|i| l.0[i].clone());
        for i in 0..n {
            let (a, b) = (from_right(self, i), from_right(other, i));
            if a.is_some() && b.is_some() && a != b {
                return Err(Error::runtime(format!(
                    "Error when attempting to {action} dims {self} and dims {other}: dim {} and dim {} are at the same \
                     position from the right but do not match.",
                    Shown(&a),
                    Shown(&b)
                )));
            }
            if a.is_none() || b.is_none() {
                misaligned(&a, self, other, action)?;
                misaligned(&b, other, self, action)?;
            }
            all[n - 1 - i] = a.or(b);
        }
        Ok(Names(all))
    }
    /// The same in a product's words; dimensions that only one of them has keep their names.
    fn unify_batches(&self, other: &Names, of: (&Names, &Names), label: &str) -> Result<Names> {
        let n = self.0.len().max(other.0.len());
        let mut all = vec![None; n];
        for i in 0..n {
            let at = |l: &Names| l.0.len().checked_sub(i + 1);
            all[n - 1 - i] = match (at(self), at(other)) {
                (Some(a), Some(b)) => {
                    let (x, y) = (Place(a, of.0), Place(b, of.1));
                    match (&self.0[a], &other.0[b]) {
                        (None, None) => None,
                        (Some(m), Some(n)) if m == n => Some(m.clone()),
                        (Some(_), Some(_)) => {
                            return Err(Error::runtime(format!(
                                "{label}: Expected {x} to match {y} but they do not match."
                            )));
                        }
                        (Some(m), None) => only(m, x, y, label)?,
                        (None, Some(n)) => only(n, y, x, label)?,
                    }
                }
                (Some(a), None) => self.0[a].clone(),
                (None, Some(b)) => other.0[b].clone(),
                (None, None) => None,
            };
        }
        Ok(Names(all))
    }
    fn batches(&self) -> Names {
        Names(self.0[..self.0.len().saturating_sub(2)].to_vec())
    }
    fn last_but(&self, i: usize) -> DimName {
        self.0.len().checked_sub(i).and_then(|i| self.0[i].clone())
    }
    /// Names of a product of vectors, matrices or batches of them.
    ///
    /// # Errors
    /// Batches whose names do not match, a result with a name twice.
    pub fn product(&self, other: &Names) -> Result<Names> {
        let (a, b) = (self.0.len(), other.0.len());
        ensure!(
            a >= 1 && b >= 1,
            Runtime,
            "both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        );
        let mut all = self.batches().unify_batches(&other.batches(), (self, other), "matmul")?;
        all.0.extend((a >= 2).then(|| self.last_but(2)));
        all.0.extend((b >= 2).then(|| other.last_but(1)));
        if a >= 2 && b >= 2 {
            let last = all.last_but(1);
            ensure!(
                last.is_none() || all.last_but(2) != last,
                Runtime,
                "Matrix multiplying Tensor{self} with Tensor{other} would produce output tensor with duplicate names {all}. \
                 Please rename the input tensors with `Tensor.rename` to prevent this."
            );
        }
        Ok(all)
    }
    /// Names of the distances between the rows of two batches of matrices.
    ///
    /// # Errors
    /// As for [`Names::product`].
    pub fn pairs(&self, other: &Names) -> Result<Names> {
        let mut all = self.batches().unify_batches(&other.batches(), (self, other), "cdist")?;
        all.0.extend([self.last_but(2), other.last_but(2)]);
        let last = all.last_but(1);
        ensure!(
            last.is_none() || all.last_but(2) != last,
            Runtime,
            "cdist: Attempted to propagate dims {all} to the output, but that would create a tensor with duplicate names. \
             Please rename your inputs with Tensor.rename to prevent this."
        );
        Ok(all)
    }
}

/// A name that stands against none: the other list must not have it elsewhere.
fn misaligned(name: &DimName, names: &Names, other: &Names, action: &str) -> Result<()> {
    ensure!(
        name.is_none() || !other.0.contains(name),
        Runtime,
        "Misaligned dims when attempting to {action} dims {names} and dims {other}: dim {} appears in a different position \
         from the right across both lists.",
        Shown(name)
    );
    Ok(())
}
fn only(name: &Arc<str>, x: Place<'_>, y: Place<'_>, label: &str) -> Result<DimName> {
    ensure!(
        !y.1.0.iter().flatten().any(|n| n == name),
        Runtime,
        "{label}: Cannot match {x} with {y} because the latter names already have '{name}'. Are your tensors misaligned?"
    );
    Ok(Some(name.clone()))
}
fn check_identifier(name: &str) -> Result<()> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    ensure!(
        begins && name.chars().all(letters),
        Runtime,
        "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or underscore and starts with a \
         non-digit. got: '{name}'."
    );
    Ok(())
}

/// One name as Python prints it.
pub struct Shown<'a>(pub &'a DimName);
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(n) => write!(f, "'{n}'"),
            None => f.write_str("None"),
        }
    }
}
/// A name with its place in a list.
struct Place<'a>(usize, &'a Names);
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (index {} of {})", Shown(&self.1.0[self.0]), self.0, self.1)
    }
}
/// `['N', None]`
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|n| Shown(n).to_string()).collect();
        write!(f, "[{}]", all.join(", "))
    }
}
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl std::ops::Deref for Names {
    type Target = [DimName];
    fn deref(&self) -> &[DimName] {
        &self.0
    }
}
impl<const N: usize> PartialEq<[&str; N]> for Names {
    fn eq(&self, o: &[&str; N]) -> bool {
        self.0.len() == N && self.0.iter().zip(o).all(|(a, b)| a.as_deref() == Some(*b))
    }
}
impl<const N: usize> PartialEq<[Option<&str>; N]> for Names {
    fn eq(&self, o: &[Option<&str>; N]) -> bool {
        self.0.len() == N && self.0.iter().zip(o).all(|(a, b)| a.as_deref() == *b)
    }
}

/// What stands for all dimensions that a list of names does not mention.
pub const ELLIPSIS: &str = "...";

/// Lists of names: `["N", "C"]`, `[Some("N"), None]`, one name, or `None`.
///
/// ```
/// use torch::IntoNames;
/// fn count(names: impl IntoNames) -> usize {
///     names.into_names().0.len()
/// }
/// assert_eq!((count(["N", "C"]), count("N"), count([Some("N"), None])), (2, 1, 2));
/// ```
pub trait IntoNames {
    /// As a list.
    fn into_names(self) -> Names;
}
impl IntoNames for Names {
    fn into_names(self) -> Names {
        self
    }
}
impl IntoNames for &Names {
    fn into_names(self) -> Names {
        self.clone()
    }
}
impl IntoNames for &str {
    fn into_names(self) -> Names {
        Names(vec![Some(self.into())])
    }
}
impl IntoNames for Option<&str> {
    fn into_names(self) -> Names {
        Names(vec![self.map(Arc::from)])
    }
}
impl<const N: usize> IntoNames for [&str; N] {
    fn into_names(self) -> Names {
        self.as_slice().into_names()
    }
}
impl IntoNames for &[&str] {
    fn into_names(self) -> Names {
        Names(self.iter().map(|n| Some(Arc::from(*n))).collect())
    }
}
impl<const N: usize> IntoNames for [Option<&str>; N] {
    fn into_names(self) -> Names {
        self.as_slice().into_names()
    }
}
impl IntoNames for &[Option<&str>] {
    fn into_names(self) -> Names {
        Names(self.iter().map(|n| n.map(Arc::from)).collect())
    }
}
