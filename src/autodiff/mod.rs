//! The walk from a loss back to the parameters.
//!
//! Each operation recorded its own rule (`tensor/node.rs`); here they are called, the last operation's
//! first, and the gradients of what was used several times are added.

mod gradients;

pub use gradients::Gradients;

use crate::element::Float;
use crate::tensor::{AnyTensor, FloatTensor, Node, ViewOf};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The gradients of the parameters that `loss`, of one element, was computed from, times `factor`.
pub(crate) fn backward<E: Float>(loss: &AnyTensor<E>, factor: f64) -> Gradients {
    let mut gradients = Gradients::default();
    let mut waiting = Waiting::default();
    if let Some(node) = loss.node() {
        let first = AnyTensor::from_packed(loss.dims(), vec![E::Wide::from_f64(factor)]);
        waiting.add(node.clone(), FloatTensor::new(first));
    }
    // Whatever uses a node has a higher number, so its gradient is complete when it is the highest.
    while let Some((_, (node, gradient))) = waiting.0.pop_last() {
        if let Some(id) = node.parameter() {
            gradients.add_to(id, gradient);
            continue;
        }
        if let Some(view) = node.view() {
            waiting.add_view(view, &gradient);
        }
        for (input, gradient) in node.pass_back(&gradient) {
            waiting.add(input, gradient);
        }
    }
    gradients
}

/// Nodes whose gradients are not complete yet, by their numbers.
#[derive(Default)]
struct Waiting(BTreeMap<u64, (Arc<Node>, FloatTensor)>);

impl Waiting {
    fn add(&mut self, node: Arc<Node>, gradient: FloatTensor) {
        match self.0.entry(node.sequence) {
            Entry::Vacant(entry) => _ = entry.insert((node, gradient)),
            Entry::Occupied(mut entry) => entry.get_mut().1.add_in_place(&gradient),
        }
    }

    fn add_view(&mut self, view: &ViewOf, gradient: &FloatTensor) {
        let Some(node) = view.input() else { return };
        match self.0.entry(node.sequence) {
            Entry::Vacant(entry) => _ = entry.insert((node.clone(), view.unviewed(gradient))),
            Entry::Occupied(mut entry) => view.add_unviewed(&mut entry.get_mut().1, gradient),
        }
    }
}
