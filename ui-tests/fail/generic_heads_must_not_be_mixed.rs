use shapeproof::{
    Batch, C, DivisibleBy, HeadDim, HeadDimOf, Heads, Model, Seq, Size, Static, Tensor,
};

type ByHead<B, H, S, D> = Tensor<(Batch<B>, Heads<H>, Seq<S>, HeadDim<D>)>;
fn split<B: Size, S: Size, M: DivisibleBy<G> + DivisibleBy<H>, G: Static, H: Static>(
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
) -> ByHead<B, G, S, HeadDimOf<M, G>> {
    x.split_heads::<H>()
}
fn main() {
    split::<_, _, _, C<2>, C<4>>(&Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<8>>)>::zeros());
}
