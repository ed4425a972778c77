use shapeproof::{C, MultiHeadAttention};

fn main() {
    let _attention = MultiHeadAttention::<C<3072>, C<12>>::zeros();
}
