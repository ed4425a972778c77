use super::twin::{ALL, Of, compare, lists, run, run_as, slow_backward, upstream};
use super::*;
use crate::element::{bf16, f16};
use crate::kernel::attention::properties::{Parts, sizes as random_sizes};
use crate::kernel::attention::twin::{Case, case, repeated, slow};
use crate::kernel::attention::{Band, Diagonal};
use crate::kernel::layout::Layout;
use crate::kernel::testing::{Block, Rng, bits, in_pools, rounding};

#[test]
fn gradients_match_the_formulas_for_random_settings() {
    let mut rng = Rng::new(60);
    for round in 0..if cfg!(debug_assertions) { 14 } else { 150 } {
        let mut sizes = random_sizes(&mut rng);
        sizes[5] = 1 + sizes[5] % 40;
        sizes[6] = 1 + sizes[6] % 40;
        let seed = rng.next();
        for of in ALL {
            let mut rng = Rng::new(seed);
            let double = case::<f64>(&mut rng, sizes);
            let parts = Parts::<f64>::all(&mut rng, double.dims(), sizes[6]);
            let up = upstream(&mut rng, &double, of);
            let (mask, settings) = (parts.mask(), parts.settings(double.scale));
            let exact = slow_backward(&double, &settings, &mask, (of, &up));
            for isa in Isa::tried(round) {
                let found = run(isa, &double, &settings, &mask, (of, up.view()));
                compare(&found, &exact, 1e-10, &format!("f64 {of:?} {isa:?} {round}"));
            }
            let mut rng = Rng::new(seed);
            let single = case::<f32>(&mut rng, sizes);
            let parts = Parts::<f32>::all(&mut rng, single.dims(), sizes[6]);
            let up = upstream(&mut rng, &single, of);
            for isa in Isa::tried(round + 1) {
                let (mask, settings) = (parts.mask(), parts.settings(single.scale));
                let found = run(isa, &single, &settings, &mask, (of, up.view()));
                compare(&found, &exact, 3e-5, &format!("f32 {of:?} {isa:?} {round}"));
            }
        }
    }
}

/// The formulas themselves, against differences of the forward twin.
#[test]
fn the_formulas_are_the_differences_of_the_forward_pass() {
    let mut rng = Rng::new(61);
    for round in 0..if cfg!(debug_assertions) { 20 } else { 100 } {
        let sizes =
            [1 + rng.below(2), 2, 1 + rng.below(2), 1 + rng.below(4), 1 + rng.below(6), 2, 3];
        let mut case = case::<f64>(&mut rng, sizes);
        let parts = Parts::<f64>::all(&mut rng, case.dims(), 3);
        let (mask, settings) = (parts.mask(), parts.settings(case.scale));
        let of = ALL[round % 4];
        let up = upstream(&mut rng, &case, of);
        let exact = slow_backward(&case, &settings, &mask, (of, &up));
        let [b, h, q, _] = case.dims();
        let loss = |case: &Case<f64>| {
            let [out, weights, log_sums, scores] = slow(case.views(), &settings, &mask);
            let by_head = |i: usize| {
                let (row, c) = (i / 3, i % 3);
                let (b, h, i) = (row / q / h, row / q % h, row % q);
                out[((b * q + i) * sizes[1] + h) * 3 + c]
            };
            let numbers = match of {
                Of::Out => (0..b * h * q * 3).map(by_head).collect(),
                Of::LogSums => log_sums,
                Of::Weights => weights,
                Of::Scores => scores,
            };
            // What is hidden, and the sum of nothing, is −∞.
            let seen = up.data.iter().zip(numbers).filter(|(_, x)| x.is_finite());
            seen.map(|(up, x)| up * x).sum::<f64>()
        };
        for (which, gradient) in [&exact.q, &exact.k, &exact.v].into_iter().enumerate() {
            for (i, &exact) in gradient.iter().enumerate() {
                let x = case.x[which].data[i];
                let step = 1e-5;
                let mut side = |sign: f64| {
                    case.x[which].data[i] = x + sign * step;
                    loss(&case)
                };
                let slope = (side(1.0) - side(-1.0)) / (2.0 * step);
                case.x[which].data[i] = x;
                assert!(
                    (slope - exact).abs() <= 1e-6 * exact.abs().max(1.0),
                    "{round} {which} {i}: {slope} {exact}"
                );
            }
        }
    }
}

#[test]
fn gradients_of_parts_of_one_tensor_lie_where_the_parts_do() {
    let mut rng = Rng::new(64);
    for [b, h, n, d] in [[2, 3, 70, 24], [1, 1, 1, 1], [4, 4, 4, 4], [2, 3, 0, 5], [0, 2, 3, 4]] {
        let case = case::<f32>(&mut rng, [b, h, h, n, n, d, d]);
        let up = upstream(&mut rng, &case, Of::Out);
        let settings = Settings::scaled(case.scale);
        for isa in Isa::all() {
            let [apart, together] = [false, true].map(|together| {
                run_as(together, isa, &case, &settings, &Mask::NONE, (Of::Out, up.view()))
            });
            assert_eq!(together.q.len(), b * n * 3 * h * d);
            for (i, x) in [apart.q, apart.k, apart.v].iter().enumerate() {
                let at = |b: usize, h_: usize, n_: usize| ((b * n + n_) * 3 + i) * h * d + h_ * d;
                for (row, x) in x.chunks_exact(d).enumerate() {
                    let at = at(row / n / h, row / n % h, row % n);
                    assert_eq!(bits(&together.q[at..at + d]), bits(x), "{i} {row}");
                }
            }
        }
    }
}

#[test]
fn strides_and_threads_change_no_bit() {
    let mut rng = Rng::new(62);
    let sizes = [[2, 4, 2, 150, 170, 24, 20], [1, 2, 2, 70, 70, 33, 8]];
    for (sizes, of) in sizes.into_iter().flat_map(|sizes| ALL.map(|of| (sizes, of))) {
        let case = case::<f32>(&mut rng, sizes);
        let parts = Parts::<f32>::all(&mut rng, case.dims(), sizes[6]);
        let up = upstream(&mut rng, &case, of);
        let all = |case: &Case<f32>, up: &Block<f32>| -> Vec<u64> {
            let (mask, settings) = (parts.mask(), parts.settings(case.scale));
            let found = run(Isa::best(), case, &settings, &mask, (of, up.view()));
            lists(&found).into_iter().flat_map(|(_, x)| x).map(f64::to_bits).collect()
        };
        let expected = in_pools(|| all(&case, &up));
        for kind in 0..3 {
            let other = Case { x: [0, 1, 2].map(|i| case.x[i].scattered(kind)), scale: case.scale };
            assert!(all(&other, &up.scattered(kind)) == expected);
        }
    }
}

/// As the gradient of a sum does.
#[test]
fn a_gradient_that_repeats_gives_what_its_copy_gives() {
    let mut rng = Rng::new(66);
    for of in [Of::Out, Of::Weights, Of::Scores] {
        let case = case::<f32>(&mut rng, [2, 4, 2, 20, 30, 17, 24]);
        let up = upstream(&mut rng, &case, of);
        for axes in 1..16 {
            let axes = [1, 2, 4, 8].map(|bit| axes & bit != 0);
            let [shown, copy] = repeated(&up, axes).map(|up| {
                let settings = Settings::scaled(case.scale);
                let found = run(Isa::best(), &case, &settings, &Mask::NONE, (of, up.view()));
                lists(&found).into_iter().flat_map(|(_, x)| x).map(f64::to_bits).collect::<Vec<_>>()
            });
            assert!(shown == copy, "{of:?} {axes:?}");
        }
    }
}

/// What many heads give nearly cancels: were each head's part rounded, more would be lost than the last
/// digit of what is left.
#[test]
fn gradients_of_shared_heads_are_rounded_when_they_have_been_added() {
    check::<f16>();
    check::<bf16>();

    fn check<E: Float>() {
        for (round, sizes) in [[1, 32, 1, 3, 4, 6, 5], [2, 16, 2, 70, 9, 4, 4]].iter().enumerate() {
            for (of, isa) in [Of::Out, Of::LogSums, Of::Scores]
                .into_iter()
                .flat_map(|of| Isa::tried(round).into_iter().map(move |isa| (of, isa)))
            {
                let mut rng = Rng::new(65);
                let case = case::<E>(&mut rng, *sizes);
                let up = upstream(&mut rng, &case, of);
                let found =
                    run(isa, &case, &Settings::scaled(case.scale), &Mask::NONE, (of, up.view()));
                let exact = slow_backward(
                    &Case { x: case.x.each_ref().map(widened), scale: case.scale },
                    &Settings::scaled(case.scale),
                    &Mask::NONE,
                    (of, &widened(&up)),
                );
                // The output is rounded, and the gradient of the keys is made with it.
                let (found, exact) = match of {
                    Of::Out => (found.v, exact.v),
                    _ => (found.k, exact.k),
                };
                let largest = exact.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
                for (found, exact) in found.iter().zip(&exact) {
                    let allowed = rounding::<E>(*exact) + 3e-6 * largest;
                    let error = (found.to_f64() - exact).abs();
                    assert!(error <= allowed, "{} {of:?} {isa:?}: {found:?} {exact}", E::NAME);
                }
            }
        }
    }

    fn widened<E: Float>(x: &Block<E>) -> Block<f64> {
        Block { data: x.data.iter().map(|x| x.to_f64()).collect(), layout: x.layout }
    }
}

#[test]
fn hidden_numbers_reach_no_gradient() {
    ALL.into_iter().for_each(hidden_numbers_reach_none);
}

fn hidden_numbers_reach_none(of: Of) {
    let mut rng = Rng::new(63);
    let sizes = [1, 2, 1, 70, 150, 9, 12];
    let mut case = case::<f32>(&mut rng, sizes);
    let keep: Vec<bool> = (0..150).map(|key| key % 5 != 2).collect();
    let layout = Layout::packed(&[150]).broadcast(&case.dims(), &[3]);
    let mask = Mask { keep: vec![View { data: &keep, layout }], ..Mask::NONE };
    let settings = Settings::scaled(case.scale);
    let mut up = upstream(&mut rng, &case, of);
    let clean = run(Isa::best(), &case, &settings, &mask, (of, up.view()));
    if matches!(of, Of::Weights | Of::Scores) {
        let hidden = up.data.iter_mut().enumerate().filter(|(i, _)| !keep[i % 150]);
        hidden.for_each(|(_, up)| *up = f32::NAN);
    }
    for key in (0..150).filter(|key| !keep[*key]) {
        let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][key % 3];
        case.x[1].data[key * 9 + key % 9] = bad;
        case.x[2].data[key * 12 + key % 12] = bad;
    }
    let dirty = run(Isa::best(), &case, &settings, &mask, (of, up.view()));
    for ((name, clean), (_, dirty)) in lists(&clean).into_iter().zip(lists(&dirty)) {
        let as_bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(as_bits(&clean), as_bits(&dirty), "{name}");
    }
    for (key, row) in dirty.k.chunks(9).enumerate().filter(|(key, _)| !keep[*key]) {
        assert!(row.iter().all(|&x| x == 0.0), "{key}");
    }
    assert!(bits(&dirty.q).iter().any(|&x| x != 0));
}

// pytorch/pytorch#41508
#[test]
fn a_query_that_sees_nothing_has_no_gradient() {
    let block =
        |data: &[f64], dims: &[usize]| Block { data: data.to_vec(), layout: Layout::packed(dims) };
    let case = Case {
        x: [
            block(&[1.0, 1.0], &[1, 1, 2, 1]),
            block(&[1.0, 2.0], &[1, 1, 2, 1]),
            block(&[5.0, 7.0], &[1, 1, 2, 1]),
        ],
        scale: 1.0,
    };
    let keep = [true, false, false, false];
    let layout = Layout::packed(&[2, 2]).broadcast(&case.dims(), &[2, 3]);
    let mask = Mask { keep: vec![View { data: &keep, layout }], ..Mask::NONE };
    let up = block(&[1.0, 1.0], &[1, 1, 2, 1]);
    for isa in Isa::all() {
        let found = run(isa, &case, &Settings::scaled(1.0), &mask, (Of::Out, up.view()));
        assert_eq!(found.v, [1.0, 0.0]);
        assert_eq!(found.q, [0.0, 0.0]);
        assert_eq!(found.k, [0.0, 0.0]);
    }
}

#[test]
fn empty_axes_give_empty_gradients_or_zeros() {
    let mut rng = Rng::new(64);
    for sizes in [
        [0, 2, 1, 3, 4, 2, 3],
        [2, 2, 1, 0, 4, 2, 3],
        [2, 2, 1, 3, 0, 2, 3],
        [1, 2, 1, 3, 4, 0, 3],
        [1, 2, 2, 3, 4, 2, 0],
    ] {
        let case = case::<f32>(&mut rng, sizes);
        let mask = Mask {
            bands: vec![Band::Diagonal(Diagonal { ahead: Some(0), ..Diagonal::ALL })],
            ..Mask::NONE
        };
        for of in ALL {
            let up = upstream(&mut rng, &case, of);
            let found = run(Isa::best(), &case, &Settings::scaled(1.0), &mask, (of, up.view()));
            assert_eq!(found.q.len(), case.x[0].data.len());
            assert_eq!(found.k.len(), case.x[1].data.len());
            let values = if of == Of::Out { case.x[2].data.len() } else { 0 };
            assert_eq!(found.v.len(), values);
            assert!(found.q.iter().chain(&found.k).all(|x| x.is_finite()));
        }
    }
}
