//! The names that profilers, panics and errors of other crates print: short, and without the numbers of typenum.

use shapeproof::{
    Batch, C, EncoderLayer, HeadDim, HeadDimOf, Heads, Hidden, Key, KvCache, Linear, Model,
    MultiHeadAttention, Query, Seq, Tensor,
};
use std::any::type_name;

#[test]
fn names_of_common_types_are_short() {
    type Scores = Tensor<(Batch<C<2>>, Heads<C<8>>, Query<C<512>>, Key<C<512>>)>;
    for (name, longest) in [
        (type_name::<C<16384>>(), 40),
        (type_name::<HeadDimOf<C<16384>, C<128>>>(), 40),
        (type_name::<Tensor<(Batch<C<2>>, Seq<C<512>>, Model<C<768>>)>>(), 200),
        (type_name::<Scores>(), 250),
        (type_name::<Linear<Model<C<768>>, Hidden<C<3072>>>>(), 200),
        (type_name::<MultiHeadAttention<C<768>, C<12>>>(), 250),
        (type_name::<EncoderLayer<C<768>, C<12>, C<3072>>>(), 200),
        (type_name::<KvCache<C<1>, Heads<C<12>>, C<1024>, HeadDimOf<C<768>, C<12>>>>(), 300),
        (type_name::<HeadDim<HeadDimOf<C<768>, C<12>>>>(), 80),
    ] {
        assert!(name.len() <= longest, "{} characters: {name}", name.len());
        assert!(!name.contains("typenum") && !name.contains("UInt"), "{name}");
    }
}
