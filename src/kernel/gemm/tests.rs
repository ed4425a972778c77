use super::*;
use crate::element::{bf16, f16};
use crate::kernel::layout::Dims;
use crate::kernel::testing::{Block, Rng, bits, in_pools, rounding, slow_pack};

/// Products with more multiplications are left to optimized builds.
const LARGE: usize = if cfg!(debug_assertions) { 20_000 } else { usize::MAX / 100 };

/// The twin: sums in f64, and what a plain loop in the type itself would be off by.
fn slow<E: Float>(a: &Block<E>, b: &Block<E>, bias: Option<&[E]>) -> Vec<(f64, f64)> {
    let rank = a.layout.rank();
    let (m, k) = (a.layout.dims[rank - 2], a.layout.dims[rank - 1]);
    let n = b.layout.dims[rank - 1];
    let (a, b) = (a.pack(), b.pack());
    let mut out = Vec::new();
    for product in 0..a.len().checked_div(m * k).unwrap_or(0) {
        for row in 0..m {
            for column in 0..n {
                let terms = (0..k)
                    .map(|p| (a[(product * m + row) * k + p], b[(product * k + p) * n + column]));
                let mut exact = bias.map_or(0.0, |bias| bias[column].to_f64());
                let (mut size, mut plain) = (exact.abs(), E::from_f64(0.0).wide());
                for (a, b) in terms {
                    exact += a.to_f64() * b.to_f64();
                    size += (a.to_f64() * b.to_f64()).abs();
                    plain += a.wide() * b.wide();
                }
                let plain = plain.to_f64() + bias.map_or(0.0, |bias| bias[column].to_f64());
                let unit = if E::NAME == "f64" { 1.2e-16 } else { 6e-8 };
                let allowed = 2.0 * (plain - exact).abs() + 4.0 * unit * size;
                out.push((exact, allowed + rounding::<E>(exact.abs() + allowed)));
            }
        }
    }
    out
}

fn check<E: Float>(dims: [usize; 4], rng: &mut Rng) {
    let [batch, m, k, n] = dims;
    let (a, b) = (rng.block::<E>(&[batch, m, k]), rng.block::<E>(&[batch, k, n]));
    let bias = rng.values::<E>(n);
    let layout = Layout::packed(&[batch, m, n]);
    for isa in Isa::tried(dims.iter().sum()) {
        for bias in [None, Some(&bias[..])] {
            let epilogue = Epilogue::bias(bias);
            let mut out = vec![E::from_f64(f64::NAN); batch * m * n];
            gemm_into(isa, a.view(), b.view(), epilogue, &mut out, &layout);
            for (i, (actual, (exact, allowed))) in out.iter().zip(slow(&a, &b, bias)).enumerate() {
                let error = (actual.to_f64() - exact).abs();
                assert!(error <= allowed, "{isa:?} {dims:?} {i}: {actual:?} {exact} {allowed}");
            }
            for kind in 0..3 {
                let (a, b) = (a.scattered(kind), b.scattered((kind + 1) % 3));
                let mut other = Block { data: out.clone(), layout }.scattered(kind);
                other.data.fill(E::from_f64(7.0));
                gemm_into(isa, a.view(), b.view(), epilogue, &mut other.data, &other.layout);
                assert_eq!(bits(&other.pack()), bits(&out), "{isa:?} {dims:?} strides {kind}");
            }
        }
    }
}

#[test]
fn products_match_the_twin_for_odd_sizes_and_any_strides() {
    let mut rng = Rng::new(20);
    for m in [1, 2, 5, 6, 7, 13, 25, 100] {
        for n in [1, 3, 8, 15, 16, 17, 33, 70] {
            for k in [1, 2, 17, 64] {
                if m * n * k > LARGE {
                    continue;
                }
                check::<f32>([1, m, k, n], &mut rng);
                check::<f64>([1, m, k, n], &mut rng);
                check::<f16>([1, m, k, n], &mut rng);
                check::<bf16>([1, m, k, n], &mut rng);
            }
        }
    }
    for dims in
        [[3, 7, 400, 18], [2, 101, 385, 200], [2, 30, 769, 17], [5, 1, 1, 1], [1, 200, 30, 600]]
    {
        check::<f32>(dims, &mut rng);
        check::<f64>(dims, &mut rng);
        check::<f16>(dims, &mut rng);
        check::<bf16>(dims, &mut rng);
    }
}

#[test]
fn empty_sizes_give_the_bias_or_nothing() {
    let none = Block { data: Vec::<f32>::new(), layout: Layout::packed(&[2, 0]) };
    let nothing = Block { data: Vec::<f32>::new(), layout: Layout::packed(&[0, 3]) };
    let out = gemm(none.view(), nothing.view(), Some(&[1., 2., 3.]));
    assert_eq!(out, [1., 2., 3., 1., 2., 3.]);
    assert_eq!(gemm(none.view(), nothing.view(), None), [0.; 6]);
    assert_eq!(gemm_packed(none.view(), &pack_b(nothing.view()), Epilogue::NONE), [0.; 6]);
    let out = gemm(
        nothing.view(),
        Block { data: vec![1f32; 6], layout: Layout::packed(&[3, 2]) }.view(),
        None,
    );
    assert!(out.is_empty());
}

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    let mut rng = Rng::new(21);
    for isa in Isa::all() {
        for (k, n) in [(50, 33), (1000, 300)] {
            let (a, b) = (rng.block::<f32>(&[100, k]), rng.block::<f32>(&[k, n]));
            let mut all = vec![0f32; 100 * n];
            gemm_into(
                isa,
                a.view(),
                b.view(),
                Epilogue::NONE,
                &mut all,
                &Layout::packed(&[100, n]),
            );
            for row in [0, 5, 50, 99] {
                let a = View { data: &a.data, layout: a.layout.sliced(0, row, 1) };
                let mut one = vec![0f32; n];
                gemm_into(isa, a, b.view(), Epilogue::NONE, &mut one, &Layout::packed(&[1, n]));
                assert_eq!(bits(&one), bits(&all[row * n..][..n]));
            }
        }
    }
}

#[test]
fn batch_packing_and_threads_change_no_bit() {
    let mut rng = Rng::new(22);
    for (m, k, n) in [(9, 40, 20), (130, 400, 150), (40, 500, 700)] {
        if m * n * k > 100 * LARGE {
            continue;
        }
        let (a, b) = (rng.block::<f32>(&[4, 3, m, k]), rng.block::<f32>(&[k, n]));
        let (many, bias) = (rng.block::<f32>(&[4, 3, k, n]), rng.values::<f32>(n));
        let shared = View { data: &b.data, layout: b.layout.broadcast(&[4, 3, k, n], &[2, 3]) };
        let run = |a: View<f32>, b: View<f32>| bits(&gemm(a, b, Some(&bias)));
        let result = in_pools(|| run(a.view(), shared));
        let packed = pack_b(b.view());
        assert_eq!(packed.dims(), (k, n));
        let out = gemm_packed(a.scattered(0).view(), &packed.clone(), Epilogue::bias(Some(&bias)));
        assert_eq!(bits(&out), result);
        let each = in_pools(|| run(a.view(), many.view()));
        for i in 0..12 {
            let one = View { data: &a.data, layout: a.layout.at(0, i / 3).at(0, i % 3) };
            assert_eq!(run(one, b.view()), result[i * m * n..][..m * n]);
            let other = View { data: &many.data, layout: many.layout.at(0, i / 3).at(0, i % 3) };
            assert_eq!(run(one, other), each[i * m * n..][..m * n]);
        }
        let vector = View { data: &a.data[..k], layout: Layout::packed(&[k]) };
        let row = gemm_packed(vector, &packed, Epilogue::bias(Some(&bias)));
        assert_eq!(bits(&row), result[..n]);
    }
}

#[test]
fn a_matrix_may_repeat_along_some_batch_axes() {
    let mut rng = Rng::new(24);
    let (a, b) = (rng.block::<f32>(&[2, 3, 4, 5]), rng.block::<f32>(&[2, 1, 5, 6]));
    for at in [[0, 2, 3], [1, 2, 3]] {
        let batch = [2, 3][at[0]];
        let matrices = View { data: &b.data, layout: Layout::packed(&[batch.min(2), 5, 6]) };
        let mut full = matrices.layout.broadcast(&[2, 3, 5, 6], &at);
        if at[0] == 1 {
            full.strides[1] = 15;
        }
        let b = View { data: &b.data, layout: full };
        let out = gemm(a.view(), b, None);
        for i in 0..6 {
            let of = |view: View<'_, f32>| Block {
                data: slow_pack(View { layout: view.layout.at(0, i / 3).at(0, i % 3), ..view }),
                layout: Layout::packed(&view.layout.dims[2..]),
            };
            for (x, (exact, allowed)) in out[i * 24..].iter().zip(slow(&of(a.view()), &of(b), None))
            {
                assert!((f64::from(*x) - exact).abs() <= allowed);
            }
        }
    }
}

/// Strides of 0 along any axis of the matrices, beside neighbours, and lines that lie apart.
fn repeated_operands<E: Float>(rng: &mut Rng, [m, k, n]: [usize; 3]) {
    let data = rng.values::<E>(4 * (m + k) * (k + n));
    let view = |dims: [usize; 2], strides: [usize; 2]| View {
        data: &data,
        layout: Layout { dims: Dims::new(&dims), strides: Dims::new(&strides), offset: 3 },
    };
    let strides = |[rows, columns]: [usize; 2]| {
        [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [columns, 1], [1, rows]]
    };
    for (i, a_strides) in strides([m, k]).into_iter().enumerate() {
        for (j, b_strides) in strides([k, n]).into_iter().enumerate() {
            for isa in Isa::tried(i + j) {
                let (a, b) = (view([m, k], a_strides), view([k, n], b_strides));
                let [packed_a, packed_b] = [a, b].map(slow_pack);
                let layout = Layout::packed(&[m, n]);
                let run = |a, b| {
                    let mut out = vec![E::from_f64(f64::NAN); m * n];
                    gemm_into(isa, a, b, Epilogue::NONE, &mut out, &layout);
                    bits(&out)
                };
                let packed = run(
                    View { data: &packed_a, layout: Layout::packed(&[m, k]) },
                    View { data: &packed_b, layout: Layout::packed(&[k, n]) },
                );
                assert!(run(a, b) == packed, "{isa:?} {a_strides:?} {b_strides:?}");
            }
        }
    }
}

#[test]
fn operands_that_repeat_along_an_axis_give_what_their_copies_give() {
    let mut rng = Rng::new(26);
    for dims in [[3, 5, 7], [30, 17, 33], [25, 40, 200]] {
        if dims.iter().product::<usize>() > 10 * LARGE {
            continue;
        }
        repeated_operands::<f32>(&mut rng, dims);
        repeated_operands::<f64>(&mut rng, dims);
        repeated_operands::<f16>(&mut rng, dims);
        repeated_operands::<bf16>(&mut rng, dims);
    }
}

#[test]
fn an_activation_sees_each_finished_element_once() {
    let mut rng = Rng::new(23);
    for (m, k, n) in [(7, 5, 3), (1, 40, 17), (200, 30, 600), (9, 1100, 33)] {
        if m * n * k > 100 * LARGE {
            continue;
        }
        let (a, b) = (rng.block::<f32>(&[m, k]), pack_b(rng.block::<f32>(&[k, n]).view()));
        let bias = rng.values::<f32>(n);
        let activation: fn(&mut [f32]) = |row| row.iter_mut().for_each(|x| *x = 3.0 * *x + 1.0);
        let epilogue = Epilogue { bias: Some(&bias), activation: Some(activation) };
        let mut expected = gemm_packed(a.view(), &b, Epilogue::bias(Some(&bias)));
        activation(&mut expected);
        assert_eq!(in_pools(|| bits(&gemm_packed(a.view(), &b, epilogue))), bits(&expected));
    }
}

#[test]
#[should_panic(expected = "is_injective")]
fn outputs_that_overlap_are_refused() {
    let a = Block { data: vec![1f32; 4], layout: Layout::packed(&[2, 2]) };
    let mut layout = Layout::packed(&[2, 2]);
    layout.strides[0] = 1;
    gemm_into(Isa::best(), a.view(), a.view(), Epilogue::NONE, &mut [0.0; 4], &layout);
}
