use shapeproof::{Batch, C, EncoderConfig, EncoderLayer, Infer, Model, NoMask, Seq, Tensor};

fn main() {
    let layer = EncoderLayer::<C<16>, C<4>, C<64>>::zeros(EncoderConfig::new(1e-5));
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<16>>)>::zeros();
    layer.forward(&x, NoMask, &mut Infer);
}
