//! Arguments hold arguments and expressions hold expressions, to any depth: they are copied, compared and dropped in a loop, and
//! shown to a depth. What walks them further is recursive, and refuses what is deeper than calls may be (`deep::LEVELS`).

use crate::argument::{Argument, same_value};
use crate::symbolic::Expr;
use flambeau_core::types::deep::{self, Nest};
use std::fmt;

impl Nest for Argument {
    fn hollow() -> Self {
        Argument::NONE
    }
    fn nests(&self) -> bool {
        !matches!(self, Argument::Node(_) | Argument::Value(_))
    }
    fn parts<'a>(&'a self, each: &mut dyn FnMut(&'a Self)) {
        match self {
            Argument::Node(_) | Argument::Value(_) => {}
            Argument::List(l) | Argument::Tuple(l) => l.iter().for_each(each),
            Argument::Dict(d) => d.iter().map(|(_, a)| a).for_each(each),
            Argument::Slice(s) => s.iter().for_each(each),
        }
    }
    fn parts_mut<'a>(&'a mut self, each: &mut dyn FnMut(&'a mut Self)) {
        match self {
            Argument::Node(_) | Argument::Value(_) => {}
            Argument::List(l) | Argument::Tuple(l) => l.iter_mut().for_each(each),
            Argument::Dict(d) => d.iter_mut().map(|(_, a)| a).for_each(each),
            Argument::Slice(s) => s.iter_mut().for_each(each),
        }
    }
}
impl Drop for Argument {
    #[inline]
    fn drop(&mut self) {
        deep::drop_parts(self);
    }
}
impl Clone for Argument {
    fn clone(&self) -> Self {
        deep::copy(self, |a| {
            let hollow = |l: &[Argument]| l.iter().map(|_| Argument::NONE).collect();
            match a {
                Argument::Node(n) => Argument::Node(*n),
                Argument::Value(v) => Argument::Value(v.clone()),
                Argument::List(l) => Argument::List(hollow(l)),
                Argument::Tuple(l) => Argument::Tuple(hollow(l)),
                Argument::Dict(d) => {
                    Argument::Dict(d.iter().map(|(k, _)| (k.clone(), Argument::NONE)).collect())
                }
                Argument::Slice(_) => Argument::Slice(Box::new([Argument::NONE; 3])),
            }
        })
    }
}
impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        deep::show(f, |f| match self {
            Argument::Node(v) => f.debug_tuple("Node").field(v).finish(),
            Argument::Value(v) => f.debug_tuple("Value").field(v).finish(),
            Argument::List(v) => f.debug_tuple("List").field(v).finish(),
            Argument::Tuple(v) => f.debug_tuple("Tuple").field(v).finish(),
            Argument::Dict(v) => f.debug_tuple("Dict").field(v).finish(),
            Argument::Slice(v) => f.debug_tuple("Slice").field(v).finish(),
        })
    }
}
/// Whether two arguments are alike but for their parts.
pub(crate) fn same_shell(a: &Argument, b: &Argument) -> bool {
    match (a, b) {
        (Argument::Node(a), Argument::Node(b)) => a == b,
        (Argument::Value(a), Argument::Value(b)) => same_value(a, b),
        (Argument::List(_), Argument::List(_))
        | (Argument::Tuple(_), Argument::Tuple(_))
        | (Argument::Slice(_), Argument::Slice(_)) => true,
        (Argument::Dict(a), Argument::Dict(b)) => a.iter().map(|(k, _)| k).eq(b.iter().map(|(k, _)| k)),
        _ => false,
    }
}

impl Nest for Expr {
    fn hollow() -> Self {
        Expr::Int(0)
    }
    fn nests(&self) -> bool {
        !matches!(self, Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::Symbol { .. })
    }
    fn parts<'a>(&'a self, each: &mut dyn FnMut(&'a Self)) {
        match self {
            Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::Symbol { .. } => {}
            Expr::Add(l) | Expr::Mul(l) | Expr::Max(l) | Expr::Min(l) | Expr::And(l) | Expr::Or(l) => {
                l.iter().for_each(each);
            }
            Expr::Pow(p) | Expr::FloorDiv(p) | Expr::TrueDiv(p) | Expr::Mod(p) | Expr::Relation(_, p) => {
                each(&p.0);
                each(&p.1);
            }
            Expr::Not(p) | Expr::Convert(_, p) => each(p),
        }
    }
    fn parts_mut<'a>(&'a mut self, each: &mut dyn FnMut(&'a mut Self)) {
        match self {
            Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::Symbol { .. } => {}
            Expr::Add(l) | Expr::Mul(l) | Expr::Max(l) | Expr::Min(l) | Expr::And(l) | Expr::Or(l) => {
                l.iter_mut().for_each(each);
            }
            Expr::Pow(p) | Expr::FloorDiv(p) | Expr::TrueDiv(p) | Expr::Mod(p) | Expr::Relation(_, p) => {
                let (a, b) = &mut **p;
                each(a);
                each(b);
            }
            Expr::Not(p) | Expr::Convert(_, p) => each(p),
        }
    }
}
impl Drop for Expr {
    #[inline]
    fn drop(&mut self) {
        deep::drop_parts(self);
    }
}
/// A copy of an expression with zeros in the places of its parts.
fn shell(e: &Expr) -> Expr {
    let hollow = |l: &[Expr]| l.iter().map(|_| Expr::Int(0)).collect();
    let pair = || Box::new((Expr::Int(0), Expr::Int(0)));
    match e {
        Expr::Int(i) => Expr::Int(*i),
        Expr::Float(x) => Expr::Float(*x),
        Expr::Bool(b) => Expr::Bool(*b),
        Expr::Symbol { name, positive } => Expr::Symbol { name: name.clone(), positive: *positive },
        Expr::Add(l) => Expr::Add(hollow(l)),
        Expr::Mul(l) => Expr::Mul(hollow(l)),
        Expr::Max(l) => Expr::Max(hollow(l)),
        Expr::Min(l) => Expr::Min(hollow(l)),
        Expr::And(l) => Expr::And(hollow(l)),
        Expr::Or(l) => Expr::Or(hollow(l)),
        Expr::Pow(_) => Expr::Pow(pair()),
        Expr::FloorDiv(_) => Expr::FloorDiv(pair()),
        Expr::TrueDiv(_) => Expr::TrueDiv(pair()),
        Expr::Mod(_) => Expr::Mod(pair()),
        Expr::Relation(r, _) => Expr::Relation(*r, pair()),
        Expr::Not(_) => Expr::Not(Box::new(Expr::Int(0))),
        Expr::Convert(c, _) => Expr::Convert(*c, Box::new(Expr::Int(0))),
    }
}
impl Clone for Expr {
    fn clone(&self) -> Self {
        deep::copy(self, shell)
    }
}
impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        deep::equal(self, other, |a, b| match (a, b) {
            (Expr::Int(a), Expr::Int(b)) => a == b,
            (Expr::Float(a), Expr::Float(b)) => a == b,
            (Expr::Bool(a), Expr::Bool(b)) => a == b,
            (Expr::Symbol { name: a, positive: p }, Expr::Symbol { name: b, positive: q }) => {
                a == b && p == q
            }
            (Expr::Relation(a, _), Expr::Relation(b, _)) => a == b,
            (Expr::Convert(a, _), Expr::Convert(b, _)) => a == b,
            _ => a.nests() && std::mem::discriminant(a) == std::mem::discriminant(b),
        })
    }
}
impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        deep::show(f, |f| match self {
            Expr::Int(v) => f.debug_tuple("Int").field(v).finish(),
            Expr::Float(v) => f.debug_tuple("Float").field(v).finish(),
            Expr::Bool(v) => f.debug_tuple("Bool").field(v).finish(),
            Expr::Symbol { name, positive } => {
                f.debug_struct("Symbol").field("name", name).field("positive", positive).finish()
            }
            Expr::Add(v) => f.debug_tuple("Add").field(v).finish(),
            Expr::Mul(v) => f.debug_tuple("Mul").field(v).finish(),
            Expr::Max(v) => f.debug_tuple("Max").field(v).finish(),
            Expr::Min(v) => f.debug_tuple("Min").field(v).finish(),
            Expr::And(v) => f.debug_tuple("And").field(v).finish(),
            Expr::Or(v) => f.debug_tuple("Or").field(v).finish(),
            Expr::Pow(v) => f.debug_tuple("Pow").field(v).finish(),
            Expr::FloorDiv(v) => f.debug_tuple("FloorDiv").field(v).finish(),
            Expr::TrueDiv(v) => f.debug_tuple("TrueDiv").field(v).finish(),
            Expr::Mod(v) => f.debug_tuple("Mod").field(v).finish(),
            Expr::Relation(r, v) => f.debug_tuple("Relation").field(r).field(v).finish(),
            Expr::Not(v) => f.debug_tuple("Not").field(v).finish(),
            Expr::Convert(c, v) => f.debug_tuple("Convert").field(c).field(v).finish(),
        })
    }
}
