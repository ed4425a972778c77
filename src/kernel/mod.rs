//! Loops over slices: sizes and strides, never shapes.
#![allow(unsafe_code, reason = "the one place where speed is worth a proof by hand")]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "tests count small things"
    )
)]

pub(crate) mod assign;
pub(crate) mod attention;
pub(crate) mod compiled;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod exp;
pub(crate) mod gated;
pub(crate) mod gemm;
#[cfg(all(test, unix))]
mod guard;
pub(crate) mod index;
pub(crate) mod layout;
pub(crate) mod linear;
pub(crate) mod linear_attention;
mod lines;
pub(crate) mod math;
pub(crate) mod multi_head;
pub(crate) mod norm;
pub(crate) mod norm_backward;
pub(crate) mod optim;
pub(crate) mod output;
pub(crate) mod parallel;
pub(crate) mod pointwise;
pub(crate) mod reduce;
pub(crate) mod rotary;
#[cfg(test)]
mod rounding;
mod runs;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod scratch;
pub(crate) mod simd;
pub(crate) mod slopes;
pub(crate) mod softmax;
#[cfg(test)]
mod speed;
mod sums;
#[cfg(test)]
mod testing;
mod tile;
mod tiles;
pub(crate) mod wide;
