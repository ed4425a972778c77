//! Attention: scaled dot product, masks, multi-head layers.

mod bias;
mod explain;
mod grouped;
mod heads;
mod mask;
mod multi_head;
mod rotary;
mod scaled;

pub use bias::{AttentionBias, NoKeyBias, QkvBias};
pub use explain::{Explanation, Step};
pub use grouped::GroupedAttention;
pub use heads::KvOf;
pub use mask::{And, Causal, CausalFromStart, Mask, MaskFor, MaskParts, NoMask, Prefix, ScoreBias};
pub use multi_head::{MultiHeadAttention, SelfWidths};
pub use rotary::{
    Adjacent, CoversPositions, Pairing, Rotary, RotaryScaling, RotaryTable, RotaryWidth, RotatedBy,
    SplitHalf,
};
pub use scaled::{Attention, scaled_dot_product_attention};
