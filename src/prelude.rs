//! The names that most programs import.
//!
//! Errors are easiest to read where the names are imported one by one: after a glob import rustc
//! prints `shapeproof::C<512>` where it otherwise prints `C<512>`.

pub use crate::{
    AnyTensor, Axis, Batch, C, Causal, DivisibleBy, GroupedAttention, HeadDim, HeadDimOf, Heads,
    Hidden, Infer, Key, KvCache, KvHeads, Linear, MaskFor, Mode, Model, Module, MultiHeadAttention,
    NoMask, Query, Rotary, RotaryWidth, Seq, Shape, Size, Static, Tensor, Train, Vocab, dispatch,
    dyn_size, parameters,
};
