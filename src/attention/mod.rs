//! Attention: scaled dot product, masks, multi-head layers.

mod backward;
mod bias;
mod block_mask;
mod cache;
mod cross_cache;
mod diagonal;
mod distance;
mod explain;
mod extra_keys;
mod grouped;
mod heads;
mod linear;
mod mask;
mod multi_head;
mod parts;
mod relative;
mod rotary;
mod scaled;
mod score_fn;
mod segments;
mod sinks;

pub use crate::kernel::attention::{ScoreBlock, Stage};
pub use bias::{AttentionBias, NoKeyBias, QkvBias};
pub use block_mask::{BlockMask, HeadBlockMask, strided};
pub use cache::{CacheStep, KvCache, RaggedStep};
pub use cross_cache::CrossKeysAndValues;
pub use diagonal::{
    AtStarts, Causal, CausalFromStart, FromStart, Positioned, Prefix, SlidingWindow,
};
pub use distance::{Alibi, Bucket, Distance, DistanceBias, DistanceBuckets};
pub use explain::{Explanation, Step};
pub use grouped::GroupedAttention;
pub use heads::KvOf;
pub use linear::{FeatureMap, LinearAttention, LinearMask};
pub use mask::{And, Mask, MaskFor, NoMask, ScoreBias};
pub use multi_head::{MultiHeadAttention, SelfWidths};
pub use parts::{MaskParts, Start};
pub use relative::{EntriesFor, RelativePositions};
pub use rotary::{
    Adjacent, CoversPositions, Pairing, Rotary, RotaryScaling, RotaryTable, RotaryWidth, RotatedBy,
    SplitHalf,
};
pub use scaled::{Attention, scaled_dot_product_attention};
pub use score_fn::ScoreFn;
pub use segments::Segments;
pub use sinks::Sinks;
