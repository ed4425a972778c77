//! Parameters, modules, and the layers around attention.

mod bias;
mod dropout;
mod embedding;
mod encoder;
mod feed_forward;
mod layer_norm;
mod linear;
mod mode;
mod module;
mod packing;
mod parameter;

pub use bias::{Absent, Bias, BiasKind, NoBias};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use encoder::{Encoder, EncoderConfig, EncoderLayer, NormPlacement};
pub use feed_forward::FeedForward;
pub use layer_norm::{LayerNorm, Trailing};
pub use linear::Linear;
pub(crate) use linear::apply;
pub use mode::{Infer, Mode, Train};
pub use module::{
    Field, FieldMut, Module, OrNothing, Visitor, VisitorMut, count_parameters, parameters,
    parameters_mut,
};
pub(crate) use packing::Packing;
pub use parameter::{AnyParameter, Parameter, ParameterId};
