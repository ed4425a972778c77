//! The scores themselves, at each stage on their way to weights. They exist as a whole here; this is for
//! looking at them, not for speed.

use super::Settings;
use super::mask::Mask;
use super::terms::{Scores, soften};
use crate::element::Float;
use crate::kernel::gemm::gemm;
use crate::kernel::layout::{View, count};
use crate::kernel::parallel::for_each_chunk;
use crate::kernel::scratch::Spare;
use crate::kernel::simd::{Isa, Kernel, Lanes, MAX_LANES, Vector};
use crate::kernel::wide::{narrowed, wide};
use num_traits::One;

/// What has been done to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The scaled products of queries and keys, and what belongs to them: relative positions.
    Product,
    /// After the cap, if there is one.
    Capped,
    /// After everything that is added; −∞ where hidden.
    Masked,
}

/// The scores of `q` [B, H, Q, D] and `k` [B, G, K, D], over [B, H, Q, K] in row-major order.
pub(crate) fn scores<E: Float>(
    [q, k]: [View<E>; 2],
    settings: &Settings<E>,
    mask: &Mask<E>,
    stage: Stage,
) -> Vec<E> {
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    assert_eq!(k.layout.dims[..], [batch, groups, keys, d]);
    let full = [batch, heads, queries, keys];
    mask.check(full);
    if let Some(relative) = &settings.relative {
        relative.check_products([batch, heads, queries]);
    }
    if count(&full) == 0 {
        return Vec::new();
    }
    assert!(groups > 0 && heads.is_multiple_of(groups));
    // Over [B, G, H/G, Q, D] and, repeated over the third axis, [B, G, H/G, D, K].
    let share = heads / groups;
    let [q, k] = [wide(q), wide(k)];
    let [q, k] = [q.view(), k.view()];
    let left = View { layout: q.layout.split(1, groups, share), ..q };
    let right = k.layout.transposed().repeated(2, share);
    let mut scores = gemm(left, View { layout: right, ..k }, None);
    let work = scores.len().saturating_mul(8);
    for_each_chunk(&mut scores, keys, work, |row, scores| {
        let (at, query) = (row / queries, row % queries);
        let place = [at / heads, at % heads, query];
        E::Wide::vectorized(Isa::best(), Row { scores, place, settings, mask, stage });
    });
    narrowed(scores)
}

/// One query's products, not yet scaled.
struct Row<'a, 'm, E: Float> {
    scores: &'a mut [E::Wide],
    /// Batch entry, head and query.
    place: [usize; 3],
    settings: &'a Settings<'m, E>,
    mask: &'a Mask<'m, E>,
    stage: Stage,
}

impl<E: Float> Kernel<E::Wide> for Row<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let Row { scores, place: [batch, head, query], settings, mask, stage } = self;
        let keys = scores.len();
        let mut wide = Spare::take(keys.next_multiple_of(MAX_LANES));
        let scale = E::Wide::from_f64(settings.scale);
        wide.iter_mut().zip(&*scores).for_each(|(wide, &score)| *wide = score * scale);
        let mut window = Scores {
            batch,
            head,
            queries: query..query + 1,
            keys: 0..keys,
            data: &mut wide,
            strides: [0, 1],
            unit: E::Wide::one(),
        };
        if let Some(relative) = &settings.relative {
            window.add_relative(relative, settings.scale);
        }
        if let Some(cap) = settings.softcap.filter(|_| stage != Stage::Product) {
            // SAFETY: the instruction set is the caller's; the buffer is whole vectors.
            unsafe { soften::<V>(window.data, E::Wide::from_f64(cap)) }
        }
        if stage == Stage::Masked {
            window.add_terms(mask);
            mask.hide_row(([batch, head, query], 0..keys, keys), window.data);
        }
        scores.copy_from_slice(&wide[..keys]);
    }
}
