use shapeproof::{Batch, C, HeadDim, Heads, Query, RotaryTable, RotatedBy, Seq, Tensor};

fn turned<D: RotatedBy<R>, R>(
    x: &Tensor<(Batch<C<1>>, Heads<C<2>>, Query<C<3>>, HeadDim<D>)>,
    table: &RotaryTable<(Seq<C<3>>,), R>,
) -> Tensor<(Batch<C<1>>, Heads<C<2>>, Query<C<3>>, HeadDim<D>)> {
    table.rotate(x)
}
fn main() {
    let table = RotaryTable::shared(Tensor::zeros(), Tensor::<(Seq<C<3>>, HeadDim<C<2>>)>::zeros());
    turned(&Tensor::<(_, _, _, HeadDim<C<6>>)>::ones(), &table);
}
