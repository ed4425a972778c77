use shapeproof::{Batch, C, EncoderConfig, EncoderLayer, Infer, Model, NoMask, Seq, Tensor};

fn main() {
    let layer = EncoderLayer::<C<16>, C<4>, C<8>>::zeros(EncoderConfig::new(1e-5));
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    layer.forward(&x, NoMask, &mut Infer);
}
