//! Guides: how to do a whole job, with code that the tests compile and run.
//!
//! | | |
//! |---|---|
//! | [`porting`] | an attention layer of PyTorch and the same here, side by side |
//! | [`run_time_sizes`] | a server that batches, a loop that decodes, and what a run-time size cannot do |
//! | [`own_layer`] | a generic layer of one's own and the bounds that it needs |
//! | [`checkpoint`] | from `config.json` and safetensors to a typed model |
//! | [`training`] | a run of a module of one's own, from warm-up to a file, and whether its gradients are right |
//! | [`wrong_step`] | two implementations differ: where first? |
//! | [`bugs`] | twenty bugs of attention code that do not compile, with the compiler's words |

#[doc = include_str!("../docs/porting.md")]
pub mod porting {}

#[doc = include_str!("../docs/run_time_sizes.md")]
pub mod run_time_sizes {}

#[doc = include_str!("../docs/own_layer.md")]
pub mod own_layer {}

#[doc = include_str!("../docs/checkpoint.md")]
pub mod checkpoint {}

#[doc = include_str!("../docs/training.md")]
pub mod training {}

#[doc = include_str!("../docs/wrong_step.md")]
pub mod wrong_step {}

#[doc = include_str!("../BUGS.md")]
pub mod bugs {}
