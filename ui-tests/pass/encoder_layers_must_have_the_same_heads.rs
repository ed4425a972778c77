use shapeproof::{C, Encoder, EncoderConfig, EncoderLayer};

fn main() {
    let config = EncoderConfig::new(1e-5);
    let first = EncoderLayer::<C<8>, C<2>, C<16>>::zeros(config);
    let second = EncoderLayer::<C<8>, C<2>, C<16>>::zeros(config);
    let _encoder = Encoder::new(vec![first, second]);
}
