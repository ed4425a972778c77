use super::*;
use crate::kernel::gemm::{Matrix, gemm};
use crate::kernel::layout::{Layout, View};
use crate::kernel::simd::Isa;
use crate::kernel::testing::Rng;

/// The processor's tiles, if it has them.
fn tiles() -> Option<Isa> {
    let isa = Isa::all().into_iter().find(|isa| isa.has_tiles());
    if isa.is_none() {
        eprintln!("this processor has no tiles: nothing was tested");
    }
    isa
}

/// What a panel holds of row `p` and a column.
fn at(p: usize, column: usize) -> usize {
    let (step, tile) = (p / DEPTH, column / SIDE);
    (2 * step + tile) * OPERAND + p % DEPTH / 2 * DEPTH + 2 * (column % SIDE) + p % 2
}

#[test]
fn panels_hold_the_matrix_whichever_way_it_lies() {
    let Some(isa) = tiles() else { return };
    let data: Vec<bf16> = Rng::new(50).values(40_000);
    for (k, columns) in [(1, 1), (2, 3), (31, 16), (32, 32), (33, 31), (64, 17), (100, 32)] {
        for (row, column) in [(40, 1), (1, 120), (1, 121), (80, 2), (3, 0)] {
            let from = Matrix { data: &data, at: 5, row, column };
            let mut to = vec![bf16::NAN; depth(k) * SIZE[1]];
            pack_panel(isa, from, (k, columns), &mut to);
            for p in 0..depth(k) {
                for c in 0..SIZE[1] {
                    let inside = p < k && c < columns;
                    let expected = if inside { data[5 + p * row + c * column] } else { bf16::ZERO };
                    assert_eq!(to[at(p, c)], expected, "{k} x {columns}: {p} {c}");
                }
            }
        }
    }
}

#[test]
fn left_hand_sides_are_turned_or_copied_and_filled_up() {
    let Some(isa) = tiles() else { return };
    let data: Vec<bf16> = Rng::new(51).values(40_000);
    for (rows, columns) in [(1, 1), (31, 16), (32, 32), (33, 31), (64, 17), (100, 70)] {
        for (row, column) in [(100, 1), (1, 120), (200, 2)] {
            let from = Matrix { data: &data, at: 5, row, column };
            let expected = |p: usize, c: usize| match p < rows && c < columns {
                true => data[5 + p * row + c * column],
                false => bf16::ZERO,
            };
            let (depth_of_rows, all) = (depth(rows), columns.next_multiple_of(SIZE[0]));
            let mut turned = vec![bf16::NAN; all * depth_of_rows];
            pack_transposed(isa, from, (rows, columns), &mut turned);
            for (i, &x) in turned.iter().enumerate() {
                assert_eq!(x, expected(i % depth_of_rows, i / depth_of_rows), "turned {i}");
            }
            let mut copied = vec![bf16::NAN; (rows + 3) * depth(columns)];
            copy_rows(isa, from, (rows, columns), &mut copied);
            for (i, &x) in copied.iter().enumerate() {
                assert_eq!(x, expected(i / depth(columns), i % depth(columns)), "copied {i}");
            }
        }
    }
}

#[test]
fn rows_are_rounded_to_the_nearest_and_packed() {
    let Some(isa) = tiles() else { return };
    for (rows, width) in [(1, 32), (2, 64), (31, 32), (96, 64), (128, 192)] {
        let from: Vec<f32> = Rng::new(52).values(rows * width);
        let mut to = vec![bf16::NAN; depth(rows) * width];
        pack_rounded(isa, &from, (rows, width), &mut to);
        for p in 0..depth(rows) {
            for c in 0..width {
                let expected =
                    if p < rows { bf16::from_f32(from[p * width + c]) } else { bf16::ZERO };
                let panel = c / SIZE[1] * SIZE[1] * depth(rows);
                assert_eq!(to[panel + at(p, c % SIZE[1])], expected, "{rows} x {width}: {p} {c}");
            }
        }
    }
}

/// Products added to a sum in order. Of small whole numbers, no sum is rounded.
fn twin(a: &[bf16], b: impl Fn(usize) -> bf16, mut sum: f32) -> f32 {
    for (pair, a) in a.chunks_exact(2).enumerate() {
        let product = |i: usize| a[i].to_f32() * b(2 * pair + i).to_f32();
        sum += product(0);
        sum += product(1);
    }
    sum
}

#[test]
fn panels_are_multiplied_for_every_number_of_rows() {
    let Some(isa) = tiles() else { return };
    let mut rng = Rng::new(53);
    let mut whole = |count: usize| -> Vec<bf16> {
        (0..count).map(|_| bf16::from_f32(rng.below(17) as f32 - 8.0)).collect()
    };
    for (rows, width, k) in
        [(1usize, 32, 32), (15, 64, 64), (16, 32, 32), (17, 96, 96), (40, 64, 32)]
    {
        let all = rows.next_multiple_of(SIDE);
        let (a, b) = (whole(all * k), whole(width * k));
        for add in [false, true] {
            let before: Vec<f32> = whole(all * width).into_iter().map(bf16::to_f32).collect();
            let mut sums = before.clone();
            // The second panel of columns goes half as far.
            let used = |panel: usize| if panel == 1 { k / 2 } else { k };
            let size = |panel: usize| [if panel == 1 { rows.min(3) } else { rows }, used(panel)];
            let of = Panels { rows: &a, panels: &b, depth: k, size: &size };
            // SAFETY: nothing else uses tiles meanwhile.
            unsafe { Tiles::hold(isa) }.multiply(of, &mut sums, width, add);
            for row in 0..rows {
                for c in 0..width {
                    let panel = c / SIZE[1];
                    if row >= size(panel)[0] {
                        continue;
                    }
                    let used = depth(used(panel)).min(k);
                    let b = |p: usize| b[panel * SIZE[1] * k + at(p, c % SIZE[1])];
                    let start = if add { before[row * width + c] } else { 0.0 };
                    let expected = twin(&a[row * k..][..used], b, start);
                    assert_eq!(
                        sums[row * width + c],
                        expected,
                        "{rows} x {width} x {k}: {row} {c}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_product_over_nothing_is_the_bias_for_any_number_of_rows() {
    for rows in [1, 31, 65, 200] {
        let nothing = |dims| View { data: &[][..], layout: Layout::packed(dims) };
        let bias: Vec<bf16> = Rng::new(54).values(40);
        let out = gemm(nothing(&[rows, 0]), nothing(&[0, 40]), Some(&bias));
        assert_eq!(out, bias.repeat(rows));
    }
}

#[test]
fn nan_and_infinities_stay_in_their_row_and_column() {
    let Some(isa) = tiles() else { return };
    let (k, width) = (32, 32);
    let mut a = vec![bf16::ONE; 32 * k];
    let mut b = vec![bf16::ONE; width * k];
    a[3 * k + 7] = bf16::NAN;
    a[20 * k] = bf16::INFINITY;
    b[at(9, 30)] = bf16::NEG_INFINITY;
    let mut sums = vec![0.0; 32 * width];
    let of = Panels { rows: &a, panels: &b, depth: k, size: &|_| [32, k] };
    // SAFETY: nothing else uses tiles meanwhile.
    unsafe { Tiles::hold(isa) }.multiply(of, &mut sums, width, false);
    for (i, &sum) in sums.iter().enumerate() {
        match (i / width, i % width) {
            (3, _) | (20, 30) => assert!(sum.is_nan()),
            (20, _) => assert_eq!(sum, f32::INFINITY),
            (_, 30) => assert_eq!(sum, f32::NEG_INFINITY),
            _ => assert_eq!(sum, 32.0),
        }
    }
}
