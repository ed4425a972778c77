//! What a tensor remembers of how it was computed.
//!
//! A node is one operation of a computation: which nodes its inputs have, and a rule that maps the
//! gradient of its result to theirs. A parameter that is read in training is a node without inputs, and
//! where no input has a node, the result has none: then nothing is recorded, and nothing paid.
//!
//! Rules hold shape-erased tensors, and of those [`AnyTensor::detached`] ones alone: a graph that is
//! dropped therefore ends node by node, in a loop.

use super::{AnyTensor, FloatTensor};
use crate::element::{Element, Float};
use crate::kernel::layout::Layout;
use crate::shape::Dims;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What tells one parameter from another; two parameters that are
/// [`tied`](crate::Parameter::tied) have the same.
///
/// Numbers are given in the order in which parameters are made, and never again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ParameterId(u64);

impl ParameterId {
    /// One that no other parameter has.
    pub(crate) fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        ParameterId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The gradients of an operation's inputs, given that of its result; `None` for an input that has none.
pub(crate) type Rule = Box<dyn Fn(&FloatTensor) -> Vec<Option<FloatTensor>> + Send + Sync>;

/// One recorded operation, or a parameter.
pub(crate) struct Node {
    /// Higher than those of its inputs: in descending order every node comes after all that use it.
    pub(crate) sequence: u64,
    /// The sizes of the result, and so of its gradient.
    pub(crate) dims: Dims,
    origin: Origin,
}

enum Origin {
    Parameter(ParameterId),
    Operation {
        inputs: Vec<Option<Arc<Node>>>,
        rule: Rule,
    },
    /// No rule, so that the gradients of several views of one tensor are added in its own places.
    View(Box<ViewOf>),
}

/// That a node is the view `to` of a tensor in layout `from`.
pub(crate) struct ViewOf {
    /// `None` only while a node is dropped.
    input: Option<Arc<Node>>,
    from: Layout,
    to: Layout,
}

impl ViewOf {
    /// The tensor's node.
    pub(crate) fn input(&self) -> Option<&Arc<Node>> {
        self.input.as_ref()
    }

    /// The view's gradient as that of the tensor.
    pub(crate) fn unviewed(&self, gradient: &FloatTensor) -> FloatTensor {
        let gradient = gradient.clone();
        // Widened where any number of them may meet in one place.
        let gradient = if self.to.is_injective() { gradient } else { gradient.widened() };
        with_elements!(gradient, g => float g.unviewed(&self.from, &self.to))
    }

    /// Adds the view's gradient to that of the tensor.
    pub(crate) fn add_unviewed(&self, sum: &mut FloatTensor, gradient: &FloatTensor) {
        *sum = sum.clone().widened();
        with_elements!(sum, sum => sum.add_unviewed(&gradient.to(), &self.from, &self.to));
    }
}

impl Node {
    fn new(dims: Dims, origin: Origin) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Node { sequence: NEXT.fetch_add(1, Ordering::Relaxed), dims, origin })
    }

    /// The parameter that was read, where it is one.
    pub(crate) fn parameter(&self) -> Option<ParameterId> {
        match self.origin {
            Origin::Parameter(id) => Some(id),
            Origin::Operation { .. } | Origin::View(_) => None,
        }
    }

    /// What it is a view of, where it is one.
    pub(crate) fn view(&self) -> Option<&ViewOf> {
        match &self.origin {
            Origin::View(view) => Some(view),
            Origin::Parameter(_) | Origin::Operation { .. } => None,
        }
    }

    /// The inputs that have a node and a gradient, given the gradient of the result.
    pub(crate) fn pass_back(&self, gradient: &FloatTensor) -> Vec<(Arc<Node>, FloatTensor)> {
        let Origin::Operation { inputs, rule } = &self.origin else {
            return Vec::new();
        };
        debug_assert_eq!(*gradient.dims(), *self.dims);
        let gradients = rule(gradient);
        debug_assert_eq!(gradients.len(), inputs.len());
        let pairs = inputs.iter().zip(gradients);
        let pairs = pairs.filter_map(|(input, gradient)| Some((input.clone()?, gradient?)));
        pairs.inspect(|(input, gradient)| debug_assert_eq!(*gradient.dims(), *input.dims)).collect()
    }

    fn take_inputs(&mut self) -> impl Iterator<Item = Arc<Node>> + use<> {
        let inputs = match &mut self.origin {
            Origin::Parameter(_) => Vec::new(),
            Origin::Operation { inputs, .. } => std::mem::take(inputs),
            Origin::View(view) => vec![view.input.take()],
        };
        inputs.into_iter().flatten()
    }
}

// Nothing of a node changes before it is dropped, so a panic leaves none half-changed: what tensors could
// do before they had nodes, they still can.
impl UnwindSafe for Node {}
impl RefUnwindSafe for Node {}

impl Drop for Node {
    /// A loop, because a chain of operations may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut waiting: Vec<_> = self.take_inputs().collect();
        while let Some(node) = waiting.pop() {
            if let Some(mut last) = Arc::into_inner(node) {
                waiting.extend(last.take_inputs());
            }
        }
    }
}

impl<E: Float> AnyTensor<E> {
    /// This tensor as the value of a parameter that is read in training.
    pub(crate) fn read_from(mut self, id: ParameterId) -> Self {
        // The gradient of an element that lies in two places of a view could not be told apart.
        if !self.layout().is_injective() {
            self = Self::from_packed(self.dims(), self.to_vec());
        }
        self.set_node(Some(Node::new(self.layout().dims, Origin::Parameter(id))));
        self
    }

    /// This tensor, computed from `inputs`: records how their gradients follow from its own, where any
    /// input has a node. `rule` is called then alone, and gives the rule.
    ///
    /// A rule returns a gradient for each input, in their order and of their sizes, or `None` where an
    /// input has none ([`is_recorded`](Self::is_recorded) tells which are asked for). What it keeps of
    /// tensors is [`detached`](Self::detached).
    pub(crate) fn recorded<R>(self, inputs: &[&Self], rule: impl FnOnce() -> R) -> Self
    where
        R: Fn(&Self) -> Vec<Option<Self>> + Send + Sync + 'static,
    {
        self.recorded_any(inputs, || erased(rule()))
    }

    /// Records the operation that changed this tensor in place. Among the nodes of its inputs is the one
    /// that this tensor had before.
    pub(crate) fn record<R>(&mut self, inputs: &[Option<Arc<Node>>], rule: impl FnOnce() -> R)
    where
        R: Fn(&Self) -> Vec<Option<Self>> + Send + Sync + 'static,
    {
        if inputs.iter().any(Option::is_some) {
            self.record_any(inputs.to_vec(), Box::new(erased(rule())));
        }
    }

    /// As [`recorded`](Self::recorded), of one input.
    pub(crate) fn recorded_from<R>(self, input: &Self, rule: impl FnOnce() -> R) -> Self
    where
        R: Fn(&Self) -> Self + Send + Sync + 'static,
    {
        self.recorded(&[input], || {
            let rule = rule();
            move |gradient| vec![Some(rule(gradient))]
        })
    }

    /// As [`recorded_from`](Self::recorded_from), by a rule that keeps the result.
    pub(crate) fn recorded_with<R>(self, input: &Self, rule: impl FnOnce(Self) -> R) -> Self
    where
        R: Fn(&Self) -> Self + Send + Sync + 'static,
    {
        if !input.is_recorded() {
            return self;
        }
        let result = self.clone();
        self.recorded_from(input, || rule(result))
    }
}

impl<E: Element> AnyTensor<E> {
    /// Whether a gradient would come through this tensor.
    pub(crate) fn is_recorded(&self) -> bool {
        self.node().is_some()
    }

    /// The same elements, without what was recorded of them.
    pub(crate) fn detached(&self) -> Self {
        let mut result = self.clone();
        result.set_node(None);
        result
    }

    /// As [`recorded`](AnyTensor::recorded), where the kind of element does not matter, or the inputs have
    /// another than the result. What is no float has no node, and so records nothing.
    pub(crate) fn recorded_any<F: Element, R>(
        mut self,
        inputs: &[&AnyTensor<F>],
        rule: impl FnOnce() -> R,
    ) -> Self
    where
        R: Fn(&FloatTensor) -> Vec<Option<FloatTensor>> + Send + Sync + 'static,
    {
        if inputs.iter().any(|input| input.is_recorded()) {
            let inputs = inputs.iter().map(|input| input.node().cloned()).collect();
            self.record_any(inputs, Box::new(rule()));
        }
        self
    }

    /// This view of a tensor: where that has a node, this has one too.
    pub(crate) fn recorded_view(mut self, of: &Self) -> Self {
        if let Some(input) = of.node() {
            let (from, to) = (*of.layout(), *self.layout());
            let view = ViewOf { input: Some(input.clone()), from, to };
            self.set_node(Some(Node::new(to.dims, Origin::View(Box::new(view)))));
        }
        self
    }

    /// As [`record`](AnyTensor::record), where the kind of element does not matter.
    pub(crate) fn record_any(&mut self, inputs: Vec<Option<Arc<Node>>>, rule: Rule) {
        debug_assert!(E::IS_FLOAT);
        let origin = Origin::Operation { inputs, rule };
        self.set_node(Some(Node::new(self.layout().dims, origin)));
    }
}

/// A rule without its elements in the type.
fn erased<E: Float, R>(
    rule: R,
) -> impl Fn(&FloatTensor) -> Vec<Option<FloatTensor>> + Send + Sync + 'static
where
    R: Fn(&AnyTensor<E>) -> Vec<Option<AnyTensor<E>>> + Send + Sync + 'static,
{
    move |gradient| {
        let gradients = rule(&gradient.to());
        gradients.into_iter().map(|gradient| gradient.map(FloatTensor::new)).collect()
    }
}

/// An expression about a tensor of known elements, of one whose elements are not: with `=>` its value,
/// with `=> float` the tensor that it is.
macro_rules! with_elements {
    ($tensor:expr, $x:ident => float $result:expr) => {
        match $tensor {
            $crate::tensor::FloatTensor::F32($x) => $crate::tensor::FloatTensor::F32($result),
            $crate::tensor::FloatTensor::F64($x) => $crate::tensor::FloatTensor::F64($result),
            $crate::tensor::FloatTensor::F16($x) => $crate::tensor::FloatTensor::F16($result),
            $crate::tensor::FloatTensor::BF16($x) => $crate::tensor::FloatTensor::BF16($result),
        }
    };
    ($tensor:expr, $x:ident => $result:expr) => {
        match $tensor {
            $crate::tensor::FloatTensor::F32($x) => $result,
            $crate::tensor::FloatTensor::F64($x) => $result,
            $crate::tensor::FloatTensor::F16($x) => $result,
            $crate::tensor::FloatTensor::BF16($x) => $result,
        }
    };
}
pub(crate) use with_elements;
