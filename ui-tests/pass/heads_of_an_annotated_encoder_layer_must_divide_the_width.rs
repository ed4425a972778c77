use shapeproof::{C, EncoderConfig, EncoderLayer, Generator};

fn main() {
    let config = EncoderConfig::new(1e-5);
    let _layer: EncoderLayer<C<10>, C<5>, C<40>> =
        EncoderLayer::xavier(config, &mut Generator::seeded(1));
}
