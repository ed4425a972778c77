use shapeproof::{Activation, C, FeedForward, Size, Static};

fn build<M: Size, F: Static>(_width: M, _inner: F) {
    let _block = FeedForward::<M, F>::zeros(Activation::Relu);
}
fn main() {
    build(C::<8>, C::<16>);
}
