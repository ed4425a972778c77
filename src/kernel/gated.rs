//! Gates: the activation of one half of a row times its other half.

use super::parallel::for_each_chunk;
use crate::element::Float;

/// Elements in one piece of work, unless a single row is longer.
const GROUP: usize = 1 << 14;
/// Operations for each element, roughly.
const COST: usize = 8;

/// activation(gate) · up, in the place of the gate, for rows of `width` gates and as many ups. What is
/// left in the place of the ups is of no use.
pub(crate) fn gate_in_place<E: Float>(rows: &mut [E], width: usize, activation: fn(&mut [E])) {
    let row = 2 * width;
    let (group, work) = ((GROUP / row.max(1)).max(1) * row, rows.len() * COST);
    for_each_chunk(rows, group, work, |_, chunk| {
        // Without width there are no rows, and no chunk is visited.
        for row in chunk.chunks_exact_mut(row) {
            let (gates, ups) = row.split_at_mut(width);
            activation(gates);
            for (gate, up) in gates.iter_mut().zip(ups) {
                *gate = E::narrow(gate.wide() * up.wide());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

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
            assert_eq!(bits(&result).len(), rows * 2 * width);
        }
    }
}
