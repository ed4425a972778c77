use shapeproof::{C, Distance, HeadDim, RelativePositions, Tensor};

fn main() {
    let keys = Tensor::<(Distance<C<7>>, HeadDim<C<8>>)>::zeros();
    let values = Tensor::<(Distance<C<6>>, HeadDim<C<8>>)>::zeros();
    RelativePositions::new(C::<3>, keys).with_values(values);
}
