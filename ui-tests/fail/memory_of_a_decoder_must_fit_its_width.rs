use shapeproof::{Batch, C, DecoderConfig, DecoderLayer, Infer, Model, NoMask, Seq, Tensor};

fn main() {
    let layer = DecoderLayer::<C<8>, C<2>, C<16>, C<12>>::zeros(DecoderConfig::new(1e-5));
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    let memory = Tensor::<(Batch<C<2>>, Seq<C<4>>, Model<C<8>>)>::zeros();
    layer.forward(&x, &memory, NoMask, NoMask, &mut Infer);
}
