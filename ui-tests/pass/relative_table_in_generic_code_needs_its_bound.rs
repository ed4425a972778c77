use shapeproof::{C, EntriesFor, HeadDim, RelativePositions, Static, Tensor};

fn positions<X: Static, T: EntriesFor<X>>() -> RelativePositions<T, C<8>, HeadDim<C<8>>> {
    RelativePositions::new(X::default(), Tensor::zeros())
}

fn main() {
    positions::<C<3>, C<7>>();
}
