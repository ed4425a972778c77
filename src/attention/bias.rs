//! Which projections of an attention layer have a bias.

use crate::nn::{Bias, BiasKind, NoBias};

/// Which of the four projections of an attention layer have a bias: [`Bias`] all, [`NoBias`] none,
/// [`QkvBias`] all but the output, [`NoKeyBias`] all but the keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which projections have a bias",
    label = "write `Bias`, `NoBias`, `QkvBias` or `NoKeyBias`"
)]
pub trait AttentionBias: sealed::Sealed {
    /// Of the queries.
    type Query: BiasKind;
    /// Of the keys.
    type Key: BiasKind;
    /// Of the values.
    type Value: BiasKind;
    /// Of the output.
    type Out: BiasKind;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::nn::Bias {}
    impl Sealed for crate::nn::NoBias {}
    impl Sealed for super::QkvBias {}
    impl Sealed for super::NoKeyBias {}
}

/// A bias on queries, keys and values, none on the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct QkvBias;

/// A bias on queries, values and the output, none on the keys, where it would have no effect: it
/// adds the same to all scores of a query. Whisper has it so.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeyBias;

macro_rules! attention_bias {
    ($($T:ty: $Query:ty, $Key:ty, $Value:ty, $Out:ty;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl AttentionBias for $T {
            type Query = $Query;
            type Key = $Key;
            type Value = $Value;
            type Out = $Out;
        }
    )+ };
}
attention_bias! {
    Bias: Bias, Bias, Bias, Bias;
    NoBias: NoBias, NoBias, NoBias, NoBias;
    QkvBias: Bias, Bias, Bias, NoBias;
    NoKeyBias: Bias, NoBias, Bias, Bias;
}
