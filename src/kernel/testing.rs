//! What the kernels' tests share: random blocks, awkward strides, pools of several sizes.

use super::layout::{Dims, Layout, View};
use crate::element::{Element, Float};

/// A small generator of reproducible numbers (xorshift64*).
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in 0..1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Values between -2 and 2.
    pub(super) fn values<E: Float>(&mut self, count: usize) -> Vec<E> {
        (0..count).map(|_| E::from_f64(self.unit() * 4.0 - 2.0)).collect()
    }

    pub(super) fn block<E: Float>(&mut self, dims: &[usize]) -> Block<E> {
        Block { data: self.values(dims.iter().product()), layout: Layout::packed(dims) }
    }
}

/// A view with its own buffer.
#[derive(Clone)]
pub(super) struct Block<E> {
    pub(super) data: Vec<E>,
    pub(super) layout: Layout,
}

impl<E: Element> Block<E> {
    pub(super) fn view(&self) -> View<'_, E> {
        View { data: &self.data, layout: self.layout }
    }

    pub(super) fn pack(&self) -> Vec<E> {
        slow_pack(self.view())
    }

    /// The same elements, laid out otherwise ([`scattered`]).
    pub(super) fn scattered(&self, kind: usize) -> Block<E> {
        let (data, layout) = scattered(&self.pack(), &self.layout.dims, kind);
        Block { data, layout }
    }
}

/// The twin of `pack`: every element by its index.
pub(super) fn slow_pack<E: Element>(view: View<E>) -> Vec<E> {
    let Layout { dims, strides, offset } = view.layout;
    let mut out = Vec::new();
    for position in 0..view.layout.count() {
        let mut rest = position;
        let mut at = offset;
        for axis in (0..dims.len()).rev() {
            at += rest % dims[axis] * strides[axis];
            rest /= dims[axis];
        }
        out.push(view.data[at]);
    }
    out
}

/// A packed block laid out with gaps: `kind` 0 reverses the axes, 1 keeps their order and pads each,
/// 2 rotates them. Gaps hold the type's default.
pub(super) fn scattered<E: Element>(packed: &[E], dims: &[usize], kind: usize) -> (Vec<E>, Layout) {
    let rank = dims.len();
    let mut strides = Dims::new(dims);
    let mut step = 1 + kind % 2;
    for place in 0..rank {
        let axis = match kind {
            0 => place,
            1 => rank - 1 - place,
            _ => (place + rank / 2) % rank,
        };
        strides[axis] = step;
        step *= dims[axis] + kind;
    }
    let layout = Layout { dims: Dims::new(dims), strides, offset: 3 };
    let extent: usize =
        dims.iter().zip(strides.iter()).map(|(&n, &s)| n.saturating_sub(1) * s).sum();
    let mut data = vec![E::default(); 4 + extent];
    for (position, &x) in packed.iter().enumerate() {
        let mut rest = position;
        let mut at = layout.offset;
        for axis in (0..rank).rev() {
            at += rest % dims[axis] * strides[axis];
            rest /= dims[axis];
        }
        data[at] = x;
    }
    (data, layout)
}

/// Asserts that `f` gives the same result in pools of 1, 2, 3 and 7 threads; gives the result.
pub(super) fn in_pools<T: PartialEq + std::fmt::Debug + Send>(f: impl Fn() -> T + Sync) -> T {
    let mut results = [1, 2, 3, 7].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        Some(pool.install(&f))
    });
    for i in 1..results.len() {
        assert!(results[i] == results[0], "the result depends on the number of threads");
    }
    results[0].take().unwrap()
}

/// How far a number may be from one of this size because it is rounded to an element narrower than what
/// was computed with.
pub(super) fn rounding<E: Float>(exact: f64) -> f64 {
    let [unit, least] = match E::NAME {
        "f16" => [-11, -25],
        "bf16" => [-8, -134],
        _ => return 0.0,
    };
    exact.abs() * 2f64.powi(unit) + 2f64.powi(least)
}

/// The bits of floats, so that NaN and -0 compare.
pub(super) fn bits<E: Float>(values: &[E]) -> Vec<u64> {
    values.iter().map(|x| x.to_f64().to_bits()).collect()
}
