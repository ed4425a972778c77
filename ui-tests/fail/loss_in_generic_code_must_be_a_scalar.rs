use shapeproof::{Batch, C, Gradients, Size, Tensor, Train};

fn gradients<B: Size>(losses: &Tensor<(Batch<B>,)>, train: &Train) -> Gradients {
    train.backward(losses)
}

fn main() {
    gradients(&Tensor::<(Batch<C<2>>,)>::zeros(), &Train::seeded(1));
}
