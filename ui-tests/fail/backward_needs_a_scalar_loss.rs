use shapeproof::{Batch, C, Mode, Model, Parameter, Train};

fn main() {
    let weight = Parameter::<(Batch<C<2>>, Model<C<8>>)>::zeros();
    let mut train = Train::seeded(1);
    let loss = train.read(&weight).exp().mean(Model);
    train.backward(&loss);
}
