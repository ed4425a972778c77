//! What a tensor holds: `f32`, `f64`, `f16`, `bf16`, booleans for masks, integers for tokens.

use crate::kernel::compiled::Compiled;
use crate::kernel::scratch::Scratch;
use crate::kernel::simd::elements::Lane;
use crate::kernel::simd::{Lanes, halves};
use num_traits::NumAssign;
use std::fmt::Debug;

pub use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A type that a tensor can hold.
///
/// Floats carry activations and weights ([`Float`]), `bool` masks, integers tokens and positions
/// ([`Index`]).
#[diagnostic::on_unimplemented(
    message = "a tensor cannot hold `{Self}`",
    label = "not an element",
    note = "tensors hold `f32`, `f64`, `f16`, `bf16`, `bool`, `u8`, `u32`, `i32`, `i64` or `usize`"
)]
pub trait Element:
    Sealed + Copy + Default + PartialEq + PartialOrd + Debug + Send + Sync + 'static
{
    /// The type's name as Rust spells it.
    const NAME: &'static str;
    /// Whether it is a [`Float`], which can have a gradient.
    #[doc(hidden)]
    const IS_FLOAT: bool;
}

/// An element that arithmetic, softmax and attention are defined for: `f32`, `f64`, [`f16`](struct@f16) or
/// [`bf16`].
///
/// Storage and arithmetic are two types: kernels read elements, compute in [`Wide`](Float::Wide)
/// and round once when they write. For `f32` and `f64` both are the same; for the half types, which are
/// storage alone, it is `f32`.
///
/// # Numerics
/// Rounding is to the nearest, of two to the even one; what exceeds the type becomes infinite, NaN stays
/// NaN, and numbers below the least normal one keep the digits that the type has for them; only in
/// products of `bf16` on a processor with AMX do such numbers count as 0. `f16` has 11 binary digits up to
/// 65504, `bf16` has 8 up to 3.4·10³⁸.
///
/// # Examples
/// ```
/// use shapeproof::{Model, Tensor, C, bf16};
///
/// let x = Tensor::<(Model<C<4096>>,)>::full(0.1).to::<bf16>();
/// let sum = x.sum(Model); // in f32: a sum in bf16 would stop at 32
/// assert_eq!(sum.to_vec(), [bf16::from_f32(410.0)]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point element",
    label = "none of `f32`, `f64`, `f16` and `bf16`",
    note = "this operation is defined for tensors of `f32`, `f64`, `f16` and `bf16`"
)]
pub trait Float: Element + Scratch + Compiled + Lane<<Self as Float>::Wide> {
    /// The type that sums and products are made in.
    type Wide: Real;
    /// The element as the kernels compute with it.
    fn wide(self) -> Self::Wide;
    /// Rounds a computed value to the element.
    fn narrow(value: Self::Wide) -> Self;
    /// Elements as the kernels compute with them, where that takes no conversion.
    #[doc(hidden)]
    fn as_wide(elements: &[Self]) -> Option<&[Self::Wide]>;
    /// As [`as_wide`](Self::as_wide), to be changed.
    #[doc(hidden)]
    fn as_wide_mut(elements: &mut [Self]) -> Option<&mut [Self::Wide]>;
    /// Rounds an `f64` to the element.
    fn from_f64(value: f64) -> Self;
    /// The element as an `f64`.
    fn to_f64(self) -> f64;
}

/// What kernels compute in.
#[doc(hidden)]
pub trait Real: Float<Wide = Self> + num_traits::Float + NumAssign + Lanes {}

/// An element that can count: a token, a position, an index.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot index a tensor",
    label = "not an integer",
    note = "indices are tensors of `u8`, `u32`, `i32`, `i64` or `usize`"
)]
pub trait Index: Element {
    /// The value as an index, or `None` where it is negative.
    fn to_index(self) -> Option<usize>;
    /// The value as a number that may be negative, or `None` where it exceeds `i64::MAX`.
    fn to_signed(self) -> Option<i64>;
}

macro_rules! elements {
    ($is_float:literal: $($T:ty),+) => { $(
        impl Sealed for $T {}
        #[diagnostic::do_not_recommend]
        impl Element for $T {
            const NAME: &'static str = stringify!($T);
            const IS_FLOAT: bool = $is_float;
        }
    )+ };
}
elements!(true: f32, f64, f16, bf16);
elements!(false: bool, u8, u32, i32, i64, usize);

macro_rules! indices {
    ($($T:ty),+) => { $(
        #[diagnostic::do_not_recommend]
        impl Index for $T {
            fn to_index(self) -> Option<usize> {
                usize::try_from(self).ok()
            }
            fn to_signed(self) -> Option<i64> {
                i64::try_from(self).ok()
            }
        }
    )+ };
}
indices!(u8, u32, i32, i64);

#[diagnostic::do_not_recommend]
impl Index for usize {
    fn to_index(self) -> Option<usize> {
        Some(self)
    }
    fn to_signed(self) -> Option<i64> {
        i64::try_from(self).ok()
    }
}

#[diagnostic::do_not_recommend]
impl Float for f32 {
    type Wide = f32;
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(value: f32) -> f32 {
        value
    }
    #[inline(always)]
    fn as_wide(elements: &[f32]) -> Option<&[f32]> {
        Some(elements)
    }
    #[inline(always)]
    fn as_wide_mut(elements: &mut [f32]) -> Option<&mut [f32]> {
        Some(elements)
    }
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is asked for")]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

#[diagnostic::do_not_recommend]
impl Float for f64 {
    type Wide = f64;
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn as_wide(elements: &[f64]) -> Option<&[f64]> {
        Some(elements)
    }
    #[inline(always)]
    fn as_wide_mut(elements: &mut [f64]) -> Option<&mut [f64]> {
        Some(elements)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

macro_rules! halves {
    ($($T:ident: $wide:ident, $narrow:ident);+) => { $(
        #[diagnostic::do_not_recommend]
        impl Float for $T {
            type Wide = f32;
            #[inline(always)]
            fn wide(self) -> f32 {
                halves::$wide(self.to_bits())
            }
            #[inline(always)]
            fn narrow(value: f32) -> $T {
                $T::from_bits(halves::$narrow(value))
            }
            #[inline(always)]
            fn as_wide(_: &[$T]) -> Option<&[f32]> {
                None
            }
            #[inline(always)]
            fn as_wide_mut(_: &mut [$T]) -> Option<&mut [f32]> {
                None
            }
            fn from_f64(value: f64) -> $T {
                Self::narrow(halves::rounded_to_odd(value))
            }
            fn to_f64(self) -> f64 {
                f64::from(self.wide())
            }
        }
    )+ };
}
halves!(f16: wide_f16, narrow_f16; bf16: wide_bf16, narrow_bf16);

impl Real for f32 {}
impl Real for f64 {}
