use shapeproof::{C, EncoderConfig, EncoderLayer};

fn main() {
    let _layer = EncoderLayer::<C<10>, C<3>, C<40>>::zeros(EncoderConfig::new(1e-5));
}
