//! How Python calls an operator, beyond its schema. The rows say it and core only carries it: who binds calls by name reads it.

/// One habit, under one of the documented names or, where `path` is empty, under all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Convention {
    /// The documented name that it holds for alone.
    pub path: &'static str,
    /// What holds.
    pub habit: Habit,
}

/// What Python does with the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Habit {
    /// A flag of that name, at that position, calls another function; it is not passed on.
    Flag {
        /// The keyword.
        name: &'static str,
        /// Its place among positional arguments.
        position: usize,
        /// What is called where it is set.
        then: &'static str,
    },
    /// Arguments are put in order first, in the way of that name.
    Arguments(&'static str),
    /// Another function takes calls whose arguments ask for it, by the rule of that name.
    Instead(&'static str),
    /// The method is Python's operator of that name (`sub` of `__sub__` and `__isub__`).
    Operator {
        /// Without underscores.
        name: &'static str,
        /// What stands for `__rsub__`.
        right: Right,
    },
    /// Tensor arguments take numbers without an overload for them.
    NumbersAsTensors,
    /// There is a second, deprecated signature that error texts do not show but that counts as an overload.
    HiddenOverload,
    /// The row stands for two overloads, one without dimensions; `out` says whether that one has `out=`.
    Whole {
        /// See above.
        out: bool,
    },
    /// There is an overload for a number on the left; `out` says whether it has `out=`.
    NumberFirst {
        /// See above.
        out: bool,
    },
    /// Any number of tensors may stand in the place of the one list of tensors.
    Variadic,
    /// The function is written in Python: errors of calls are Python's, and what is given in the place of a tensor lacks the
    /// attribute that stands beside the argument, if there is one.
    Defined(&'static [(&'static str, &'static str)]),
    /// ATen shows the loss as `torch.NAME` too: the reduction as a number, and these arguments by position.
    AtenLoss(&'static [&'static str]),
}

/// How an operator is called whose left operand is no tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// The function with both arguments exchanged.
    Swapped,
    /// The method itself: the order does not matter.
    Same,
    /// The product of the number with the reciprocal.
    Reciprocal,
    /// Not at all, and not in place either.
    None,
}
