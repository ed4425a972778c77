use shapeproof::{Batch, C, Float, Hidden, Infer, Linear, Model, Tensor};

type X<E> = Tensor<(Batch<C<2>>, Model<C<8>>), E>;

fn apply<E: Float>(layer: &Linear<Model<C<8>>, Hidden<C<4>>>, x: &X<E>) {
    let _y = layer.forward(x, &mut Infer);
}

fn main() {
    apply(&Linear::zeros(), &X::<shapeproof::bf16>::zeros());
}
