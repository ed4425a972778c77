//! Operations: a rule of `shape/` bound to a loop of `kernel/`.

mod arithmetic;
mod assign;
mod compare;
mod concat;
mod heads;
mod index;
mod matmul;
mod order;
mod pairs;
mod rearrange;
mod reduce;
mod softmax;
mod unary;

pub(crate) use compare::index_of;
pub use concat::try_stack;
pub(crate) use index::checked;
pub use order::Order;
pub use unary::Activation;
