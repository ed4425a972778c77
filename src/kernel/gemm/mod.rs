//! The batched matrix product C[b] = A[b] · B[b] + bias.

use super::layout::{Layout, View};
use super::runs::Runs;
use crate::element::Float;
use num_traits::Zero;

/// What happens to a product on its way to the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epilogue<'a, E> {
    /// Added to every row: one number for each column.
    pub(crate) bias: Option<&'a [E]>,
    /// Whether the product is added to what the output holds, instead of replacing it.
    pub(crate) accumulate: bool,
}

impl<E> Epilogue<'_, E> {
    /// The product alone replaces the output.
    pub(crate) const NONE: Self = Epilogue { bias: None, accumulate: false };
}

/// The right-hand matrix of a product, K × N, in the order that the kernels read it.
#[derive(Clone, Debug)]
pub(crate) struct PackedB<E> {
    data: Vec<E>,
    k: usize,
    n: usize,
}

impl<E> PackedB<E> {
    /// K and N.
    pub(crate) fn dims(&self) -> (usize, usize) {
        (self.k, self.n)
    }
}

/// Packs the K × N matrix `b`, to be used in many products.
pub(crate) fn pack_b<E: Float>(b: View<E>) -> PackedB<E> {
    let (k, n) = (b.layout.dims[0], b.layout.dims[1]);
    PackedB { data: super::elementwise::pack(b), k, n }
}

/// C = A · B + bias for views of 2 to 6 axes whose leading axes are equal (stride 0 repeats a
/// matrix). `out` is C in row-major order.
pub(crate) fn gemm<E: Float>(a: View<E>, b: View<E>, bias: Option<&[E]>, out: &mut [E]) {
    let layout = product_layout(&a.layout, b.layout.dims[b.layout.rank() - 1]);
    gemm_into(a, b, Epilogue { bias, accumulate: false }, out, &layout);
}

/// As [`gemm`], with `b` packed before. `a` has 1 to 6 axes, the last of size K.
pub(crate) fn gemm_packed<E: Float>(a: View<E>, b: &PackedB<E>, bias: Option<&[E]>, out: &mut [E]) {
    let layout = product_layout(&a.layout, b.n);
    gemm_packed_into(a, b, Epilogue { bias, accumulate: false }, out, &layout);
}

/// As [`gemm`], to any place in `out`; no two elements of `layout` may share a place.
pub(crate) fn gemm_into<E: Float>(
    a: View<E>,
    b: View<E>,
    epilogue: Epilogue<E>,
    out: &mut [E],
    layout: &Layout,
) {
    let rank = a.layout.rank();
    let (k, n) = (a.layout.dims[rank - 1], b.layout.dims[rank - 1]);
    let m = a.layout.dims[rank - 2];
    let batch = |layout: &Layout| layout.at_start();
    let layouts = [batch(&a.layout), batch(&b.layout), batch(layout)];
    let (rs, cs) = (layout.strides[rank - 2], layout.strides[rank - 1]);
    let runs = Runs::new([&layouts[0], &layouts[1], &layouts[2]]);
    let steps = runs.steps();
    runs.for_each(0, layouts[0].count(), |at, len| {
        for i in 0..len {
            let [a_at, b_at, c_at] = [0, 1, 2].map(|n| at[n] + i * steps[n]);
            for row in 0..m {
                for column in 0..n {
                    let mut sum = E::Wide::zero();
                    for p in 0..k {
                        let a_at = a_at
                            + row * a.layout.strides[rank - 2]
                            + p * a.layout.strides[rank - 1];
                        let b_at = b_at
                            + p * b.layout.strides[rank - 2]
                            + column * b.layout.strides[rank - 1];
                        sum += a.data[a_at].wide() * b.data[b_at].wide();
                    }
                    if let Some(bias) = epilogue.bias {
                        sum += bias[column].wide();
                    }
                    let c = &mut out[c_at + row * rs + column * cs];
                    if epilogue.accumulate {
                        sum += c.wide();
                    }
                    *c = E::narrow(sum);
                }
            }
        }
    });
}

/// As [`gemm_packed`], to any place in `out`; no two elements of `layout` may share a place.
pub(crate) fn gemm_packed_into<E: Float>(
    a: View<E>,
    b: &PackedB<E>,
    epilogue: Epilogue<E>,
    out: &mut [E],
    layout: &Layout,
) {
    let (mut a, mut layout) = (a, *layout);
    if a.layout.rank() == 1 {
        for layout in [&mut a.layout, &mut layout] {
            layout.dims = layout.dims.inserted(0, 1);
            layout.strides = layout.strides.inserted(0, 0);
        }
    }
    let rank = a.layout.rank();
    let dims = a.layout.dims.replaced(rank - 2, b.k).replaced(rank - 1, b.n);
    let b_layout = Layout::packed(&[b.k, b.n]).broadcast(&dims, &[rank - 2, rank - 1]);
    gemm_into(a, View { data: &b.data, layout: b_layout }, epilogue, out, &layout);
}

fn product_layout(a: &Layout, n: usize) -> Layout {
    let last = a.rank() - 1;
    Layout::packed(&a.dims.replaced(last, n))
}
