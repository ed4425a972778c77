//! Operations: a rule of `shape/` bound to a loop of `kernel/`.

mod arithmetic;
mod assign;
mod compare;
mod concat;
mod heads;
mod index;
mod matmul;
mod order;
mod rearrange;
mod reduce;
mod softmax;
mod unary;

pub use concat::try_stack;
pub use order::Order;
pub use unary::Activation;
