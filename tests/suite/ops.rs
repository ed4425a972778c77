//! Each operation by small examples: what it gives, what it refuses and in which words.

mod convert;
mod create;
mod elementwise;
mod index;
mod layers;
mod order;
mod print;
