use shapeproof::{C, DecoderConfig, DecoderLayer};

fn main() {
    let _layer = DecoderLayer::<C<10>, C<5>, C<40>>::zeros(DecoderConfig::new(1e-5));
}
