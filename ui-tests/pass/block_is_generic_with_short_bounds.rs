use shapeproof::{
    Batch, C, DivisibleBy, Hidden, Infer, Linear, Mode, Model, Module, MultiHeadAttention, NoMask,
    Seq, Size, Static, Tensor, dyn_size, parameters,
};

struct Block<M, H, F> {
    attention: MultiHeadAttention<M, H>,
    up: Linear<Model<M>, Hidden<F>>,
    down: Linear<Hidden<F>, Model<M>>,
}
impl<M: DivisibleBy<H>, H: Static, F: Static> Module for Block<M, H, F> {
    parameters!(attention as "self_attn", up, down);
}
impl<M: DivisibleBy<H>, H: Static, F: Static> Block<M, H, F> {
    fn forward<B: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Seq<S>, Model<M>)> {
        let y = x.add(&self.attention.forward(x, NoMask, mode));
        y.add(&self.down.forward(&self.up.forward(&y, mode).relu(), mode))
    }

    fn zeros() -> Self {
        Block { attention: MultiHeadAttention::zeros(), up: Linear::zeros(), down: Linear::zeros() }
    }
}

fn main() {
    let wide: Block<C<16>, C<4>, C<32>> = Block::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<16>>)>::ones();
    assert_eq!(wide.forward(&x, &mut Infer), x);

    let narrow: Block<C<8>, C<2>, C<8>> = Block::zeros();
    dyn_size!(batch = 2, length = 5);
    let x = Tensor::ones_in((Batch(batch), Seq(length), Model(C::<8>)));
    assert_eq!(narrow.forward(&x, &mut Infer), x);

    let names: Vec<_> = parameters(&narrow).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[0], "self_attn.q_proj.weight");
    assert_eq!(names.len(), 12);
}
