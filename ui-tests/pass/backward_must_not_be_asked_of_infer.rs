use shapeproof::{Batch, C, Linear, Model, Seq, Tensor, Train};

fn main() {
    let layer = Linear::<Model<C<8>>, Seq<C<2>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::ones();
    let mut mode = Train::seeded(1);
    let loss = layer.forward(&x, &mut mode).mean_all();
    mode.backward(&loss);
}
