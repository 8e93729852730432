//! Pairs of rows of which one takes a number where the other takes a tensor.

use super::Row;
use crate::schema::Base;

/// What the key `either` says: the short forms of the row that has it take a number or a tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Either {
    /// The other row.
    pub row: String,
    /// The argument that may be either.
    pub argument: String,
    /// Whether it is the other row that takes the number.
    pub other_number: bool,
    /// Whether the number is a float, where it is not any number.
    pub float: bool,
}

/// Finds the argument in which two rows of a family differ.
pub fn either(of: &Row, rows: &[Row], other: &str) -> Result<Either, String> {
    let pair =
        rows.iter().find(|r| r.rust == *other).ok_or_else(|| format!("no row `{other}` in the family"))?;
    let (mine, theirs) = (&of.schema.args, &pair.schema.args);
    let mut differing = mine.iter().zip(theirs).filter(|(a, b)| a.ty != b.ty);
    let (Some((a, b)), None) = (differing.next(), differing.next()) else {
        return Err(format!("`{other}` does not differ in the type of one argument"));
    };
    let number = |base| matches!(base, Base::Scalar | Base::Float);
    let (other_number, float) = match (a.ty.base, b.ty.base) {
        (Base::Tensor, b) if number(b) => (true, b == Base::Float),
        (a, Base::Tensor) if number(a) => (false, a == Base::Float),
        _ => return Err(format!("`{}` is not a number in one row and a tensor in the other", a.name)),
    };
    Ok(Either { row: other.into(), argument: a.name.clone(), other_number, float })
}
