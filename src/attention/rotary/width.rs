//! How many features turn, and which of them are a pair.

use crate::size::{AtLeast, C, DivisibleBy, Known, Size, Static, Times};

/// The number of features that rotary position embedding turns: an even one.
///
/// # Compile errors
/// `rotary_width_must_be_even`: "a rotary width must be even, and C<5> is not".
#[diagnostic::on_unimplemented(
    message = "a rotary width must be even, and {Self} is not",
    label = "features turn in pairs",
    note = "the width has arithmetic: 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576; in generic code bound it by `RotaryWidth`"
)]
pub trait RotaryWidth: Static + RotatedBy<Self> {
    /// The number of pairs, R/2.
    type Pairs: Known + Times<C<2>, Product = Self>;
}

#[diagnostic::do_not_recommend]
impl<R: DivisibleBy<C<2>> + RotatedBy<R>> RotaryWidth for R {
    type Pairs = R::Quotient;
}

/// A head of this width has the features that a rotary width of `R` turns: it is as wide, or wider.
///
/// # Compile errors
/// `rotary_width_must_be_at_most_the_head_dim`: "heads of width C<6> are narrower than the rotary width
/// C<8>".
#[diagnostic::on_unimplemented(
    message = "heads of width {Self} are narrower than the rotary width {R}",
    label = "the rotary width must be at most the width of a head",
    note = "both have arithmetic: 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576; generic code needs the bound `{Self}: RotatedBy<{R}>`"
)]
pub trait RotatedBy<R>: Size {}

#[diagnostic::do_not_recommend]
impl<R, D: Size + AtLeast<R>> RotatedBy<R> for D {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Adjacent {}
    impl Sealed for super::SplitHalf {}
}

/// Which features of a head are a pair: [`SplitHalf`] or [`Adjacent`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which features are a pair",
    label = "write `SplitHalf` or `Adjacent`"
)]
pub trait Pairing: sealed::Sealed {
    #[doc(hidden)]
    const ADJACENT: bool;
    #[doc(hidden)]
    const NAME: &'static str;
}

/// Features 2i and 2i + 1 are a pair, as in the paper, GPT-J and the original Llama code. Also called
/// interleaved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adjacent;

/// Features i and i + R/2 are a pair, as in GPT-NeoX and Hugging Face's Llama. Also called half-split or
/// rotate-half.
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitHalf;

#[diagnostic::do_not_recommend]
impl Pairing for Adjacent {
    const ADJACENT: bool = true;
    const NAME: &'static str = "Adjacent";
}

#[diagnostic::do_not_recommend]
impl Pairing for SplitHalf {
    const ADJACENT: bool = false;
    const NAME: &'static str = "SplitHalf";
}
