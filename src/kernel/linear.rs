//! The linear map y = x · W + b over the last axis: a matrix product with one matrix for all rows.

use super::gemm::{Epilogue, PackedB, gemm, gemm_packed};
use super::layout::View;
use crate::element::Float;

/// y = x · W + b. `x` has 1 to 6 axes, the last of size I; `w` is I × O in any memory order (a
/// transposed view where it is stored as O × I). The result is row-major, with O in the place of I.
pub(crate) fn linear<E: Float>(x: View<E>, w: View<E>, bias: Option<&[E]>) -> Vec<E> {
    let mut x = x;
    if x.layout.rank() == 1 {
        x.layout.dims = x.layout.dims.inserted(0, 1);
        x.layout.strides = x.layout.strides.inserted(0, 0);
    }
    let rank = x.layout.rank();
    let dims = x.layout.dims;
    let dims = dims.replaced(rank - 2, w.layout.dims[0]).replaced(rank - 1, w.layout.dims[1]);
    let layout = w.layout.broadcast(&dims, &[rank - 2, rank - 1]);
    gemm(x, View { layout, ..w }, bias)
}

/// A linear map that is packed once: its weight, and a number for each column.
#[derive(Clone, Debug)]
pub(crate) struct Projection<E> {
    pub(crate) weight: PackedB<E>,
    pub(crate) bias: Option<Vec<E>>,
}

impl<E: Float> Projection<E> {
    /// As [`linear`], and what `activation` makes of each element.
    pub(crate) fn apply(&self, x: View<E>, activation: Option<fn(&mut [E])>) -> Vec<E> {
        let bias = self.bias.as_deref();
        gemm_packed(x, &self.weight, Epilogue { bias, activation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::gemm::pack_b;
    use crate::kernel::layout::Layout;
    use crate::kernel::testing::{Rng, bits};

    #[test]
    fn weights_may_be_stored_either_way_and_packed() {
        let mut rng = Rng::new(11);
        let (x, w) = (rng.block::<f32>(&[2, 3, 5]), rng.block::<f32>(&[5, 4]));
        let bias = rng.values::<f32>(4);
        let y = linear(x.view(), w.view(), Some(&bias));
        for (i, &actual) in y.iter().enumerate() {
            let (row, column) = (i / 4, i % 4);
            let expected: f32 = (0..5).map(|p| x.data[row * 5 + p] * w.data[p * 4 + column]).sum();
            assert!((actual - expected - bias[column]).abs() < 1e-5);
        }
        let other = w.scattered(0);
        let z = linear(x.scattered(2).view(), other.view(), Some(&bias));
        assert_eq!(bits(&z), bits(&y));
        let packed = Projection { weight: pack_b(other.view()), bias: Some(bias.clone()) };
        let z = packed.apply(x.view(), None);
        assert_eq!(bits(&z), bits(&y));
        let vector = View { data: &x.data[..5], layout: Layout::packed(&[5]) };
        let z = linear(vector, w.view(), Some(&bias));
        assert_eq!(bits(&z), bits(&y[..4]));
    }
}
