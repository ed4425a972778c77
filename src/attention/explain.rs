//! What each step of an attention layer reads, makes and costs.

use crate::tensor::shape_text;
use std::fmt::{self, Display, Formatter};

/// The steps of an attention layer from projection to merged heads, printed as a table.
///
/// Made by [`MultiHeadAttention::explain`](crate::MultiHeadAttention::explain). Floating-point
/// operations count a multiplication and an addition as two; bytes are those of the step's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub name: &'static str,
    /// The axes of the result.
    pub axes: Vec<&'static str>,
    /// Their sizes.
    pub dims: Vec<usize>,
    /// Floating-point operations.
    pub flops: u128,
    /// Bytes of the result; 0 where it is a view, or never held as a whole.
    pub bytes: u128,
}

impl Explanation {
    /// For a layer of width `m` and `h` heads, keys from width `km`, values from `vm`.
    pub(crate) fn of_multi_head(
        [batch, query, key]: [usize; 3],
        [m, h, km, vm]: [usize; 4],
        element: usize,
    ) -> Self {
        const ROWS: [&str; 3] = ["Batch", "Seq", "Model"];
        const QUERIES: [&str; 4] = ["Batch", "Heads", "Query", "HeadDim"];
        const KEYS: [&str; 4] = ["Batch", "Heads", "Key", "HeadDim"];
        const SCORES: [&str; 4] = ["Batch", "Heads", "Query", "Key"];
        let d = m.checked_div(h).unwrap_or(0);
        // Sizes need not be those of tensors that exist; a count that is too large stays the largest.
        let times = |counts: &[usize], each: usize| {
            counts.iter().fold(each as u128, |product, &n| product.saturating_mul(n as u128))
        };
        let bytes = |dims: &[usize]| times(dims, element);
        let operations = |dims: &[usize], each: usize| times(dims, each).saturating_mul(2);
        let step = |name, axes: &[&'static str], dims: &[usize], flops, bytes| Step {
            name,
            axes: axes.to_vec(),
            dims: dims.to_vec(),
            flops,
            bytes,
        };
        let queries = [batch, query, m];
        let keys = [batch, key, m];
        let by_query = [batch, h, query, d];
        let by_key = [batch, h, key, d];
        let scores = [batch, h, query, key];
        let product = operations(&scores, d);
        Explanation {
            steps: vec![
                step("project queries", &ROWS, &queries, operations(&queries, m), bytes(&queries)),
                step("project keys", &ROWS, &keys, operations(&keys, km), bytes(&keys)),
                step("project values", &ROWS, &keys, operations(&keys, vm), bytes(&keys)),
                step("split heads of queries", &QUERIES, &by_query, 0, 0),
                step("split heads of keys", &KEYS, &by_key, 0, 0),
                step("split heads of values", &KEYS, &by_key, 0, 0),
                step("score queries by keys", &SCORES, &scores, product, 0),
                step("softmax over Key", &SCORES, &scores, times(&scores, 5), 0),
                step("weigh values", &QUERIES, &by_query, product, bytes(&by_query)),
                step("merge heads", &ROWS, &queries, 0, 0),
                step("project output", &ROWS, &queries, operations(&queries, m), bytes(&queries)),
            ],
        }
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The floating-point operations of all steps.
    pub fn flops(&self) -> u128 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.flops))
    }

    /// The bytes of all results.
    pub fn bytes(&self) -> u128 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.bytes))
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24}{:<48}{:>16}{:>16}", "step", "result", "operations", "bytes")?;
        for step in &self.steps {
            let shape = shape_text(&step.axes, &step.dims);
            writeln!(f, "{:<24}{shape:<48}{:>16}{:>16}", step.name, step.flops, step.bytes)?;
        }
        write!(f, "{:<24}{:<48}{:>16}{:>16}", "all", "", self.flops(), self.bytes())
    }
}
