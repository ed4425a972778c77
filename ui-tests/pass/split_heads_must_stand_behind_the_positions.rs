use shapeproof::{Batch, C, HeadDim, Heads, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>)>::from_fn(|at| at[1] as f32 * 4.0 + at[2] as f32);
    let q: Tensor<(Batch<C<1>>, Heads<C<2>>, Seq<C<2>>, HeadDim<C<2>>)> = x.split_heads();
    assert_eq!(q.to_vec(), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
}
