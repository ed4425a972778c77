use shapeproof::{C, Distance, HeadDim, RelativePositions, Tensor};

fn main() {
    let table = Tensor::<(Distance<C<6>>, HeadDim<C<8>>)>::zeros();
    let _: RelativePositions<_, _> = RelativePositions::new(C::<3>, table);
}
