//! Which key/value heads can serve which query heads.

use crate::axis::{Axis, Heads, KvHeads};
use crate::size::{DivisibleBy, Ours, Size, Static};

/// The key/value heads of attention with these query heads: the same `Heads<H>`, or fewer
/// `KvHeads<G>`, where G divides H and query head h reads key/value head h / (H/G).
///
/// # Compile errors
/// `kv_heads_must_divide_the_heads`, `kv_heads_must_be_named`.
///
/// # References
/// Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models", 2023.
#[diagnostic::on_unimplemented(
    message = "{Self} cannot serve as key/value heads of {Queries}",
    label = "either the same heads, or `KvHeads<G>` where G divides the heads evenly"
)]
pub trait KvOf<Queries>: Axis {
    #[doc(hidden)]
    const OURS: Ours;
}

#[diagnostic::do_not_recommend]
impl<H: Size> KvOf<Heads<H>> for Heads<H> {
    const OURS: Ours = Ours;
}

#[diagnostic::do_not_recommend]
impl<H: DivisibleBy<G>, G: Static> KvOf<Heads<H>> for KvHeads<G> {
    const OURS: Ours = Ours;
}
