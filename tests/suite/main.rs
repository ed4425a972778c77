//! The one integration-test binary, a module per topic: linking one program costs
//! less than linking twenty.

#![allow(clippy::type_complexity, reason = "shapes name their axes where they stand")]

mod blocks;
mod bugs;
mod cache;
mod cases;
#[path = "../../examples/common/dtype.rs"]
mod dtype;
mod features;
mod fixtures;
mod fuzz;
mod generate;
mod gradients;
mod grouped;
mod halves;
mod io;
#[path = "../../examples/common/layers.rs"]
mod layers;
mod linear_attention;
mod links;
mod map_atoms;
mod masks;
mod minilm;
mod modules;
mod onnx;
mod onnx_attention;
mod ops;
mod optim;
mod oracle;
mod positions;
mod properties;
mod random;
mod rotary;
mod rxnmapper;
mod sentence_similarity;
mod stress;
mod torch;
mod torch_layers;
mod torch_mha;
mod torch_norms;
mod torch_positions;
mod torch_sdpa;
mod trace;
mod train_char_lm;
mod type_names;
