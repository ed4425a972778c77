use shapeproof::{C, GroupedAttention, KvHeads, Static};

type Layer<H, G> = GroupedAttention<C<12>, H, C<4>, KvHeads<G>>;

fn build<H: Static, G: Static>() -> Layer<H, G> {
    GroupedAttention::zeros()
}
fn main() {
    let _attention = build::<C<6>, C<3>>();
}
