//! The one integration-test binary, a module per topic: linking one program costs
//! less than linking twenty.

mod fixtures;
mod io;
mod map_atoms;
mod sentence_similarity;
