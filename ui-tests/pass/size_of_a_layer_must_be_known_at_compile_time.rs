use shapeproof::{Activation, C, FeedForward, Static};

fn build<M: Static, F: Static>(_width: M, _inner: F) {
    let _block = FeedForward::<M, F>::zeros(Activation::Relu);
}
fn main() {
    build(C::<8>, C::<16>);
}
