//! Where in a file a parameter comes from.

/// In which order a file stores the weight of a linear map.
///
/// There is no default: a square weight in the other order loads without complaint and gives wrong
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WeightLayout {
    /// Out × in: y = x · Wᵀ. PyTorch's `Linear`.
    OutIn,
    /// In × out: y = x · W. GPT-2's `Conv1D`, JAX and ONNX.
    InOut,
}

/// Where in a file a parameter comes from: a key, perhaps one part of what it holds, perhaps in an
/// order of its own.
///
/// ```
/// use shapeproof::Source;
///
/// // PyTorch's MultiheadAttention packs q, k and v into one tensor.
/// let rule = |name: &str| match name {
///     "q_proj.weight" => Source::key("in_proj_weight").part(0, 3),
///     "k_proj.weight" => Source::key("in_proj_weight").part(1, 3),
///     "v_proj.weight" => Source::key("in_proj_weight").part(2, 3),
///     other => Source::key(other),
/// };
/// assert_eq!(rule("out_proj.weight"), Source::key("out_proj.weight"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub(super) key: String,
    pub(super) part: Option<(usize, usize)>,
    pub(super) layout: Option<WeightLayout>,
}

impl Source {
    /// All of what the file has under this key.
    pub fn key(key: impl Into<String>) -> Self {
        Source { key: key.into(), part: None, layout: None }
    }

    /// Part `index` (from 0) of `of` equal parts, side by side along the output axis of a linear map's
    /// weight, or along the first axis of any other tensor. Every part must belong to a parameter,
    /// as every tensor of a file must.
    pub fn part(mut self, index: usize, of: usize) -> Self {
        self.part = Some((index, of));
        self
    }

    /// In an order other than the file's usual one. Only weights of linear maps have one.
    pub fn layout(mut self, layout: WeightLayout) -> Self {
        self.layout = Some(layout);
        self
    }
}
