use shapeproof::{Batch, C, DivisibleBy, HeadDim, HeadDimOf, Row, Static, Tensor};

fn mean<M: DivisibleBy<H>, H: Static>(row: &Row<f32, HeadDimOf<M, H>>) -> f32 {
    row.iter().sum::<f32>() / row.len() as f32
}

fn main() {
    let row: Row<f32, HeadDimOf<C<512>, C<8>>> = Default::default();
    assert_eq!(mean::<C<512>, C<8>>(&row), 0.0);
    let array: [f32; 64] = row.into();

    let x = Tensor::<(HeadDim<C<64>>,)>::from(array);
    assert_eq!(x.as_rows().unwrap()[0].len(), 64);
    let x = Tensor::<(Batch<C<2>>, HeadDim<C<3>>)>::from([[1.0, 2.0, 6.0], [0.0, 0.0, 0.0]]);
    assert_eq!(mean::<C<6>, C<2>>(&x.as_rows().unwrap()[0]), 3.0);
}
