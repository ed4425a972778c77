use shapeproof::{SlidingWindow, Static};

fn window<W: Static>() -> SlidingWindow {
    SlidingWindow::two_sided::<W>()
}

fn main() {
    window::<shapeproof::C<4>>();
}
