use shapeproof::{C, SlidingWindow};

fn main() {
    let window = SlidingWindow::causal::<C<0>>();
    let _ = window.with_global(1);
}
