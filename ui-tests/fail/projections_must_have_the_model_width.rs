use shapeproof::{C, Linear, Model, MultiHeadAttention};

fn main() {
    let linear = || Linear::<Model<C<8>>, Model<C<8>>>::zeros();
    let key = Linear::<Model<C<8>>, Model<C<4>>>::zeros();
    let _attention: MultiHeadAttention<C<8>, C<2>> =
        MultiHeadAttention::of(linear(), key, linear(), linear());
}
