//! Operands brought into the order in which tiles read them.
//!
//! B is cut into panels of a tile's columns, A into panels of a tile's rows; within a panel the
//! numbers of one k are neighbours. What is missing in the last panel of B is filled with 0: those
//! columns are computed and dropped. Copying is blocked so that reads and writes both stay in few
//! cache lines, whichever way the matrix lies.

use crate::element::{Element, Float};
use crate::kernel::simd::elements::{load, widen};
use crate::kernel::simd::{MAX_LANES, Vector};

/// A matrix within a buffer.
#[derive(Debug)]
pub(crate) struct Matrix<'a, E> {
    pub(crate) data: &'a [E],
    pub(crate) at: usize,
    /// From one row to the next.
    pub(crate) row: usize,
    /// From one column to the next.
    pub(crate) column: usize,
}

impl<E> Clone for Matrix<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Matrix<'_, E> {}

impl<E> Matrix<'_, E> {
    /// The part from `row` and `column` on.
    #[inline(always)]
    pub(crate) fn from(self, row: usize, column: usize) -> Self {
        Matrix { at: self.at + row * self.row + column * self.column, ..self }
    }

    #[inline(always)]
    pub(crate) fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// How far a transposing copy follows a source line before it turns to the next.
const STRIP: usize = 16;

/// Writes the `k` × `columns` matrix `from` as rows of `width` elements, the rest of each row 0.
#[inline(always)]
pub(crate) fn pack_panel<E: Element, T: Copy + Default>(
    from: Matrix<E>,
    (k, columns): (usize, usize),
    width: usize,
    to: &mut [T],
    load: impl Fn(E) -> T,
) {
    let to = &mut to[..k * width];
    if columns < width {
        to.fill(T::default());
    }
    if k == 0 || columns == 0 {
        return;
    }
    if from.column == 1 {
        let copy = |columns: usize, to: &mut [T]| {
            for (p, to) in to.chunks_exact_mut(width).enumerate() {
                let row = &from.data[from.at + p * from.row..][..columns];
                for (to, &x) in to[..columns].iter_mut().zip(row) {
                    *to = load(x);
                }
            }
        };
        // Whole rows have a length that the compiler knows.
        return if columns == width { copy(width, to) } else { copy(columns, to) };
    }
    for (strip, to) in to.chunks_mut(STRIP * width).enumerate() {
        let first = from.from(strip * STRIP, 0);
        let rows = to.len() / width;
        for column in 0..columns {
            let line = &first.data[first.at + column * first.column..];
            let to = to[column..].iter_mut().step_by(width);
            match from.row {
                // Repeated along k.
                0 => to.for_each(|to| *to = load(line[0])),
                1 => to.zip(&line[..rows]).for_each(|(to, &x)| *to = load(x)),
                row => to.zip(line.iter().step_by(row)).for_each(|(to, &x)| *to = load(x)),
            }
        }
    }
}

/// As [`pack_panel`] into wide numbers, and by blocks of vectors where the columns are the lines of
/// `from`'s memory.
///
/// # Safety
///
/// The processor has the instruction set of `V`, and the matrix lies within its buffer.
#[inline(always)]
pub(crate) unsafe fn pack_panel_wide<V: Vector, E: Float<Wide = V::Scalar>>(
    from: Matrix<E>,
    (k, columns): (usize, usize),
    width: usize,
    to: &mut [V::Scalar],
) {
    let (k_blocks, column_blocks) = (k / V::LANES * V::LANES, columns / V::LANES * V::LANES);
    let whole = columns == width && width.is_multiple_of(V::LANES);
    if from.column == 1 && whole {
        for (p, to) in to[..k * width].chunks_exact_mut(width).enumerate() {
            // SAFETY: the instruction set is the caller's.
            unsafe { widen::<E, V>(&from.data[from.from(p, 0).at..][..width], to) };
        }
        return;
    }
    if from.row != 1 || k_blocks == 0 || column_blocks != width {
        return pack_panel(from, (k, columns), width, to, E::wide);
    }
    let to = &mut to[..k * width];
    for column in (0..column_blocks).step_by(V::LANES) {
        for p in (0..k_blocks).step_by(V::LANES) {
            let block = &from.data[from.from(p, column).at..];
            let to = to[p * width + column..].as_mut_ptr();
            // SAFETY: the instruction set and the matrix are the caller's; rows and columns of the
            // block lie within both.
            unsafe { transpose::<E, V>(block, from.column, to, width) }
        }
    }
    let rest = from.from(k_blocks, 0);
    pack_panel(rest, (k - k_blocks, columns), width, &mut to[k_blocks * width..], E::wide);
}

/// As [`pack_panel`] into wide numbers, where it is rows that lie in memory by vectors.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn copy_rows<E: Float, V: Vector<Scalar = E::Wide>>(
    from: Matrix<E>,
    (rows, columns): (usize, usize),
    width: usize,
    to: &mut [E::Wide],
) {
    if from.column != 1 || width == 0 {
        return pack_panel(from, (rows, columns), width, to, E::wide);
    }
    for (row, to) in to[..rows * width].chunks_exact_mut(width).enumerate() {
        to[columns..].fill(E::Wide::default());
        // SAFETY: the caller's.
        unsafe { widen::<E, V>(&from.data[from.from(row, 0).at..][..columns], to) };
    }
}

/// As [`Vector::transpose`], of the block at the start of `from`.
///
/// # Safety
///
/// As there.
#[inline(always)]
unsafe fn transpose<E: Float, V: Vector<Scalar = E::Wide>>(
    from: &[E],
    row: usize,
    to: *mut E::Wide,
    to_row: usize,
) {
    // SAFETY: the caller's; the copy has room for a block.
    unsafe {
        if let Some(wide) = E::as_wide(from) {
            return V::transpose(wide.as_ptr(), row, to, to_row);
        }
        let mut block = [E::Wide::default(); MAX_LANES * MAX_LANES];
        for i in 0..V::LANES {
            let line = load::<E, V>(from.as_ptr().add(i * row));
            line.store(block.as_mut_ptr().add(i * V::LANES));
        }
        V::transpose(block.as_ptr(), V::LANES, to, to_row);
    }
}

/// Writes the `rows` × `k` matrix `from` as panels of `height` rows. Rows that are missing in the
/// last panel keep what was there.
#[inline(always)]
pub(crate) fn pack_rows<E: Element, T: Copy + Default>(
    from: Matrix<E>,
    (rows, k): (usize, usize),
    height: usize,
    to: &mut [T],
    load: impl Fn(E) -> T + Copy,
) {
    for (panel, to) in to.chunks_exact_mut((height * k).max(1)).enumerate() {
        let first = panel * height;
        if first >= rows {
            return;
        }
        let columns = height.min(rows - first);
        pack_panel(from.from(first, 0).transposed(), (k, columns), height, to, load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_hold_the_matrix_whichever_way_it_lies() {
        let data: Vec<i32> = (0..400).collect();
        for (row, column) in [(20, 1), (1, 20), (40, 2), (0, 1), (3, 0), (0, 20), (0, 0)] {
            let from = Matrix { data: &data, at: 5, row, column };
            let mut to = vec![-1; 19 * 4];
            pack_panel(from, (19.min(395 / row.max(1)), 3), 4, &mut to, |x| x);
            for p in 0..19.min(395 / row.max(1)) {
                for c in 0..3 {
                    assert_eq!(to[p * 4 + c], data[5 + p * row + c * column]);
                }
                assert_eq!(to[p * 4 + 3], 0);
            }
        }
    }
}
