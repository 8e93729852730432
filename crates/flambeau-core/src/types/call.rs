//! Closures behind a reference, for functions that many closures are handed to.

/// A closure with one argument. The table of a `dyn FnMut` has three functions, two of which nobody calls, and generated code
/// makes hundreds of them: that of a `dyn Call` has this one.
pub trait Call<A, R> {
    /// Calls it.
    fn call(&mut self, argument: A) -> R;
}
impl<A, R, F: FnMut(A) -> R> Call<A, R> for F {
    #[inline]
    fn call(&mut self, argument: A) -> R {
        self(argument)
    }
}
