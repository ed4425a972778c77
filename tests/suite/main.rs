//! The one integration-test binary, a module per topic: linking one program costs
//! less than linking twenty.

mod fixtures;
mod map_atoms;
mod minilm;
mod rxnmapper;
mod sentence_similarity;
