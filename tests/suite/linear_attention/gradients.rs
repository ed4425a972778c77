//! Gradients of linear attention: pair by pair, by differences, and of what is hidden.

use shapeproof::{
    Batch, C, Causal, FeatureMap, Float, Generator, HeadDim, Heads, Key, KvHeads, KvOf,
    LinearAttention, Mode, Module, NoMask, Parameter, Query, Shape, Size, Tensor, ValueDim,
    dyn_size, parameters, try_check_gradients,
};

use super::{Band, KIND, MAPS, of_heads, parts, plain, sizes, weight};
use crate::fixtures::assert_close;
use crate::masks::{Part, Sizes, widened};
use crate::oracle::tolerance;
use crate::random::Random;

/// What the weight of a key becomes larger by, for each element of the query. The key's is that of the two
/// exchanged.
fn slope(map: FeatureMap, q: &[f64], k: &[f64]) -> Vec<f64> {
    let each = |f: &dyn Fn(f64, f64) -> f64| q.iter().zip(k).map(|(q, k)| f(*q, *k)).collect();
    match map {
        FeatureMap::EluPlusOne => {
            let phi = |x: f64| if x > 0.0 { x + 1.0 } else { x.exp() };
            each(&|q, k| if q > 0.0 { phi(k) } else { q.exp() * phi(k) })
        }
        FeatureMap::Relu => each(&|q, k| if q > 0.0 { k.max(0.0) } else { 0.0 }),
        _ => {
            let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
            let (of_q, of_k) = (length(q), length(k));
            let cosine = weight(map, q, k) - 1.0;
            each(&|q, k| match of_q * of_k > 0.0 {
                true => (k / of_k - cosine * q / of_q) / of_q,
                false => 0.0,
            })
        }
    }
}

/// The gradients of queries, keys and values, pair by pair, where `up` is that of the output; and the least
/// sum of weights, which divides them.
fn plain_gradients(
    map: FeatureMap,
    sizes: Sizes,
    [q, k, v, up]: [&[f64]; 4],
    parts: &[Part],
) -> ([Vec<f64>; 3], f64) {
    let Sizes { batch, heads, kv_heads, queries, keys, dim, value } = sizes;
    let out = plain(map, sizes, [q, k, v], parts);
    let (mut gradients, mut least) = ([q, k, v].map(|x| vec![0.0; x.len()]), 1.0_f64);
    for row in 0..batch * heads * queries {
        let (b, h, i) = (row / queries / heads, row / queries % heads, row % queries);
        let group = b * kv_heads + h / (heads / kv_heads);
        let seen = (0..keys).filter(|&j| parts.iter().all(|part| part.shows(sizes, [b, h, i, j])));
        let of_query = row * dim..(row + 1) * dim;
        let q = &q[of_query.clone()];
        let key = |j: usize| (group * keys + j) * dim..(group * keys + j + 1) * dim;
        let total: f64 = seen.clone().map(|j| weight(map, q, &k[key(j)])).sum();
        least = if total == 0.0 { least } else { least.min(total) };
        for j in seen.filter(|_| total != 0.0) {
            let (up, out) = (&up[row * value..][..value], &out[row * value..][..value]);
            let at = (group * keys + j) * value;
            let product = |(up, (v, out)): (&f64, (&f64, &f64))| up * (v - out);
            let terms = up.iter().zip(v[at..at + value].iter().zip(out)).map(product);
            let d_weight = terms.sum::<f64>() / total;
            let share = weight(map, q, &k[key(j)]) / total;
            let add = |to: &mut [f64], from: &[f64], times: f64| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from * times);
            };
            add(&mut gradients[0][of_query.clone()], &slope(map, q, &k[key(j)]), d_weight);
            add(&mut gradients[1][key(j)], &slope(map, &k[key(j)], q), d_weight);
            add(&mut gradients[2][at..at + value], up, share);
        }
    }
    (gradients, least)
}

#[test]
fn gradients_are_the_sums_over_pairs_for_any_sizes() {
    fn check<E: Float>(name: &str, got: &[Vec<E>; 4], (want, least): &([Vec<f64>; 3], f64)) {
        let (rtol, atol) = tolerance::<E>();
        for ((which, got), want) in ["queries", "keys", "values"].iter().zip(&got[1..]).zip(want) {
            // Sums of up to 150 terms, divided by sums of weights that are small where they cancel.
            let largest = want.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
            let name = format!("{name} {which} {}", E::NAME);
            assert_close(&name, &widened(got), want, 10.0 * rtol, 30.0 * atol * largest / least);
        }
    }
    for kind in KIND {
        let sizes = sizes(kind);
        let mut random = Random::new(13);
        let inputs = random.inputs(sizes);
        let inputs @ [q, k, v] = inputs.each_ref().map(Vec::as_slice);
        let up = &random.values(sizes.batch * sizes.heads * sizes.queries * sizes.value)[..];
        let keep: Vec<bool> = (0..sizes.batch * sizes.keys).map(|_| random.flag()).collect();
        let bands = [Band::None, Band::End, Band::Start, Band::Prefix(70)];
        for (map, band) in MAPS.into_iter().flat_map(|map| bands.map(|band| (map, band))) {
            for keep in [None, Some(&keep[..])] {
                let want = plain_gradients(map, sizes, [q, k, v, up], &parts(band, sizes, keep));
                let name = format!("{map:?} {band:?} {sizes:?}");
                let up = Some(up);
                check::<f32>(&name, &of_heads(map, sizes, inputs, band, keep, up), &want);
                check::<f64>(&name, &of_heads(map, sizes, inputs, band, keep, up), &want);
            }
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    struct Inputs<Q: Shape, K: Shape, V: Shape> {
        q: Parameter<Q, f64>,
        k: Parameter<K, f64>,
        v: Parameter<V, f64>,
    }
    impl<Q: Shape, K: Shape, V: Shape> Module for Inputs<Q, K, V> {
        parameters!(q, k, v);
    }
    fn check<H: Size, KV: KvOf<Heads<H>>>(heads: Heads<H>, groups: KV, sizes: [usize; 5]) {
        let [b, n, m, d, w] = sizes;
        dyn_size!(b = b, n = n, m = m, d = d, w = w);
        let mut generator = Generator::seeded(14);
        let mut normal = || generator.normal();
        let up = Tensor::from_fn_in((Batch(b), heads, Query(n), ValueDim(w)), |_| normal());
        let mut module = Inputs {
            q: Parameter::new(Tensor::from_fn_in((Batch(b), heads, Query(n), HeadDim(d)), |_| {
                normal()
            })),
            k: Parameter::new(Tensor::from_fn_in((Batch(b), groups, Key(m), HeadDim(d)), |_| {
                normal()
            })),
            v: Parameter::new(Tensor::from_fn_in((Batch(b), groups, Key(m), ValueDim(w)), |_| {
                normal()
            })),
        };
        let keep = Tensor::from_fn_in((Batch(b), Key(m)), |at| (at[0] + at[1]) % 3 != 1);
        for map in MAPS {
            let attention = LinearAttention::new(map);
            for causal in [true, false] {
                try_check_gradients(&mut module, 1e-6, |module, train| {
                    let (q, k, v) =
                        (train.read(&module.q), train.read(&module.k), train.read(&module.v));
                    let y = match causal {
                        true => attention.apply(&q, &k, &v, Causal & &keep),
                        false => attention.apply(&q, &k, &v, NoMask),
                    };
                    y.mul(&up).sum_all()
                })
                .unwrap_or_else(|error| panic!("{map:?} {sizes:?} causal {causal}: {error}"));
            }
        }
    }
    check(Heads(C::<6>), KvHeads(C::<2>), [2, 3, 5, 4, 7]);
    check(Heads(C::<3>), Heads(C::<3>), [3, 3, 3, 3, 3]);
    check(Heads(C::<1>), Heads(C::<1>), [1, 1, 1, 2, 1]);
    check(Heads(C::<1>), Heads(C::<1>), [1, 70, 68, 1, 1]);
    for empty in 0..5 {
        let mut sizes = [2, 3, 4, 2, 3];
        sizes[empty] = 0;
        check(Heads(C::<2>), KvHeads(C::<1>), sizes);
    }
}

#[test]
fn what_is_hidden_reaches_no_gradient_and_gets_none() {
    for (poison, map) in
        [f64::NAN, f64::INFINITY].into_iter().flat_map(|x| MAPS.map(|map| (x, map)))
    {
        let sizes = sizes([2, 6, 2, 70, 70, 4, 3]);
        let mut random = Random::new(15);
        let mut inputs = random.inputs(sizes);
        let mut up = random.values(2 * 6 * 70 * 3);
        // The first two keys are hidden: the first two queries see nothing.
        let keep: Vec<bool> = (0..140).map(|i| i % 70 > 1 && i % 5 != 3).collect();
        let run = |inputs: &[Vec<f64>; 3], up: &[f64]| {
            let inputs = inputs.each_ref().map(Vec::as_slice);
            of_heads::<f32>(map, sizes, inputs, Band::End, Some(&keep), Some(up))
        };
        let clean = run(&inputs, &up);
        for (i, width, heads) in [(1, 4, 2), (2, 3, 2)] {
            for (row, x) in inputs[i].chunks_mut(width).enumerate() {
                if !keep[row / 70 / heads * 70 + row % 70] {
                    x.fill(poison);
                }
            }
        }
        for (rows, width) in [(&mut inputs[0], 4), (&mut up, 3)] {
            let blind = rows.chunks_mut(width).enumerate().filter(|(row, _)| row % 70 < 2);
            blind.for_each(|(_, x)| x.fill(poison));
        }
        let dirty = run(&inputs, &up);
        for (which, (clean, dirty)) in clean.iter().zip(&dirty).enumerate() {
            let as_bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert!(as_bits(clean) == as_bits(dirty), "{map:?} {which}");
        }
        let [_, of_q, of_k, of_v] = dirty;
        assert!(of_q.chunks(4).enumerate().all(|(row, x)| row % 70 > 1 || x == [0.0; 4]));
        let hidden = |row: usize| !keep[row / 140 * 70 + row % 70];
        assert!(of_k.chunks(4).enumerate().all(|(row, x)| !hidden(row) || x == [0.0; 4]));
        assert!(of_v.chunks(3).enumerate().all(|(row, x)| !hidden(row) || x == [0.0; 3]));
    }
}

#[test]
fn a_later_key_that_is_not_finite_reaches_the_gradients_of_those_that_see_it_alone() {
    let sizes = sizes([1, 4, 1, 70, 70, 3, 2]);
    for map in MAPS {
        let mut random = Random::new(16);
        let mut inputs = random.inputs(sizes);
        let up = random.values(4 * 70 * 2);
        inputs[1][69 * 3..].fill(f64::NAN);
        inputs[2][69 * 2..].fill(f64::NAN);
        let inputs = inputs.each_ref().map(Vec::as_slice);
        let [_, of_q, ..] = of_heads::<f64>(map, sizes, inputs, Band::End, None, Some(&up));
        // The last query alone sees the last key.
        let nan = |row: &[f64]| row.iter().any(|x| x.is_nan());
        for (row, of_query) in of_q.chunks(3).enumerate() {
            assert_eq!(nan(of_query), row % 70 == 69, "{map:?} {row}: {of_query:?}");
        }
    }
}
