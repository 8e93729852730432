//! Which sizes of a program's inputs may differ from call to call (`torch.export.dynamic_shapes`).

use crate::program::ExportedProgram;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, Result, Tensor, Value};
use std::ops::{Add, Mul, Sub};

/// What a size may be.
#[doc(alias = "torch.export.Dim")]
#[derive(Clone, Debug, PartialEq)]
pub enum Dim {
    /// Any, if the program holds for any; else the size that it is.
    Auto,
    /// Any; a program that does not hold for any is refused.
    Dynamic,
    /// The size that it is.
    Static,
    /// Any within bounds; dims of one name are equal.
    Named(Named),
    /// `factor * root + offset`
    Derived {
        /// The dim that it follows from.
        root: Named,
        /// By which that is multiplied.
        factor: i64,
        /// What is added.
        offset: i64,
    },
}
/// A dim of a name.
///
/// ```
/// use torch::export::{Dim, Named};
/// let Dim::Named(Named { name, min, max }) = Dim::new("batch").max(8) else { panic!("it has a name") };
/// assert_eq!((name.as_str(), min, max), ("batch", None, Some(8)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// At least.
    pub min: Option<i64>,
    /// At most.
    pub max: Option<i64>,
}
impl Dim {
    /// Dynamic if that is possible.
    #[doc(alias = "torch.export.dynamic_shapes.Dim.AUTO")]
    pub const AUTO: Dim = Dim::Auto;
    /// Dynamic, or an error.
    #[doc(alias = "torch.export.dynamic_shapes.Dim.DYNAMIC")]
    pub const DYNAMIC: Dim = Dim::Dynamic;
    /// The size of the example.
    #[doc(alias = "torch.export.dynamic_shapes.Dim.STATIC")]
    pub const STATIC: Dim = Dim::Static;
    /// A dim of that name.
    ///
    /// ```
    /// use torch::export::Dim;
    ///
    /// let batch = Dim::new("batch").min(2).max(64);
    /// assert_eq!((batch.clone() * 2 + 1).to_string(), "2*batch + 1");
    /// ```
    pub fn new(name: &str) -> Dim {
        Dim::Named(Named { name: name.to_string(), min: None, max: None })
    }
    /// With a least size.
    pub fn min(mut self, n: i64) -> Dim {
        if let Dim::Named(d) = &mut self {
            d.min = Some(n);
        }
        self
    }
    /// With a largest size.
    pub fn max(mut self, n: i64) -> Dim {
        if let Dim::Named(d) = &mut self {
            d.max = Some(n);
        }
        self
    }
    fn linear(self, by: i64, plus: i64) -> Dim {
        match self {
            Dim::Named(root) => Dim::Derived { root, factor: by, offset: plus },
            Dim::Derived { root, factor, offset } => {
                Dim::Derived { root, factor: factor * by, offset: offset * by + plus }
            }
            hint => hint,
        }
    }
}
impl Mul<i64> for Dim {
    type Output = Dim;
    fn mul(self, n: i64) -> Dim {
        self.linear(n, 0)
    }
}
impl Mul<Dim> for i64 {
    type Output = Dim;
    fn mul(self, d: Dim) -> Dim {
        d.linear(self, 0)
    }
}
impl Add<i64> for Dim {
    type Output = Dim;
    fn add(self, n: i64) -> Dim {
        self.linear(1, n)
    }
}
impl Sub<i64> for Dim {
    type Output = Dim;
    fn sub(self, n: i64) -> Dim {
        self.linear(1, -n)
    }
}
impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Auto => f.write_str("DimHint.AUTO"),
            Dim::Dynamic => f.write_str("DimHint.DYNAMIC"),
            Dim::Static => f.write_str("DimHint.STATIC"),
            Dim::Named(d) => f.write_str(&d.name),
            Dim::Derived { root, factor, offset } => {
                if *factor != 1 {
                    write!(f, "{factor}*")?;
                }
                f.write_str(&root.name)?;
                match offset {
                    0 => Ok(()),
                    n if *n < 0 => write!(f, " - {}", -n),
                    n => write!(f, " + {n}"),
                }
            }
        }
    }
}

/// Which sizes of which inputs are dynamic: inputs by the text that reads them (`x`, `d['x']`, `l[0]`), dimensions by number. For
/// an input that is an integer, dimension 0 is the number itself.
///
/// ```
/// use torch::export::{self, Dim, DynamicShapes, ExportOptions};
/// use torch::{Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let shapes = DynamicShapes::new().with("x", [(0, Dim::new("batch"))]);
/// let options = ExportOptions::new().names(&["x"]).dynamic_shapes(shapes);
/// let p = export::export_with(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])], options);
/// assert_eq!(p.module()?.try_forward(&[&torch::zeros([7, 2])])?.sizes(), &[7, 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.export.dynamic_shapes")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicShapes {
    pub(crate) of: Vec<(String, Vec<(usize, Dim)>)>,
}
impl DynamicShapes {
    /// None.
    pub fn new() -> DynamicShapes {
        DynamicShapes::default()
    }
    /// With dims of an input.
    pub fn with(mut self, input: &str, dims: impl IntoIterator<Item = (usize, Dim)>) -> DynamicShapes {
        self.of.push((input.to_string(), dims.into_iter().collect()));
        self
    }
}

/// Dims by tensor instead of by name.
///
/// ```
/// use torch::export::{Dim, ShapesCollection};
/// let x = torch::zeros([4, 2]);
/// let mut sizes = ShapesCollection::new();
/// sizes.set(&x, [(0, Dim::new("batch"))]);
/// assert!(sizes.dynamic_shapes(&["x"], &[(&x).into()], &[]).is_ok());
/// ```
#[doc(alias = "torch.export.dynamic_shapes.ShapesCollection")]
#[derive(Clone, Debug, Default)]
pub struct ShapesCollection {
    of: Vec<(Tensor, Vec<(usize, Dim)>)>,
}
impl ShapesCollection {
    /// Empty.
    pub fn new() -> ShapesCollection {
        ShapesCollection::default()
    }
    /// Says the dims of a tensor among the inputs.
    pub fn set(&mut self, t: &Tensor, dims: impl IntoIterator<Item = (usize, Dim)>) {
        self.of.push((t.clone(), dims.into_iter().collect()));
    }
    /// What it says of these arguments, whose parameters have these names.
    ///
    /// # Errors
    /// A tensor that is none of the arguments.
    #[doc(alias = "torch.export.dynamic_shapes.ShapesCollection.dynamic_shapes")]
    pub fn dynamic_shapes(&self, names: &[&str], args: &[Value], kwargs: &Kwargs) -> Result<DynamicShapes> {
        let leaves = crate::capture::named_leaves(names, args, kwargs);
        let mut out = DynamicShapes::new();
        for (t, dims) in &self.of {
            let found = leaves.iter().find(|(_, v)| matches!(v, Value::Tensor(u) if u.is_same(t)));
            let Some((path, _)) = found else {
                return Err(Error::value(
                    "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when passing them \
                     as args? Maybe such tensors are contained in classes that were not registered with pytree?",
                ));
            };
            out.of.push((path.clone(), dims.clone()));
        }
        Ok(out)
    }
}

/// Further inputs that a program must hold for: sizes that differ among them are dynamic.
///
/// ```
/// use torch::export::{self, AdditionalInputs, ExportOptions};
/// use torch::{Tensor, nn, prelude::*};
///
/// let (net, x) = (nn::Linear::new(2, 3), torch::zeros([4, 2]));
/// let mut others = AdditionalInputs::new();
/// others.add(&[torch::zeros([6, 2]).into()], &[]);
/// let shapes = others.dynamic_shapes(&["x"], &[(&x).into()], &[])?;
/// let options = ExportOptions::new().names(&["x"]).dynamic_shapes(shapes);
/// let p = export::export_with(&net, |x: &[Tensor]| net.call(&x[0]), &[&x], options);
/// others.verify(&p)?;
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.export.dynamic_shapes.AdditionalInputs")]
#[derive(Clone, Debug, Default)]
pub struct AdditionalInputs {
    all: Vec<(Vec<Value>, Vec<(String, Value)>)>,
}
impl AdditionalInputs {
    /// None.
    pub fn new() -> AdditionalInputs {
        AdditionalInputs::default()
    }
    /// Adds arguments of a call.
    #[doc(alias = "torch.export.dynamic_shapes.AdditionalInputs.add")]
    pub fn add(&mut self, args: &[Value], kwargs: &Kwargs) {
        self.all.push((args.to_vec(), kwargs.to_vec()));
    }
    /// Which sizes differ from those of these arguments, whose parameters have these names.
    ///
    /// # Errors
    /// Arguments that are built differently.
    #[doc(alias = "torch.export.dynamic_shapes.AdditionalInputs.dynamic_shapes")]
    pub fn dynamic_shapes(&self, names: &[&str], args: &[Value], kwargs: &Kwargs) -> Result<DynamicShapes> {
        let first = crate::capture::named_leaves(names, args, kwargs);
        let mut out = DynamicShapes::new();
        let differ = || Error::value("the additional inputs are built differently from the first");
        let mut others = Vec::new();
        for (args, kwargs) in &self.all {
            let other = crate::capture::named_leaves(names, args, kwargs);
            if other.len() != first.len() {
                return Err(differ());
            }
            others.push(other);
        }
        for (i, (path, v)) in first.iter().enumerate() {
            let mut dims = Vec::new();
            for other in &others {
                match (v, &other[i].1) {
                    (Value::Tensor(a), Value::Tensor(b)) if a.dim() == b.dim() => {
                        for d in (0..a.dim()).filter(|d| a.sizes()[*d] != b.sizes()[*d]) {
                            dims.push((d, Dim::Dynamic));
                        }
                    }
                    (Value::Int(a), Value::Int(b)) if a != b => dims.push((0, Dim::Dynamic)),
                    (Value::Tensor(_), _) | (_, Value::Tensor(_)) => return Err(differ()),
                    _ => {}
                }
            }
            dims.sort_by_key(|(d, _)| *d);
            dims.dedup();
            if !dims.is_empty() {
                out.of.push((path.clone(), dims));
            }
        }
        Ok(out)
    }
    /// Runs the program on all of them.
    ///
    /// # Errors
    /// The first that it does not hold for.
    #[doc(alias = "torch.export.dynamic_shapes.AdditionalInputs.verify")]
    pub fn verify(&self, program: &ExportedProgram) -> Result<()> {
        let m = program.module()?;
        self.all.iter().try_for_each(|(args, kwargs)| m.run(args, kwargs).map(drop))
    }
}
