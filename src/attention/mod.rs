//! Attention: scaled dot product, masks, multi-head layers.

mod bias;
mod cache;
mod cross_cache;
mod explain;
mod grouped;
mod heads;
mod linear;
mod mask;
mod multi_head;
mod rotary;
mod scaled;

pub use bias::{AttentionBias, NoKeyBias, QkvBias};
pub use cache::{CacheStep, KvCache, RaggedStep};
pub use cross_cache::CrossKeysAndValues;
pub use explain::{Explanation, Step};
pub use grouped::GroupedAttention;
pub use heads::KvOf;
pub use linear::{FeatureMap, LinearAttention, LinearMask};
pub use mask::{And, Causal, CausalFromStart, Mask, MaskFor, MaskParts, NoMask, Prefix, ScoreBias};
pub use multi_head::{MultiHeadAttention, SelfWidths};
pub use rotary::{
    Adjacent, CoversPositions, Pairing, Rotary, RotaryScaling, RotaryTable, RotaryWidth, RotatedBy,
    SplitHalf,
};
pub use scaled::{Attention, scaled_dot_product_attention};
