//! Methods of `Tensor` that a program's features leave out: calls of them are errors that name the feature. Paths need nothing of the
//! kind, since the compiler remembers what `cfg` took away.

/// Methods of a feature, when it is off.
macro_rules! left_out {
    ($feature:literal $message:literal $note:literal $module:ident $bound:ident $methods:ident { $($name:ident)* }) => {
        #[cfg(not(feature = $feature))]
        mod $module {
            #[diagnostic::on_unimplemented(
                message = $message,
                label = "left out of this program",
                note = $note
            )]
            pub trait $bound {}
            #[doc(hidden)]
            pub trait $methods {
                $(#[allow(missing_docs)]
                fn $name(&self) -> crate::Tensor
                where
                    Self: $bound,
                {
                    unreachable!()
                })*
            }
            impl $methods for crate::Tensor {}
        }
        #[cfg(not(feature = $feature))]
        pub use $module::$methods;
    };
}
left_out!("fft" "this method of `Tensor` comes with the feature `fft` of flambeau"
"in Cargo.toml: `flambeau = {{ version = \"..\", features = [\"fft\"] }}`"
without_fft Fft TensorWithoutFft {
    fft fft_with ifft ifft_with irfft irfft_with istft istft_with rfft rfft_with stft stft_with
});
left_out!("linalg" "this method of `Tensor` comes with the feature `linalg` of flambeau"
"in Cargo.toml: `flambeau = {{ version = \"..\", features = [\"linalg\"] }}`"
without_linalg Linalg TensorWithoutLinalg {
    cholesky cholesky_inverse cholesky_inverse_with cholesky_solve cholesky_solve_with cholesky_with det geqrf lu_solve lu_unpack lu_unpack_with orgqr ormqr ormqr_with pinverse pinverse_with qr qr_with svd svd_with triangular_solve triangular_solve_with
});
left_out!("quantization" "this method of `Tensor` comes with the feature `quantization` of flambeau"
"in Cargo.toml: `flambeau = {{ version = \"..\", features = [\"quantization\"] }}`"
without_quantization Quantization TensorWithoutQuantization {
    dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
});
