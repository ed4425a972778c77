//! What a group of queries gives when all keys have passed: its output, and what else is wanted.

use super::SumsAt;
use super::block::Attend;
use super::running::Group;
use crate::element::Float;
use crate::kernel::simd::Vector;
use crate::kernel::tile::columns;
use num_traits::{Float as _, Zero};
use std::f64::consts::LN_2;
use std::iter::{Skip, StepBy};
use std::slice::Iter;

impl<E: Float> Attend<'_, E> {
    /// Divides a group's sums by their totals and writes them; likewise the weights and the logarithms
    /// of the totals, where wanted. Gives whether the outputs are finite.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; the outputs are as [`Attend`] says.
    #[inline(always)]
    pub(super) unsafe fn finish<V: Vector<Scalar = E::Wide>>(
        &self,
        group: &mut Group<E>,
        scores: &[E::Wide],
    ) -> bool {
        let zero = E::Wide::zero();
        let row = self.dv.next_multiple_of(columns::<V>());
        let mut finite = true;
        for (i, query) in group.queries.clone().enumerate() {
            let total = group.total[i];
            if self.dv > 0 {
                // SAFETY: the caller's.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(self.out.add(query * self.out_row), self.dv)
                };
                if total == zero || group.fresh {
                    out.fill(E::narrow(zero));
                } else {
                    let sums = &mut group.sums[i * row..][..self.dv];
                    let buckets = group.buckets.iter().skip(i).step_by(group.width);
                    if self.settings.relative.is_some() {
                        self.add_relative_values(buckets, sums);
                    }
                    let factor = total.recip();
                    for (out, &sum) in out.iter_mut().zip(&*sums) {
                        let sum = sum * factor;
                        finite &= sum.is_finite();
                        *out = E::narrow(sum);
                    }
                }
            }
            // SAFETY: the caller's.
            unsafe { self.write_sum(query, group.max[i], total) }
            if let Some(weights) = self.weights {
                // SAFETY: the caller's.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(weights.add(query * self.keys), self.keys)
                };
                for (out, row) in out.iter_mut().zip(scores.chunks_exact(group.width)) {
                    // 0 / NaN would be NaN: a hidden key beside a visible NaN keeps its 0.
                    *out = E::narrow(if row[i] == zero { zero } else { row[i] / total });
                }
            }
        }
        finite
    }

    /// Adds the relative values to a query's sums, each as often as its keys weigh.
    #[inline(never)]
    fn add_relative_values(&self, buckets: StepBy<Skip<Iter<E::Wide>>>, sums: &mut [E::Wide]) {
        let Some(values) = self.settings.relative_values() else { return };
        let [row, column] = [0, 1].map(|axis| values.layout.strides[axis]);
        for (t, weight) in buckets.enumerate().filter(|(_, weight)| !weight.is_zero()) {
            for (c, sum) in sums[..self.dv].iter_mut().enumerate() {
                let value = values.data[values.layout.offset + t * row + c * column].wide();
                *sum = weight.mul_add(value, *sum);
            }
        }
    }

    /// Writes what is wanted of a query's sum: `total`, relative to 2 to the `max`.
    ///
    /// # Safety
    ///
    /// The outputs are as [`Attend`] says.
    unsafe fn write_sum(&self, query: usize, max: E::Wide, total: E::Wide) {
        let nothing = total == E::Wide::zero();
        let infinite = E::Wide::neg_infinity();
        // SAFETY: the caller's.
        unsafe {
            match self.sums_to {
                SumsAt::Nothing => {}
                SumsAt::Log(to) => {
                    let log = max.mul_add(E::Wide::from_f64(LN_2), total.ln());
                    to.add(query).write(E::narrow(if nothing { infinite } else { log }));
                }
                SumsAt::Parts([maxima, logs]) => {
                    maxima.add(query).write(if nothing { infinite } else { max });
                    logs.add(query).write(if nothing { E::Wide::zero() } else { total.log2() });
                }
            }
        }
    }
}
