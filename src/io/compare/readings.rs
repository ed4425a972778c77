//! Other readings of a tensor's numbers: what is wrong with attention code is often their order.

use super::Tolerance;
use crate::ops::index_of;
use crate::tensor::FloatTensor;

/// The furthest shift that is tried.
const SHIFTS: usize = 8;

/// Numbers in row-major order.
pub(super) struct Values {
    pub(super) dims: Vec<usize>,
    pub(super) data: Vec<f64>,
}

/// An axis in the middle of others: (outer, size, inner).
#[derive(Clone, Copy)]
struct Along {
    outer: usize,
    size: usize,
    inner: usize,
}

impl Values {
    pub(super) fn of(tensor: &FloatTensor) -> Self {
        Values { dims: tensor.dims().to_vec(), data: tensor.to::<f64>().to_vec() }
    }

    /// With two axes exchanged.
    fn exchanged(&self, a: usize, b: usize) -> Values {
        let mut dims = self.dims.clone();
        dims.swap(a, b);
        let data = (0..self.data.len()).map(|at| {
            let mut index = index_of(at, &dims);
            index.swap(a, b);
            let from = index.iter().zip(&self.dims).fold(0, |from, (i, n)| from * n + i);
            self.data[from]
        });
        Values { data: data.collect(), dims }
    }

    fn along(&self, axis: usize) -> Along {
        let product = |dims: &[usize]| dims.iter().product();
        let (outer, inner) = (product(&self.dims[..axis]), product(&self.dims[axis + 1..]));
        Along { outer, size: self.dims[axis], inner }
    }

    /// The last axis as `size` parts.
    fn parts(&self, size: usize) -> Along {
        let width = self.dims[self.dims.len() - 1];
        Along { outer: self.data.len() / width, size, inner: width / size }
    }
}

impl Along {
    /// Where the inner elements of an entry begin.
    fn start(self, outer: usize, entry: usize) -> usize {
        (outer * self.size + entry) * self.inner
    }
}

/// The readings of `theirs` that agree with `ours`, which differ as they are.
pub(super) fn readings(ours: &Values, theirs: &Values, tolerance: Tolerance) -> Vec<String> {
    if ours.data.is_empty() || ours.data.len() != theirs.data.len() {
        return Vec::new();
    }
    let same = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(&x, &y)| tolerance.allows(x, y));
    let mut found = Vec::new();
    for b in 0..theirs.dims.len() {
        for a in 0..b {
            let other = theirs.exchanged(a, b);
            if other.dims == ours.dims && same(&ours.data, &other.data) {
                found.push(format!("with axes {a} and {b} exchanged"));
            }
        }
    }
    if ours.dims != theirs.dims {
        if same(&ours.data, &theirs.data) {
            found.push(format!("number by number: {:?} is a reshape", theirs.dims));
        }
        return found;
    }
    for axis in 0..ours.dims.len() {
        let (along, is_last) = (ours.along(axis), axis + 1 == ours.dims.len());
        // The fewest heads first: what agrees as 2 heads does so as 4, and as so many single features.
        let heads = (2..along.size).filter(|h| is_last && along.size % h == 0);
        let heads = heads.map(|h| (h, order(ours, theirs, ours.parts(h), same)));
        if let Some((h, Some(order))) = heads.into_iter().find(|(_, order)| order.is_some()) {
            let (width, order) = (along.size / h, listed(&order));
            found.push(format!("with the {h} heads of width {width} in the order {order}"));
        } else if let Some(order) = order(ours, theirs, along, same) {
            found.push(format!("with the entries of axis {axis} in the order {}", listed(&order)));
        } else if let Some(by) = shift(ours, theirs, along, same) {
            found.push(format!("shifted along axis {axis}: our entry i is their entry i {by:+}"));
        }
    }
    let width = ours.dims.last().copied().unwrap_or(1);
    let mut parts = (2..width).filter(|parts| width % parts == 0);
    if let Some(h) = parts.find(|&h| same(&ours.data, &interleaved(theirs, h))) {
        let d = width / h;
        found.push(format!("read as {d} by {h} in the place of {h} by {d}"));
    }
    found.extend(factor(ours, theirs, same).map(|factor| format!("times {factor:.6}")));
    found
}

/// The order, or its beginning where it is too long to print.
fn listed(order: &[usize]) -> String {
    const LONGEST: usize = 16;
    match order.get(..LONGEST) {
        Some(first) if order.len() > LONGEST => {
            format!("{first:?} and {} more", order.len() - LONGEST)
        }
        _ => format!("{order:?}"),
    }
}

/// The step by which all entries but those at the end are theirs, the shortest that there is.
fn shift(
    ours: &Values,
    theirs: &Values,
    along: Along,
    same: impl Fn(&[f64], &[f64]) -> bool,
) -> Option<isize> {
    let Along { outer, size, inner } = along;
    // At least half of the entries have to be there to be compared.
    (1..=SHIFTS.min(size / 2)).flat_map(|by| [(by, 0), (0, by)]).find_map(|(later, earlier)| {
        let count = (size - later - earlier) * inner;
        let agrees = (0..outer).all(|at| {
            let (x, y) = (along.start(at, earlier), along.start(at, later));
            same(&ours.data[x..x + count], &theirs.data[y..y + count])
        });
        agrees.then(|| later.cast_signed() - earlier.cast_signed())
    })
}

/// Which of their entries each of ours is, where each is one and not all are at their place.
fn order(
    ours: &Values,
    theirs: &Values,
    along: Along,
    same: impl Fn(&[f64], &[f64]) -> bool,
) -> Option<Vec<usize>> {
    let mut taken = vec![false; along.size];
    let mut order = Vec::with_capacity(along.size);
    for entry in 0..along.size {
        let is_it = |other: usize| {
            (0..along.outer).all(|at| {
                let (x, y) = (along.start(at, entry), along.start(at, other));
                same(&ours.data[x..x + along.inner], &theirs.data[y..y + along.inner])
            })
        };
        // Its own place first: equal entries are no other order.
        let places = std::iter::once(entry).chain(0..along.size);
        let other = places.into_iter().find(|&other| !taken[other] && is_it(other))?;
        taken[other] = true;
        order.push(other);
    }
    order.iter().enumerate().any(|(at, &other)| at != other).then_some(order)
}

/// The last axis of width h · d, read as (d, h) and written as (h, d).
fn interleaved(theirs: &Values, h: usize) -> Vec<f64> {
    let Along { outer, inner: d, .. } = theirs.parts(h);
    let row = |at: usize| {
        let row = &theirs.data[at * h * d..(at + 1) * h * d];
        (0..h * d).map(|to| row[(to % d) * h + to / d])
    };
    (0..outer).flat_map(row).collect()
}

/// The one factor between all numbers.
fn factor(ours: &Values, theirs: &Values, same: impl Fn(&[f64], &[f64]) -> bool) -> Option<f64> {
    let pairs = || ours.data.iter().zip(&theirs.data);
    let factor =
        pairs().map(|(x, y)| x * y).sum::<f64>() / pairs().map(|(_, y)| y * y).sum::<f64>();
    let scaled: Vec<_> = theirs.data.iter().map(|y| y * factor).collect();
    // A factor of 0 would say that ours are all 0.
    (factor.is_finite() && factor != 0.0 && same(&ours.data, &scaled)).then_some(factor)
}
