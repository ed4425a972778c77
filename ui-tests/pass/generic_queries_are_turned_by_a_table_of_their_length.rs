use shapeproof::{Batch, C, HeadDim, Heads, Query, RotaryTable, Seq, Size, Tensor};

fn turned<L: Size>(
    x: &Tensor<(Batch<C<1>>, Heads<C<2>>, Query<L>, HeadDim<C<4>>)>,
    table: &RotaryTable<(Seq<L>,), C<4>>,
) {
    table.rotate(x);
}
fn main() {
    let table = RotaryTable::shared(Tensor::zeros(), Tensor::<(Seq<C<3>>, HeadDim<C<2>>)>::zeros());
    turned(&Tensor::<(_, _, Query<C<3>>, _)>::ones(), &table);
}
