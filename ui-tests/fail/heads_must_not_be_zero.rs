use shapeproof::{C, MultiHeadAttention};

fn main() {
    let _attention = MultiHeadAttention::<C<512>, C<0>>::zeros();
}
