//! What is fuzzed: everything that reads data from outside, in the crate and in its examples.

#[allow(dead_code)]
#[path = "../../examples/map_atoms/element.rs"]
mod element;
#[allow(dead_code)]
#[path = "../../examples/map_atoms/smiles.rs"]
mod smiles;
#[path = "../../tests/suite/fuzz/targets.rs"]
pub mod targets;
#[allow(dead_code)]
#[path = "../../examples/generate/words.rs"]
mod words;
