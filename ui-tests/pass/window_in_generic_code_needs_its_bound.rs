use shapeproof::{SlidingWindow, WindowSize};

fn window<W: WindowSize>() -> SlidingWindow {
    SlidingWindow::two_sided::<W>()
}

fn main() {
    window::<shapeproof::C<4>>();
}
