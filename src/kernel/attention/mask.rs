//! Which keys a query sees.

use crate::kernel::layout::View;

/// A bound on the keys: query i sees key j where j ≤ i + `offset`, or j < `prefix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    pub(crate) offset: isize,
    pub(crate) prefix: usize,
}

impl Band {
    /// Query `i` sees the keys below this, and no others.
    pub(super) fn limit(self, i: usize) -> usize {
        (i + 1).saturating_add_signed(self.offset).max(self.prefix)
    }
}

/// What hides keys from queries, and what is added to their scores. A key is visible where all parts
/// agree that it is. Every view has the sizes [B, H, Q, K], with stride 0 along the axes that it
/// does not tell apart.
#[derive(Clone, Debug)]
pub(crate) struct Mask<'a, E> {
    /// True where a key may be seen.
    pub(crate) keep: Vec<View<'a, bool>>,
    pub(crate) bands: Vec<Band>,
    /// Added to the scaled scores; −∞ hides as `keep` does.
    pub(crate) bias: Vec<View<'a, E>>,
}

impl<E> Mask<'_, E> {
    /// Everything is visible.
    pub(crate) const NONE: Self = Mask { keep: Vec::new(), bands: Vec::new(), bias: Vec::new() };

    /// Query `i` sees no key from here on, whatever the rest of the mask says.
    pub(super) fn limit(&self, i: usize, keys: usize) -> usize {
        self.bands.iter().fold(keys, |limit, band| limit.min(band.limit(i)))
    }
}
