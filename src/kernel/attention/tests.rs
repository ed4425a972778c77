use super::twin::{Case, case, causal, prefixed, repeated};
use super::*;
use crate::element::{bf16, f16};
use crate::kernel::layout::Layout;
use crate::kernel::testing::{Block, Rng, bits, in_pools};

#[test]
fn attention_matches_its_definition_for_odd_sizes() {
    let mut rng = Rng::new(30);
    for sizes in [
        [1, 1, 1, 1, 1, 1, 1],
        [2, 4, 2, 5, 7, 8, 3],
        [1, 2, 1, 65, 97, 16, 16],
        [2, 3, 3, 64, 96, 5, 17],
        [1, 2, 2, 130, 200, 64, 64],
        [1, 6, 2, 3, 300, 33, 40],
        [1, 1, 1, 17, 1, 2, 1],
    ] {
        let [.., queries, keys, _, _] = sizes;
        let (single, double) = (case::<f32>(&mut rng, sizes), case::<f64>(&mut rng, sizes));
        let (half, brain) = (case::<f16>(&mut rng, sizes), case::<bf16>(&mut rng, sizes));
        let end = keys as isize - queries as isize;
        let bands = [vec![], vec![causal(end)], vec![causal(0)], vec![causal(-3)]];
        let prefixes = [vec![prefixed(end, keys / 2), causal(end + 2)]];
        for bands in bands.into_iter().chain(prefixes) {
            single.check(&Mask { bands: bands.clone(), ..Mask::NONE });
            half.check(&Mask { bands: bands.clone(), ..Mask::NONE });
            brain.check(&Mask { bands: bands.clone(), ..Mask::NONE });
            double.check(&Mask { bands, ..Mask::NONE });
        }
    }
}

#[test]
fn masks_and_biases_combine() {
    let mut rng = Rng::new(31);
    for sizes in [
        [2, 4, 2, 70, 200, 8, 9],
        [2, 4, 2, 12, 5, 4, 4],
        [2, 2, 1, 3, 5, 4, 4],
        [2, 4, 2, 3, 530, 8, 9],
        [1, 4, 2, 1, 600, 16, 8],
    ] {
        let case = case::<f32>(&mut rng, sizes);
        let full @ [b, _, q, k] = case.dims();
        let padding: Vec<bool> = (0..b * k).map(|i| i % k < k - 1 - i / k * k / 2).collect();
        let pairs: Vec<bool> = (0..q * k).map(|_| rng.below(4) > 0).collect();
        let mut slopes = rng.values::<f32>(q * k);
        slopes.iter_mut().for_each(|x| *x = if *x < -1.5 { f32::NEG_INFINITY } else { *x });
        let view = |dims: &[usize], at: &[usize]| Layout::packed(dims).broadcast(&full, at);
        let padding = View { data: &padding, layout: view(&[b, k], &[0, 3]) };
        let pairs = View { data: &pairs, layout: view(&[q, k], &[2, 3]) };
        let slopes = View { data: &slopes, layout: view(&[q, k], &[2, 3]) };
        for keep in [vec![], vec![padding], vec![pairs], vec![padding, pairs]] {
            for bias in [vec![], vec![slopes], vec![slopes, slopes]] {
                for bands in [vec![], vec![causal(k as isize - q as isize)]] {
                    let (keep, bias) = (keep.clone(), bias.clone());
                    case.check(&Mask { keep, bands, bias, ..Mask::NONE });
                }
            }
        }
    }
}

#[test]
fn strides_threads_and_batch_change_no_bit() {
    let mut rng = Rng::new(32);
    for sizes in [
        [3, 4, 2, 130, 150, 24, 20],
        [3, 4, 2, 1, 1500, 32, 16],
        [3, 4, 2, 5, 1030, 24, 33],
        [3, 20, 1, 2, 520, 8, 16],
    ] {
        let [_, _, _, queries, keys, ..] = sizes;
        let case = case::<f32>(&mut rng, sizes);
        let mask = Mask { bands: vec![causal(keys as isize - queries as isize)], ..Mask::NONE };
        let result = in_pools(|| bits(&case.run(&mask)));
        for kind in 0..3 {
            let other = Case { x: [0, 1, 2].map(|i| case.x[i].scattered(kind)), ..case };
            assert_eq!(bits(&other.run(&mask)), result);
        }
        let inside = Case { x: [0, 1, 2].map(|i| heads_inside(&case.x[i])), ..case };
        assert_eq!(bits(&inside.run(&mask)), result);
        let each = result.len() / 3;
        for b in 0..3 {
            let one = |block: &Block<f32>| {
                let layout = block.layout.sliced(0, b, 1);
                Block { data: block.data.clone(), layout }
            };
            let alone = Case { x: [0, 1, 2].map(|i| one(&case.x[i])), ..case };
            assert_eq!(bits(&alone.run(&mask)), result[b * each..][..each]);
        }
    }
}

/// The same elements in the order [B, L, H, D] of memory.
fn heads_inside(block: &Block<f32>) -> Block<f32> {
    let layout = block.layout.permuted(&[0, 2, 1, 3]);
    let data = Block { data: block.data.clone(), layout }.pack();
    Block { data, layout: Layout::packed(&layout.dims).permuted(&[0, 2, 1, 3]) }
}

#[test]
fn operands_that_repeat_give_what_their_copies_give() {
    fn check<E: Float>(rng: &mut Rng, sizes: [usize; 7]) {
        let case = case::<E>(rng, sizes);
        let rows = sizes[0] * sizes[1] * sizes[3];
        for which in 0..3 {
            for axes in 1..16 {
                let axes = [1, 2, 4, 8].map(|bit| axes & bit != 0);
                let [shown, copy] = repeated(&case.x[which].scattered(which), axes).map(|block| {
                    let mut x = case.x.clone();
                    x[which] = block;
                    let mut out = vec![E::default(); rows * sizes[6]];
                    let views = x.each_ref().map(Block::view);
                    attention(views, &Settings::scaled(0.4), &Mask::NONE, &mut out);
                    bits(&out)
                });
                assert!(shown == copy, "{} {sizes:?} {which} {axes:?}", E::NAME);
            }
        }
    }
    let mut rng = Rng::new(40);
    for sizes in [[2, 4, 2, 3, 70, 8, 9], [2, 2, 1, 20, 40, 17, 24]] {
        check::<f32>(&mut rng, sizes);
        check::<bf16>(&mut rng, sizes);
    }
}

#[test]
fn hidden_values_reach_no_output() {
    let mut rng = Rng::new(33);
    for [queries, keys, dv] in [[70, 220, 20], [1, 220, 20], [1, 1030, 32], [4, 1030, 32]] {
        let mut case = case::<f32>(&mut rng, [1, 2, 1, queries, keys, 8, dv]);
        let full = case.dims();
        let keep: Vec<bool> = (0..keys).map(|key| key % 7 != 3 && key != keys - 1).collect();
        let bias: Vec<f32> =
            keep.iter().map(|&keep| if keep { 0.25 } else { f32::NEG_INFINITY }).collect();
        let layout = Layout::packed(&[keys]).broadcast(&full, &[3]);
        let by_flag = Mask { keep: vec![View { data: &keep, layout }], ..Mask::NONE };
        let by_bias = Mask { bias: vec![View { data: &bias, layout }], ..Mask::NONE };
        let seen = keys - 20;
        let band = causal(seen as isize - queries as isize);
        let by_band = Mask { bands: vec![band], ..Mask::NONE };
        for (mask, hidden) in [
            (&by_flag, (0..keys).filter(|&key| !keep[key]).collect::<Vec<_>>()),
            (&by_bias, (0..keys).filter(|&key| !keep[key]).collect()),
            (&by_band, (seen..keys).collect()),
        ] {
            let clean = bits(&case.run(mask));
            let saved = case.x.clone();
            for (i, key) in hidden.into_iter().enumerate() {
                let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][i % 3];
                case.x[1].data[key * 8 + i % 8] = bad;
                case.x[2].data[key * dv + i % dv] = bad;
            }
            assert_eq!(bits(&case.run(mask)), clean);
            let (_, weights) = case.run_on(Isa::best(), mask);
            assert!(weights.iter().all(|weight| weight.is_finite()));
            case.x = saved;
        }
    }
}

#[test]
fn a_value_hidden_from_some_reaches_only_those_that_see_it() {
    let mut rng = Rng::new(34);
    for (queries, offset, dv) in [(100, 0, 5), (4, 48, 5), (4, 48, 8)] {
        let mut case = case::<f32>(&mut rng, [1, 1, 1, queries, 100, 8, dv]);
        let mask = Mask { bands: vec![causal(offset as isize)], ..Mask::NONE };
        let clean = case.run(&mask);
        case.x[2].data[50 * dv + 2] = f32::NAN;
        for (i, (x, clean)) in case.run(&mask).iter().zip(&clean).enumerate() {
            match i / dv >= 50 - offset && i % dv == 2 {
                true => assert!(x.is_nan()),
                false => assert_eq!(x.to_bits(), clean.to_bits()),
            }
        }
        case.x[2].data[50 * dv + 2] = 0.0;
        case.x[0].data[3 * 8] = f32::NAN;
        for (i, x) in case.run(&mask).iter().enumerate() {
            assert_eq!(x.is_nan(), i / dv == 3);
        }
    }
}

#[test]
fn nothing_visible_gives_zeros() {
    let mut rng = Rng::new(35);
    for (queries, hidden) in [(70, 60), (5, 2)] {
        let case = case::<f32>(&mut rng, [1, 1, 1, queries, 10, 4, 3]);
        let mask = Mask { bands: vec![causal(-(hidden as isize))], ..Mask::NONE };
        let (out, weights) = case.run_on(Isa::best(), &mask);
        assert!(out[..hidden * 3].iter().chain(&weights[..hidden * 10]).all(|&x| x == 0.0));
        assert!(out[hidden * 3..].iter().all(|&x| x != 0.0));
        let keep = [false];
        let layout = Layout::packed(&[]).broadcast(&case.dims(), &[]);
        let mask = Mask { keep: vec![View { data: &keep, layout }], ..Mask::NONE };
        let (out, weights) = case.run_on(Isa::best(), &mask);
        assert!(out.iter().chain(&weights).all(|&x| x == 0.0));
    }
}

#[test]
fn few_queries_match_their_definition_for_odd_sizes() {
    let mut rng = Rng::new(37);
    let widths = [1, 3, 8, 31, 32, 64, 80, 96, 128, 256, 257];
    let heads = [(1, 1), (4, 2), (3, 3), (6, 1)];
    let lengths = [0, 1, 2, 3, 4, 5, 95, 96, 97, 511, 512, 513, 1025];
    for (i, width) in widths.into_iter().enumerate() {
        for (j, keys) in lengths.into_iter().enumerate() {
            let short = keys < 100;
            let (h, g) = if short { heads[(i + j) % 4] } else { (2, 1 + i % 2) };
            let (batch, queries) =
                if short { (1 + j % 2, 1 + (3 * i + j) % 9) } else { (1, 1 + i % 3) };
            let sizes = [batch, h, g, queries, keys, width, widths[(i + j) % 11]];
            let bands = match j % 2 {
                0 => vec![],
                _ => vec![causal(keys as isize - queries as isize)],
            };
            match (i + j) % 2 {
                0 => case::<f32>(&mut rng, sizes).check(&Mask { bands, ..Mask::NONE }),
                _ => case::<f64>(&mut rng, sizes).check(&Mask { bands, ..Mask::NONE }),
            }
        }
    }
    for n in 1..=9 {
        case::<f32>(&mut rng, [n; 7].map(|n| n.min(5))).check(&Mask::NONE);
        case::<f32>(&mut rng, [2, 40, 2, n, 70, 16, 24]).check(&Mask::NONE);
    }
}

#[test]
fn room_to_spare_in_a_cache_changes_no_bit() {
    let mut rng = Rng::new(38);
    let cache = case::<f32>(&mut rng, [1, 4, 2, 2, 1300, 16, 16]);
    for filled in [1, 63, 512, 513, 1100] {
        let exact = |block: &Block<f32>| {
            let layout = block.layout.sliced(2, 0, filled);
            Block { data: block.data.clone(), layout }
        };
        let [q, k, v] = [0, 1, 2].map(|i| &cache.x[i]);
        let expected = Case { x: [q.clone(), exact(k), exact(v)], ..cache }.run(&Mask::NONE);
        let keep: Vec<bool> = (0..1300).map(|key| key < filled).collect();
        let layout = Layout::packed(&[1300]).broadcast(&cache.dims(), &[3]);
        let by_flag = Mask { keep: vec![View { data: &keep, layout }], ..Mask::NONE };
        let end = prefixed(-10, filled);
        let by_band = Mask { bands: vec![end], ..Mask::NONE };
        for mask in [by_flag, by_band] {
            assert_eq!(bits(&cache.run(&mask)), bits(&expected));
        }
    }
}

#[test]
fn empty_sizes_are_fine() {
    let mut rng = Rng::new(36);
    let no_keys = case::<f32>(&mut rng, [2, 2, 1, 3, 0, 4, 5]);
    assert_eq!(no_keys.run(&Mask::NONE), [0.0; 60]);
    for sizes in [[2, 2, 1, 0, 3, 4, 5], [0, 2, 1, 3, 3, 4, 5], [2, 0, 0, 3, 3, 4, 5]] {
        assert_eq!(case::<f32>(&mut rng, sizes).run(&Mask::NONE), [0.0; 0]);
    }
    assert_eq!(case::<f32>(&mut rng, [1, 1, 1, 2, 3, 4, 0]).run(&Mask::NONE), [0.0; 0]);
    case::<f32>(&mut rng, [1, 1, 1, 2, 3, 0, 4]).check(&Mask::NONE);
}

#[test]
fn a_scale_brings_back_products_beyond_the_range() {
    let block = |value: &dyn Fn(usize) -> f64, dims: &[usize]| {
        let data = (0..dims.iter().product()).map(|i| bf16::from_f64(value(i))).collect();
        Block { data, layout: Layout::packed(dims) }
    };
    let case = Case {
        x: [
            block(&|_| -1e19, &[1, 1, 40, 32]),
            block(&|i| if i < 20 * 32 { 1e20 } else { 5e19 }, &[1, 1, 40, 32]),
            block(&|key| if key < 20 { 1.0 } else { 0.0 }, &[1, 1, 40, 1]),
        ],
        scale: 1e-40,
    };
    let [q, k] = [&case.x[0], &case.x[1]].map(|x| x.data[0].to_f64());
    let weight = (32.0 * q * k * case.scale / 2.0).exp();
    let expected = weight / (1.0 + weight);
    for isa in Isa::all() {
        let [out, _, log_sums] = case.run_with(isa, &Settings::scaled(case.scale), &Mask::NONE);
        assert!(out.iter().all(|out| (out.to_f64() - expected).abs() < 2e-3), "{isa:?} {out:?}");
        assert!(log_sums.iter().all(|sum| sum.to_f64().is_finite()), "{isa:?}");
    }
}

#[test]
fn positions_at_the_ends_of_the_range_are_as_far_away_as_they_are() {
    let mut rng = Rng::new(39);
    let case = case::<f32>(&mut rng, [2, 1, 1, 3, 5, 4, 4]);
    for (position, slope) in [(isize::MIN, 1e-20), (isize::MAX, -1e-20), (isize::MAX - 1, 0.5)] {
        let (starts, slope) = ([position, 0], [slope]);
        let offset = Offset::BySample(&starts);
        let each = View { data: &slope, layout: Layout::packed(&[1]) };
        let far = Mask { slopes: vec![Slopes { each, offset }], ..Mask::NONE };
        let near = [0, 0];
        let near = Slopes { each, offset: Offset::BySample(&near) };
        let (far, near) = (case.run(&far), case.run(&Mask { slopes: vec![near], ..Mask::NONE }));
        assert!(far.iter().all(|x| x.is_finite()), "{position}");
        assert_eq!(far[far.len() / 2..], near[near.len() / 2..], "the other sample");
    }
}

#[test]
fn huge_scores_do_not_overflow() {
    let block =
        |data: &[f32], dims: &[usize]| Block { data: data.to_vec(), layout: Layout::packed(dims) };
    let case = Case {
        x: [
            block(&[1.0], &[1, 1, 1, 1]),
            block(&[200.0, 200.0, 0.0], &[1, 1, 3, 1]),
            block(&[1., 0., 0., 0., 1., 0., 0., 0., 1.], &[1, 1, 3, 3]),
        ],
        scale: 1.0,
    };
    assert_eq!(case.run(&Mask::NONE), [0.5, 0.5, 0.0]);
}
