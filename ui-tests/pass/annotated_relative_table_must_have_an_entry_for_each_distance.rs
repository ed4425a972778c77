use shapeproof::{C, RelativePositions, Tensor};

fn main() {
    let _: RelativePositions<C<7>, C<8>> = RelativePositions::new(C::<3>, Tensor::zeros());
}
