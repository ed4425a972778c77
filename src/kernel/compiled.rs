//! Kernels that are compiled with this crate.
//!
//! A generic function is compiled in the crate of whoever says of which type it is: in a user's, then, and
//! again with each of its edits. What is long is therefore a method of the element. That of f32, which most
//! use, is no default and stands in this crate; those of the other types are compiled where they are used,
//! so that who does not use them does not wait for them.

use super::attention::{Forward, Given, Gradients, Mask, Out, Settings, Stage};
use super::cross_entropy::Smoothing;
use super::gemm::{Epilogue, PackedB};
use super::layout::{Layout, View};
use super::linear_attention::FeatureMap;
use super::norm::Norm;
use super::reduce::What;
use super::simd::Isa;
use super::softmax::Softmax;
use super::{
    attention, cross_entropy, gemm, linear_attention, norm, norm_backward, reduce, softmax,
};
use crate::element::Float;
use half::{bf16, f16};
use std::mem::MaybeUninit;

/// Makes each function a method.
macro_rules! compiled {
    ($(fn $name:ident = $path:path, ($($argument:ident: $type:ty),+) $(-> $result:ty)?;)+) => {
        /// An element whose kernels may be compiled with this crate.
        #[allow(private_interfaces, reason = "nothing outside of this crate can name it")]
        pub trait Compiled: Sized {
            $(
                fn $name($($argument: $type),+) $(-> $result)?
                where
                    Self: Float,
                {
                    $path($($argument),+)
                }
            )+
        }
        #[allow(private_interfaces, reason = "likewise")]
        impl Compiled for f32 {
            $(
                fn $name($($argument: $type),+) $(-> $result)? {
                    $path($($argument),+)
                }
            )+
        }
    };
}
impl Compiled for f64 {}
impl Compiled for f16 {}
impl Compiled for bf16 {}

compiled! {
    fn product = gemm::gemm_on, (
        isa: Isa,
        a: View<Self>,
        b: View<Self>,
        epilogue: Epilogue<Self>,
        out: &mut [MaybeUninit<Self>],
        layout: &Layout
    );
    fn packed_product = gemm::packed_on, (
        a: View<Self>,
        b: &PackedB<Self>,
        epilogue: Epilogue<Self>,
        out: &mut [MaybeUninit<Self>],
        layout: &Layout
    );
    fn packed = gemm::pack_b_for, (isa: Isa, b: View<Self>) -> PackedB<Self>;
    fn attention = attention::attention_on, (
        isa: Isa,
        views: [View<Self>; 3],
        settings: &Settings<Self>,
        mask: &Mask<Self>,
        out: Out<Self>
    );
    fn attention_backward = attention::backward_on, (
        isa: Isa,
        forward: &Forward<Self>,
        given: Given<Self>,
        of_scores: bool
    ) -> Gradients<Self>;
    fn scores = attention::scores, (
        views: [View<Self>; 2],
        settings: &Settings<Self>,
        mask: &Mask<Self>,
        stage: Stage
    ) -> Vec<Self>;
    fn linear_attention = linear_attention::linear_attention, (
        views: [View<Self>; 3],
        by: FeatureMap,
        mask: &Mask<Self>,
        out: &mut [Self]
    );
    fn linear_attention_backward = linear_attention::linear_attention_backward, (
        views: [View<Self>; 3],
        by: FeatureMap,
        mask: &Mask<Self>,
        d_out: View<Self>
    ) -> [Vec<Self>; 3];
    fn softmax = softmax::softmax, (
        kind: Softmax,
        scores: View<Self>,
        at: usize,
        keep: Option<View<bool>>
    ) -> Vec<Self>;
    fn softmax_in_place = softmax::softmax_in_place, (kind: Softmax, scores: &mut [Self], n: usize);
    fn softmax_backward = softmax::softmax_backward, (
        kind: Softmax,
        result: View<Self>,
        gradient: View<Self>,
        at: usize
    ) -> Vec<Self>;
    fn normalized = norm::normalized, (x: View<Self>, norm: Norm<Self>) -> Vec<Self>;
    fn normalize_in_place = norm::normalize_in_place, (elements: &mut [Self], norm: Norm<Self>);
    fn norm_backward = norm_backward::norm_backward, (
        x: View<Self>,
        g: View<Self>,
        norm: Norm<Self>
    ) -> [Vec<Self>; 3];
    fn reduced = reduce::vectorized, (view: View<Self>, at: usize, what: What) -> Vec<Self>;
    fn losses = cross_entropy::losses, (
        logits: View<Self>,
        targets: &[Option<usize>],
        smoothing: Smoothing<Self>
    ) -> [Vec<<Self as Float>::Wide>; 2];
    fn cross_entropy_backward = cross_entropy::cross_entropy_backward, (
        logits: View<Self>,
        targets: &[Option<usize>],
        logarithms: &[<Self as Float>::Wide],
        gradient: <Self as Float>::Wide,
        smoothing: Smoothing<Self>
    ) -> Vec<Self>;
}
