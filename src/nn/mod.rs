//! Parameters, modules, and the layers around attention.

mod bias;
mod check;
mod decoder;
mod dropout;
mod embedding;
mod encoder;
mod feed_forward;
mod gated;
mod init;
mod layer_norm;
mod linear;
mod loss;
mod mode;
mod module;
mod norm;
mod packing;
mod parameter;
mod positions;
mod rms_norm;
mod trace;

pub use bias::{Absent, Bias, BiasKind, NoBias};
pub use check::try_check_gradients;
pub use decoder::{Decoder, DecoderConfig, DecoderLayer};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use encoder::{Encoder, EncoderConfig, EncoderLayer, NormPlacement};
pub use feed_forward::FeedForward;
pub use gated::GatedFeedForward;
pub use init::{Fans, Init};
pub use layer_norm::{LayerNorm, Trailing};
pub use linear::Linear;
pub use loss::{CrossEntropy, mean_squared_error, try_cross_entropy};
pub(crate) use mode::is_tracing;
pub use mode::{Infer, Mode, RecordedUnderTrain, Train};
pub(crate) use module::fmt_module;
pub use module::{
    Field, FieldMut, Module, OrNothing, Visitor, VisitorMut, copy_parameters, count_parameters,
    parameters, parameters_mut,
};
pub(crate) use packing::{Map, Packing, ReadMap, is_recorded};
pub use parameter::{AnyParameter, Parameter};
pub use positions::{LearnedPositions, try_sinusoidal_positions};
pub use rms_norm::RmsNorm;
pub use trace::Trace;

use crate::attention::{
    AttentionBias, DistanceBuckets, GroupedAttention, MultiHeadAttention, RelativePositions,
};
use crate::axis::Axis;
use crate::element::Float;
use crate::size::Size;

module::debug_as_parameters! {
    [I: Axis, O: Axis, B: BiasKind, E: Float] Linear<I, O, B, E>;
    [A: Trailing, E: Float] LayerNorm<A, E>;
    [A: Trailing, E: Float] RmsNorm<A, E>;
    [V: Axis, M: Axis, E: Float] Embedding<V, M, E>;
    [M: Size, F: Size, B: BiasKind, E: Float] FeedForward<M, F, B, E>;
    [M: Size, F: Size, B: BiasKind, E: Float] GatedFeedForward<M, F, B, E>;
    [M: Size, H, KM: Size, VM: Size, B: AttentionBias, E: Float] MultiHeadAttention<M, H, KM, VM, B, E>;
    [M: Size, H: Size, D: Size, KV: Axis, B: AttentionBias, E: Float] GroupedAttention<M, H, D, KV, B, E>;
    [A: Axis, M: Axis, E: Float] LearnedPositions<A, M, E>;
    [N: Size, H: Size, E: Float] DistanceBuckets<N, H, E>;
    [T: Size, D: Size, V: Axis, E: Float] RelativePositions<T, D, V, E>;
    [M: Size, H, F: Size, B: AttentionBias, E: Float] EncoderLayer<M, H, F, B, E>;
    [M: Size, H, F: Size, B: AttentionBias, E: Float] Encoder<M, H, F, B, E>;
    [M: Size, H, F: Size, KM: Size, B: AttentionBias, E: Float] DecoderLayer<M, H, F, KM, B, E>;
    [M: Size, H, F: Size, KM: Size, B: AttentionBias, E: Float] Decoder<M, H, F, KM, B, E>;
}
