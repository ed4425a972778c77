//! Printing: axis names and sizes first, then the elements.

use super::{AnyTensor, Tensor};
use crate::element::Element;
use crate::shape::Shape;
use std::fmt::{self, Debug, Display, Formatter};

/// Rows and columns printed at either end of an axis that is too long to print whole.
const EDGE: usize = 3;
/// The longest axis that is printed whole.
const WHOLE: usize = 2 * EDGE + 2;

/// `(Batch 2, Model 3)`.
pub(crate) fn shape_text(names: &[&str], dims: &[usize]) -> String {
    let axes: Vec<_> = names.iter().zip(dims).map(|(name, n)| format!("{name} {n}")).collect();
    format!("({})", axes.join(", "))
}

/// Prints the shape, then the elements; of axes longer than eight entries the first and last three.
///
/// `{:.2}` prints two decimals.
///
/// ```
/// use shapeproof::{Batch, Model, Tensor, C};
///
/// let x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::from([[1.0, 2.5, -3.0], [4.0, 5.0, 60.0]]);
/// assert_eq!(
///     x.to_string(),
///     "(Batch 2, Model 3) f32\n\
///      [[ 1.0000,  2.5000, -3.0000],\n \
///       [ 4.0000,  5.0000, 60.0000]]"
/// );
/// ```
impl<S: Shape, E: Element> Display for Tensor<S, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", shape_text(S::NAMES, self.dims()), E::NAME)?;
        elements(self.any(), f)
    }
}

impl<E: Element> Display for AnyTensor<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.dims(), E::NAME)?;
        elements(self, f)
    }
}

impl<S: Shape, E: Element> Debug for Tensor<S, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl<E: Element> Debug for AnyTensor<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

fn elements<E: Element>(tensor: &AnyTensor<E>, f: &mut Formatter<'_>) -> fmt::Result {
    if tensor.count() == 0 {
        return write!(f, "\nempty");
    }
    let precision = f.precision().unwrap_or(4);
    let text = |index: &[usize]| {
        let value = tensor.try_at(index).map(|value| match E::NAME {
            bool::NAME => format!("{value:?}"), // a precision would cut the word
            _ => format!("{value:.precision$?}"),
        });
        value.unwrap_or_default()
    };
    let mut width = 0;
    walk(tensor.dims(), &mut Vec::new(), &mut |index| width = width.max(text(index).len()));
    writeln!(f)?;
    level(tensor.dims(), &mut Vec::new(), &|index| format!("{:>width$}", text(index)), f)
}

/// The entries of an axis that are printed; `None` stands for those left out.
fn printed(n: usize) -> impl Iterator<Item = Option<usize>> {
    let edge = if n > WHOLE { EDGE } else { n };
    let gap = (n > WHOLE).then_some(None);
    (0..edge).map(Some).chain(gap).chain((n - edge..n).filter(move |_| n > WHOLE).map(Some))
}

fn walk(dims: &[usize], index: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    let Some(&n) = dims.get(index.len()) else {
        return visit(index);
    };
    for entry in printed(n).flatten() {
        index.push(entry);
        walk(dims, index, visit);
        index.pop();
    }
}

fn level(
    dims: &[usize],
    index: &mut Vec<usize>,
    text: &dyn Fn(&[usize]) -> String,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let depth = index.len();
    let Some(&n) = dims.get(depth) else {
        return f.write_str(&text(index));
    };
    let innermost = depth + 1 == dims.len();
    f.write_str("[")?;
    for (i, entry) in printed(n).enumerate() {
        match (i, innermost) {
            (0, _) => {}
            (_, true) => f.write_str(", ")?,
            (_, false) => write!(f, ",\n{}", " ".repeat(depth + 1))?,
        }
        match entry {
            None => f.write_str("…")?,
            Some(entry) => {
                index.push(entry);
                level(dims, index, text, f)?;
                index.pop();
            }
        }
    }
    f.write_str("]")
}
