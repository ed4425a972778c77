//! The one integration-test binary, a module per topic: linking one program costs
//! less than linking twenty.

#![allow(clippy::type_complexity, reason = "shapes name their axes where they stand")]

mod cache;
mod cases;
mod fixtures;
mod io;
mod linear_attention;
mod map_atoms;
mod masks;
mod minilm;
mod onnx;
mod ops;
mod oracle;
mod properties;
mod random;
mod rxnmapper;
mod sentence_similarity;
mod torch_layers;
mod torch_mha;
mod torch_norms;
mod torch_sdpa;
