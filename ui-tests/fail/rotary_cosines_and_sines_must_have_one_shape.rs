use shapeproof::{C, HeadDim, RotaryTable, Seq, SplitHalf, Tensor};

fn main() {
    let cos = Tensor::<(Seq<C<4>>, HeadDim<C<3>>)>::ones();
    let sin = Tensor::<(Seq<C<5>>, HeadDim<C<3>>)>::zeros();
    let _table = RotaryTable::<_, _, SplitHalf>::shared(cos, sin);
}
