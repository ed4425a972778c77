use shapeproof::{C, DivisibleBy, GroupedAttention, KvHeads, Static};

type Layer<H, G> = GroupedAttention<C<12>, H, C<4>, KvHeads<G>>;

fn build<H: DivisibleBy<G>, G: Static>() -> Layer<H, G> {
    GroupedAttention::zeros()
}
fn main() {
    let _attention = build::<C<6>, C<3>>();
}
