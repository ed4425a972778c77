//! Gates: the activation of one half of a row times its other half.

use super::parallel::{for_each_chunk, lines_in_piece};
use super::wide::through_wide;
use crate::element::Float;

/// Operations for each element, roughly.
const COST: usize = 8;

/// activation(gate) · up, in the place of the gate, for rows of `width` gates and as many ups. What is
/// left in the place of the ups is of no use.
pub(crate) fn gate_in_place<E: Float>(
    rows: &mut [E],
    width: usize,
    activation: fn(&mut [E::Wide]),
) {
    let row = 2 * width;
    let (group, work) = (lines_in_piece(row) * row, rows.len() * COST);
    for_each_chunk(rows, group, work, |_, chunk| {
        // Without width there are no rows, and no chunk is visited.
        for row in chunk.chunks_exact_mut(row) {
            let (gates, ups) = row.split_at_mut(width);
            through_wide(gates, |gates| {
                activation(gates);
                gates.iter_mut().zip(ups).for_each(|(gate, up)| *gate *= up.wide());
            });
        }
    });
}

/// The gradients of the gates and ups in `rows` of `width` gates and as many ups, given those of
/// activation(gate) · up, one row after the other.
pub(crate) fn gate_backward<E: Float>(
    rows: &[E],
    gradient: &[E],
    width: usize,
    activation: fn(&mut [E::Wide]),
    slope: fn(&[E::Wide], &mut [E::Wide]),
) -> Vec<E> {
    let row = 2 * width;
    let mut out = rows.to_vec();
    assert_eq!(out.len(), 2 * gradient.len());
    let (lines, work) = (lines_in_piece(row), rows.len() * COST);
    for_each_chunk(&mut out, lines * row, work, |i, chunk| {
        for (line, out) in chunk.chunks_exact_mut(row).enumerate() {
            let at = i * lines + line;
            let (gates, ups) = rows[at * row..][..row].split_at(width);
            let (of_gates, of_ups) = out.split_at_mut(width);
            let g = &gradient[at * width..][..width];
            of_ups.copy_from_slice(gates);
            through_wide(of_ups, |of_ups| {
                through_wide(of_gates, |of_gates| {
                    for ((out, g), up) in of_gates.iter_mut().zip(g).zip(ups) {
                        *out = g.wide() * up.wide();
                    }
                    slope(of_ups, of_gates);
                });
                activation(of_ups);
                of_ups.iter_mut().zip(g).for_each(|(out, g)| *out *= g.wide());
            });
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, in_pools};

    #[test]
    fn each_row_is_its_activated_gate_times_its_up() {
        let mut rng = Rng::new(50);
        for (rows, width) in [(1, 1), (3, 5), (700, 33), (2, 9000), (4, 0), (0, 3)] {
            let data = rng.values::<f64>(rows * 2 * width);
            let twice = |gates: &mut [f64]| gates.iter_mut().for_each(|gate| *gate += *gate);
            let result = in_pools(|| {
                let mut data = data.clone();
                gate_in_place(&mut data, width, twice);
                data
            });
            for row in 0..rows {
                for i in 0..width {
                    let at = row * 2 * width + i;
                    assert_eq!(result[at], 2.0 * data[at] * data[at + width]);
                }
            }
        }
    }

    #[test]
    fn the_gradient_of_each_row_is_that_of_its_product() {
        let mut rng = Rng::new(51);
        for (rows, width) in [(1, 1), (3, 5), (700, 33), (4, 0), (0, 3)] {
            let (data, g) = (rng.values::<f64>(rows * 2 * width), rng.values::<f64>(rows * width));
            let square = |x: &mut [f64]| x.iter_mut().for_each(|x| *x *= *x);
            let slope = |x: &[f64], g: &mut [f64]| {
                g.iter_mut().zip(x).for_each(|(g, x)| *g *= 2.0 * x);
            };
            let result = in_pools(|| gate_backward(&data, &g, width, square, slope));
            for (i, g) in g.iter().enumerate() {
                let at = i / width * 2 * width + i % width;
                let (gate, up) = (data[at], data[at + width]);
                assert!((result[at] - 2.0 * gate * up * g).abs() < 1e-14);
                assert!((result[at + width] - gate * gate * g).abs() < 1e-14);
            }
        }
    }
}
