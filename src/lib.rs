// Where README.md's links lead in rustdoc, which has no such files: the first definition of a link counts.
//! [benches/]: https://docs.rs/crate/shapeproof/latest/source/benches/
//! [your own layer]: crate::guide::own_layer
//! [benches/RESULTS.md]: https://docs.rs/crate/shapeproof/latest/source/benches/RESULTS.md
//! [docs/]: crate::guide
//! [a loop that decodes]: crate::guide::run_time_sizes
//! [porting an attention layer from PyTorch]: crate::guide::porting
//! [sizes known only at run time]: crate::guide::run_time_sizes
//! [from a checkpoint to types]: crate::guide::checkpoint
//! [train a module of your own]: crate::guide::training
//! [find the first wrong step]: crate::guide::wrong_step
//! [twenty bugs that do not compile]: crate::guide::bugs
//! [DESIGN.md]: https://docs.rs/crate/shapeproof/latest/source/DESIGN.md
//! [ui-tests/]: https://docs.rs/crate/shapeproof/latest/source/ui-tests/
//! [MIT]: https://docs.rs/crate/shapeproof/latest/source/LICENSE-MIT
//! [Apache-2.0]: https://docs.rs/crate/shapeproof/latest/source/LICENSE-APACHE
#![doc = include_str!("../README.md")]

mod attention;
mod autodiff;
mod axis;
mod dispatch;
mod element;
mod error;
pub mod guide;
#[cfg(feature = "files")]
mod io;
mod kernel;
mod nn;
mod ops;
mod optim;
pub mod prelude;
mod shape;
mod size;
mod tensor;

pub use attention::*;
pub use autodiff::Gradients;
pub use axis::*;
pub use element::*;
pub use error::*;
#[cfg(feature = "files")]
pub use io::*;
pub use nn::*;
pub use ops::*;
pub use optim::*;
pub use shape::*;
pub use size::*;
pub use tensor::*;

/// What this crate's macros use.
#[doc(hidden)]
pub mod __private {
    pub use generativity::make_guard;
}
