use shapeproof::{C, GroupedAttention, KvHeads};

fn main() {
    let _attention: GroupedAttention<C<12>, C<3>, C<4>, KvHeads<C<2>>> = GroupedAttention::zeros();
}
