//! The updates of optimizers: each element of a parameter changed by its gradient and its own state.
//!
//! The buffers of a parameter are cut into pieces of a fixed size. Within a piece a plain loop over slices
//! runs inside a function that has the instruction set enabled, and the compiler makes vectors of it. It
//! fuses no products and sums, so the bits are the same for every set, and for every number of threads.

use super::parallel::{PIECE, for_each_piece};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::{Float, Real};

/// Operations for each element, roughly.
const COST: usize = 16;

/// One number of a parameter and its state, changed by its gradient. `N` counts the parameter and its
/// states.
pub(crate) trait Update<R, const N: usize>: Copy + Sync {
    /// The new parameter and states, given the old ones and the gradient. Must be `#[inline(always)]`.
    fn of(self, old: [R; N], gradient: R) -> [R; N];
}

/// Changes a parameter and its states, all of one length, by a gradient of that length.
pub(crate) fn update<E: Float, const N: usize>(
    buffers: [&mut [E]; N],
    gradient: &[E],
    update: impl Update<E::Wide, N>,
) {
    update_on(Isa::best(), buffers, gradient, update);
}

fn update_on<E: Float, const N: usize>(
    isa: Isa,
    buffers: [&mut [E]; N],
    gradient: &[E],
    update: impl Update<E::Wide, N>,
) {
    let count = gradient.len();
    assert!(buffers.iter().all(|buffer| buffer.len() == count));
    for_each_piece(buffers, PIECE, count.saturating_mul(COST), |start, buffers| {
        let gradient = &gradient[start..start + buffers[0].len()];
        E::Wide::vectorized(isa, Run { buffers, gradient, update });
    });
}

struct Run<'a, E, U, const N: usize> {
    buffers: [&'a mut [E]; N],
    gradient: &'a [E],
    update: U,
}

impl<E: Float, U: Update<E::Wide, N>, const N: usize> Kernel<E::Wide> for Run<'_, E, U, N> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let Run { mut buffers, gradient, update } = self;
        let n = gradient.len();
        // Of one length for all to see: then no element's place is checked.
        for buffer in &mut buffers {
            *buffer = &mut std::mem::take(buffer)[..n];
        }
        for (i, gradient) in gradient.iter().enumerate() {
            let mut numbers = [E::default().wide(); N];
            for (number, buffer) in numbers.iter_mut().zip(&buffers) {
                *number = buffer[i].wide();
            }
            let numbers = update.of(numbers, gradient.wide());
            for (buffer, number) in buffers.iter_mut().zip(numbers) {
                buffer[i] = E::narrow(number);
            }
        }
    }
}

/// p ← p − rate · (g + decay · p).
#[derive(Clone, Copy)]
pub(crate) struct Descent<R> {
    pub(crate) rate: R,
    pub(crate) decay: R,
}

impl<R: Real> Update<R, 1> for Descent<R> {
    #[inline(always)]
    fn of(self, [p]: [R; 1], g: R) -> [R; 1] {
        [p - self.rate * (g + self.decay * p)]
    }
}

/// g ← g + decay · p; b ← momentum · b + taken · g; p ← p − rate · (own · g + of_momentum · b).
#[derive(Clone, Copy)]
pub(crate) struct Momentum<R> {
    pub(crate) rate: R,
    pub(crate) decay: R,
    pub(crate) momentum: R,
    /// What is taken of the gradient into the momentum: 1 in the first update, then 1 − dampening.
    pub(crate) taken: R,
    /// 0, or with Nesterov's rule 1.
    pub(crate) own: R,
    /// 1, or with Nesterov's rule the momentum.
    pub(crate) of_momentum: R,
}

impl<R: Real> Update<R, 2> for Momentum<R> {
    #[inline(always)]
    fn of(self, [p, b]: [R; 2], g: R) -> [R; 2] {
        let g = g + self.decay * p;
        let b = self.momentum * b + self.taken * g;
        [p - self.rate * (self.own * g + self.of_momentum * b), b]
    }
}

/// p ← kept · p; g ← g + decay · p; m ← m + (1 − β₁)(g − m); v ← β₂ · v + (1 − β₂) g²;
/// p ← p − step · m / (√v · root + ε).
#[derive(Clone, Copy)]
pub(crate) struct Moments<R> {
    /// 1, or 1 − rate · decay where the decay is decoupled.
    pub(crate) kept: R,
    /// The decay, or 0 where it is decoupled.
    pub(crate) decay: R,
    /// 1 − β₁.
    pub(crate) of_mean: R,
    /// β₂.
    pub(crate) beta: R,
    /// 1 − β₂.
    pub(crate) of_square: R,
    /// rate / (1 − β₁ᵗ).
    pub(crate) step: R,
    /// 1 / √(1 − β₂ᵗ).
    pub(crate) root: R,
    /// ε.
    pub(crate) epsilon: R,
}

impl<R: Real> Moments<R> {
    #[inline(always)]
    fn moments(self, [p, m, v]: [R; 3], g: R) -> [R; 3] {
        let p = self.kept * p;
        let g = g + self.decay * p;
        [p, m + self.of_mean * (g - m), self.beta * v + self.of_square * (g * g)]
    }

    #[inline(always)]
    fn moved(self, p: R, m: R, v: R) -> R {
        p - self.step * (m / (v.sqrt() * self.root + self.epsilon))
    }
}

impl<R: Real> Update<R, 3> for Moments<R> {
    #[inline(always)]
    fn of(self, old: [R; 3], g: R) -> [R; 3] {
        let [p, m, v] = self.moments(old, g);
        [self.moved(p, m, v), m, v]
    }
}

/// With the largest v so far in the place of v.
impl<R: Real> Update<R, 4> for Moments<R> {
    #[inline(always)]
    fn of(self, [p, m, v, largest]: [R; 4], g: R) -> [R; 4] {
        let [p, m, v] = self.moments([p, m, v], g);
        // NaN stays, as it does in v.
        let largest = if largest > v { largest } else { v };
        [self.moved(p, m, largest), m, v, largest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    const MOMENTS: [f64; 8] = [0.98, 0.1, 0.2, 0.9, 0.1, 0.03, 1.7, 1e-8];

    fn moments<R: Real>() -> Moments<R> {
        let [kept, decay, of_mean, beta, of_square, step, root, epsilon] = MOMENTS.map(R::from_f64);
        Moments { kept, decay, of_mean, beta, of_square, step, root, epsilon }
    }

    /// The update by its formulas, in f64, with no thought of speed.
    fn slow(p: f64, m: f64, v: f64, largest: f64, g: f64) -> [f64; 4] {
        let [kept, decay, of_mean, beta, of_square, step, root, epsilon] = MOMENTS;
        let p = p * kept;
        let g = g + decay * p;
        let m = (1.0 - of_mean) * m + of_mean * g;
        let v = beta * v + of_square * g.powi(2);
        let largest = largest.max(v);
        [p - step * m / (largest.sqrt() * root + epsilon), m, v, largest]
    }

    fn of_any_set_and_pool<E: Float>(tolerance: f64) {
        let mut rng = Rng::new(30);
        for n in [0, 1, 3, 17, PIECE, 2 * PIECE + 5] {
            let start = [0; 4].map(|_| rng.values::<E>(n));
            let squares = |x: &[E]| x.iter().map(|x| E::from_f64(x.to_f64().powi(2))).collect();
            let start =
                [start[0].clone(), start[1].clone(), squares(&start[2]), squares(&start[3])];
            let gradient = rng.values::<E>(n);
            let mut results = Isa::all().into_iter().map(|isa| {
                in_pools(|| {
                    let [mut p, mut m, mut v, mut largest] = start.clone();
                    let buffers = [&mut p[..], &mut m, &mut v, &mut largest];
                    update_on(isa, buffers, &gradient, moments::<E::Wide>());
                    [p, m, v, largest].map(|x| bits(&x))
                })
            });
            let first = results.next().unwrap();
            assert!(results.all(|other| other == first), "{n}");
            let [mut p, mut m, mut v, mut largest] = start.clone();
            update([&mut p[..], &mut m, &mut v, &mut largest], &gradient, moments::<E::Wide>());
            for i in 0..n {
                let [p0, m0, v0, l0] = [0, 1, 2, 3].map(|b| start[b][i].to_f64());
                let want = slow(p0, m0, v0, l0, gradient[i].to_f64());
                for (got, want) in [p[i], m[i], v[i], largest[i]].iter().zip(want) {
                    let error = (got.to_f64() - want).abs();
                    assert!(error <= tolerance * (1.0 + want.abs()), "{n} {i}: {got:?} {want}");
                }
            }
        }
    }

    #[test]
    fn moments_are_those_of_the_formulas_for_any_set_and_pool() {
        of_any_set_and_pool::<f32>(1e-6);
        of_any_set_and_pool::<f64>(1e-14);
    }

    #[test]
    fn momentum_is_that_of_the_formula() {
        let (mut p, mut b) = ([1.0, -2.0], [0.5, 0.25]);
        let rule = Momentum {
            rate: 0.1,
            decay: 0.5,
            momentum: 0.9,
            taken: 0.75,
            own: 1.0,
            of_momentum: 0.9,
        };
        update([&mut p[..], &mut b], &[2.0, 4.0], rule);
        // g = 2.5, 3.0; b = 0.45 + 1.875, 0.225 + 2.25; p = 1 − 0.1 (2.5 + 0.9 · 2.325), …
        let near = |x: f64, y: f64| (x - y).abs() < 1e-12;
        assert!(near(b[0], 2.325) && near(b[1], 2.475));
        assert!(near(p[0], 0.54075) && near(p[1], -2.52275));
    }

    #[test]
    fn descent_is_that_of_the_formula() {
        let mut p = [1.0f64, -2.0];
        update([&mut p[..]], &[2.0, 4.0], Descent { rate: 0.5, decay: 0.25 });
        assert_eq!(p, [1.0 - 0.5 * 2.25, -2.0 - 0.5 * 3.5]);
    }
}
