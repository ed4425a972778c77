use shapeproof::{C, MultiHeadAttention};

fn main() {
    let _attention = MultiHeadAttention::<C<8>, C<512>>::zeros();
}
