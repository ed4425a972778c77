use shapeproof::{Batch, C, EncoderConfig, EncoderLayer, Infer, Key, Model, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(length = 4, padded = 4);
    let layer = EncoderLayer::<C<8>, C<2>, C<16>>::zeros(EncoderConfig::new(1e-5));
    let x = Tensor::zeros_in((Batch(C::<2>), Seq(length), Model(C::<8>)));
    let keep = Tensor::<_, bool>::zeros_in((Batch(C::<2>), Key(padded)));
    layer.forward(&x, &keep, &mut Infer);
    let _ = padded;
}
