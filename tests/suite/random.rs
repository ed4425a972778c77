//! Reproducible random data, by a generator that is not the library's.

use crate::masks::{Over, Part, Sizes};

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % n
    }

    /// In −2..2, in steps that f32 holds exactly: both element types see the same input.
    pub(crate) fn value(&mut self) -> f64 {
        let step = u32::try_from(self.next() >> 43).unwrap(); // 21 bits
        f64::from(step) / f64::from(1 << 19) - 2.0
    }

    pub(crate) fn values(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.value()).collect()
    }

    /// True in two of three cases.
    pub(crate) fn flag(&mut self) -> bool {
        self.below(3) > 0
    }

    /// Queries, keys and values.
    pub(crate) fn inputs(&mut self, sizes: Sizes) -> [Vec<f64>; 3] {
        sizes.counts().map(|count| self.values(count))
    }

    /// Which of the axes batch, heads and queries a mask has; it always has keys.
    pub(crate) fn axes(&mut self) -> [bool; 4] {
        [self.flag(), self.flag(), self.flag(), true]
    }

    pub(crate) fn keep(&mut self, sizes: Sizes, axes: [bool; 4]) -> Part {
        Part::Keep(Over::of(sizes, axes, || self.flag()))
    }

    /// Numbers, one in five of them −∞.
    pub(crate) fn bias(&mut self, sizes: Sizes, axes: [bool; 4]) -> Part {
        let mut number = || if self.below(5) == 0 { f64::NEG_INFINITY } else { self.value() };
        Part::Bias(Over::of(sizes, axes, &mut number))
    }

    /// Any one mask.
    pub(crate) fn part(&mut self, sizes: Sizes) -> Part {
        let axes = self.axes();
        match self.below(9) {
            0 => Part::Causal,
            1 => Part::CausalFromStart,
            2 => Part::Prefix(self.below(sizes.keys + 2)),
            3 => self.keep(sizes, axes),
            4 => self.window(sizes),
            5 => self.blocks(sizes),
            6 => self.segments(sizes),
            7 => self.distances(sizes),
            _ => self.bias(sizes, axes),
        }
    }

    pub(crate) fn window(&mut self, sizes: Sizes) -> Part {
        let [behind, ahead, global] = [0; 3].map(|_| self.below(sizes.keys + 1));
        Part::Window { behind, ahead, global: if self.flag() { 0 } else { global } }
    }

    /// Blocks of any size that divides both lengths.
    pub(crate) fn blocks(&mut self, sizes: Sizes) -> Part {
        let (queries, keys) = (sizes.queries, sizes.keys);
        let fits = |size: &usize| queries.is_multiple_of(*size) && keys.is_multiple_of(*size);
        let all: Vec<_> = (1..=queries.max(keys).max(1)).filter(fits).collect();
        let (size, by_head) = (all[self.below(all.len())], self.flag());
        let count = (queries / size) * (keys / size) * if by_head { sizes.heads } else { 1 };
        Part::Blocks { size, by_head, visible: (0..count).map(|_| self.flag()).collect() }
    }

    pub(crate) fn segments(&mut self, sizes: Sizes) -> Part {
        let mut left = [sizes.queries, sizes.keys];
        let mut lengths = Vec::new();
        for _ in 0..self.below(4) {
            let length = left.map(|left| self.below(left + 1));
            left = [left[0] - length[0], left[1] - length[1]];
            lengths.push(length);
        }
        Part::Segments { lengths, causal: self.flag() }
    }

    pub(crate) fn distances(&mut self, sizes: Sizes) -> Part {
        let count = 1 + self.below(sizes.keys + 2);
        let first = isize::try_from(self.below(sizes.keys + 1)).unwrap();
        Part::Distances {
            first: -first,
            table: (0..sizes.heads).map(|_| self.values(count)).collect(),
        }
    }

    /// None to three of them.
    pub(crate) fn parts(&mut self, sizes: Sizes) -> Vec<Part> {
        (0..self.below(4)).map(|_| self.part(sizes)).collect()
    }
}
