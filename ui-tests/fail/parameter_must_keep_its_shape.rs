use shapeproof::{C, Model, Parameter, Tensor, Vocab};

fn main() {
    let mut table = Parameter::<(Vocab<C<10>>, Model<C<8>>)>::zeros();
    table.set(Tensor::<(Vocab<C<10>>, Model<C<9>>)>::zeros());
}
