//! Linear attention against the sum over pairs that its definition is: quadratic, key by
//! key, nothing shared.

use shapeproof::{
    Batch, C, Causal, CausalFromStart, DivisibleBy, FeatureMap, Float, Generator, HeadDim, Heads,
    Key, KvHeads, KvOf, LinearAttention, Mode, Module, NoMask, Parameter, Prefix, Query, Shape,
    Size, Static, Tensor, Train, ValueDim, dispatch, dyn_size, parameters, try_check_gradients,
};

use crate::fixtures::assert_close;
use crate::masks::{Part, Sizes, narrowed, widened};
use crate::oracle::tolerance;
use crate::random::Random;

const MAPS: [FeatureMap; 3] = [FeatureMap::EluPlusOne, FeatureMap::Relu, FeatureMap::Normalized];

/// The weight of a key, as its paper has it.
fn weight(map: FeatureMap, q: &[f64], k: &[f64]) -> f64 {
    let dot = |f: &dyn Fn(f64) -> f64| q.iter().zip(k).map(|(q, k)| f(*q) * f(*k)).sum::<f64>();
    match map {
        FeatureMap::EluPlusOne => dot(&|x| if x > 0.0 { x + 1.0 } else { x.exp() }),
        FeatureMap::Relu => dot(&|x| x.max(0.0)),
        _ => {
            let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
            let product = length(q) * length(k);
            1.0 + if product > 0.0 { dot(&|x| x) / product } else { 0.0 }
        }
    }
}

fn plain(map: FeatureMap, sizes: Sizes, [q, k, v]: [&[f64]; 3], parts: &[Part]) -> Vec<f64> {
    let Sizes { batch, heads, kv_heads, queries, keys, dim, value } = sizes;
    let mut out = Vec::new();
    for b in 0..batch {
        for h in 0..heads {
            let group = b * kv_heads + h / (heads / kv_heads);
            for i in 0..queries {
                let q = &q[((b * heads + h) * queries + i) * dim..][..dim];
                let (mut sums, mut total) = (vec![0.0; value], 0.0);
                for j in 0..keys {
                    if !parts.iter().all(|part| part.shows(sizes, [b, h, i, j])) {
                        continue;
                    }
                    let weight = weight(map, q, &k[(group * keys + j) * dim..][..dim]);
                    total += weight;
                    let v = &v[(group * keys + j) * value..][..value];
                    sums.iter_mut().zip(v).for_each(|(sum, v)| *sum += weight * v);
                }
                out.extend(sums.iter().map(|sum| if total == 0.0 { 0.0 } else { sum / total }));
            }
        }
    }
    out
}

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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Band {
    None,
    End,
    Start,
    Prefix(usize),
}

/// The library's result for these inputs, bands and hidden keys.
fn linear<E: Float<Wide = E>>(
    map: FeatureMap,
    sizes: Sizes,
    inputs: [&[f64]; 3],
    band: Band,
    keep: Option<&[bool]>,
) -> Vec<E> {
    let [out, ..] = of_heads(map, sizes, inputs, band, keep, None);
    out
}

/// The result and, where that of the output is given, the gradients of queries, keys and values.
fn of_heads<E: Float<Wide = E>>(
    map: FeatureMap,
    sizes: Sizes,
    inputs: [&[f64]; 3],
    band: Band,
    keep: Option<&[bool]>,
    up: Option<&[f64]>,
) -> [Vec<E>; 4] {
    if sizes.heads == sizes.kv_heads {
        dyn_size!(heads = sizes.heads);
        return with_heads(Heads(heads), Heads(heads), map, sizes, inputs, (band, keep, up));
    }
    fn grouped<H: DivisibleBy<G>, G: Static, E: Float<Wide = E>>(
        map: FeatureMap,
        sizes: Sizes,
        inputs: [&[f64]; 3],
        how: (Band, Option<&[bool]>, Option<&[f64]>),
    ) -> [Vec<E>; 4] {
        let (heads, groups) = (Heads(H::default()), KvHeads(G::default()));
        with_heads(heads, groups, map, sizes, inputs, how)
    }
    dispatch!((sizes.heads, sizes.kv_heads) as (H, G) in [(6, 2), (4, 1), (6, 3)]
        => grouped::<H, G, E>(map, sizes, inputs, (band, keep, up)))
    .unwrap()
}

fn with_heads<H: Size, KV: KvOf<Heads<H>>, E: Float<Wide = E>>(
    heads: Heads<H>,
    groups: KV,
    map: FeatureMap,
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    (band, keep, up): (Band, Option<&[bool]>, Option<&[f64]>),
) -> [Vec<E>; 4] {
    dyn_size!(b = sizes.batch, n = sizes.queries, m = sizes.keys, d = sizes.dim, w = sizes.value);
    let (batch, dim, value) = (Batch(b), HeadDim(d), ValueDim(w));
    let q = Tensor::try_from_vec((batch, heads, Query(n), dim), narrowed::<E>(q)).unwrap();
    let k = Tensor::try_from_vec((batch, groups, Key(m), dim), narrowed::<E>(k)).unwrap();
    let v = Tensor::try_from_vec((batch, groups, Key(m), value), narrowed::<E>(v)).unwrap();
    let keep = keep
        .map(|keep| Tensor::try_from_vec((batch, Key(m)), keep.to_vec()).unwrap())
        .unwrap_or_else(|| Tensor::full_in((batch, Key(m)), true));
    let attention = LinearAttention::new(map);
    let apply = |q: &Tensor<_, E>, k: &Tensor<_, E>, v: &Tensor<_, E>| match band {
        Band::None => attention.apply(q, k, v, &keep),
        Band::End => attention.apply(q, k, v, Causal & &keep),
        Band::Start => attention.apply(q, k, v, &keep & CausalFromStart),
        Band::Prefix(first) => attention.apply(q, k, v, Prefix(first) & &keep),
    };
    let Some(up) = up else { return [apply(&q, &k, &v).to_vec(), vec![], vec![], vec![]] };
    let up = Tensor::try_from_vec((batch, heads, Query(n), value), narrowed::<E>(up)).unwrap();
    let (q, k, v) = (Parameter::new(q), Parameter::new(k), Parameter::new(v));
    let mut train = Train::seeded(0);
    let y = apply(&train.read(&q), &train.read(&k), &train.read(&v));
    let gradients = train.backward(&y.mul(&up).sum_all());
    let [of_q, of_k] = [gradients.of(&q).to_vec(), gradients.of(&k).to_vec()];
    [y.to_vec(), of_q, of_k, gradients.of(&v).to_vec()]
}

fn parts(band: Band, sizes: Sizes, keep: Option<&[bool]>) -> Vec<Part> {
    let mut parts: Vec<Part> = match band {
        Band::None => Vec::new(),
        Band::End => vec![Part::Causal],
        Band::Start => vec![Part::CausalFromStart],
        Band::Prefix(first) => vec![Part::Prefix(first)],
    };
    let axes = [true, false, false, true];
    parts.extend(keep.map(|keep| {
        let mut keep = keep.iter();
        Part::Keep(crate::masks::Over::of(sizes, axes, || *keep.next().unwrap()))
    }));
    parts
}

fn check<E: Float<Wide = E>>(
    map: FeatureMap,
    sizes: Sizes,
    inputs: [&[f64]; 3],
    (band, keep): (Band, Option<&[bool]>),
    want: &[f64],
) {
    let got = widened(&linear::<E>(map, sizes, inputs, band, keep));
    // Sums of up to 150 terms.
    let (rtol, atol) = tolerance::<E>();
    let name = format!("{map:?} {band:?} {} {sizes:?}", E::NAME);
    assert_close(&name, &got, want, 10.0 * rtol, 10.0 * atol);
}

/// Batch, heads, key/value heads, queries, keys, widths of keys and values.
const KIND: [[usize; 7]; 13] = [
    [2, 6, 2, 3, 5, 4, 7],
    [3, 3, 3, 3, 3, 3, 3],
    [1, 4, 1, 4, 4, 2, 3],
    [2, 1, 1, 5, 3, 2, 2],
    [2, 2, 2, 1, 6, 3, 3],
    [2, 6, 3, 64, 64, 5, 4],
    [1, 2, 2, 65, 98, 3, 2],
    [1, 1, 1, 140, 100, 3, 2],
    [1, 1, 1, 1, 1, 1, 1],
    [0, 2, 2, 3, 3, 2, 2],
    [2, 0, 0, 3, 3, 2, 2],
    [2, 2, 2, 0, 3, 2, 2],
    [2, 2, 2, 3, 0, 2, 2],
];

fn sizes([batch, heads, kv_heads, queries, keys, dim, value]: [usize; 7]) -> Sizes {
    Sizes { batch, heads, kv_heads, queries, keys, dim, value }
}

#[test]
fn linear_attention_is_the_sum_over_pairs_for_any_sizes() {
    for kind in KIND {
        let sizes = sizes(kind);
        let mut random = Random::new(3);
        let inputs = random.inputs(sizes);
        let inputs = inputs.each_ref().map(Vec::as_slice);
        let keep: Vec<bool> = (0..sizes.batch * sizes.keys).map(|_| random.flag()).collect();
        let bands = [Band::None, Band::End, Band::Start, Band::Prefix(2), Band::Prefix(70)];
        for (map, band) in MAPS.into_iter().flat_map(|map| bands.map(|band| (map, band))) {
            for keep in [None, Some(&keep[..])] {
                let want = plain(map, sizes, inputs, &parts(band, sizes, keep));
                check::<f32>(map, sizes, inputs, (band, keep), &want);
                check::<f64>(map, sizes, inputs, (band, keep), &want);
            }
        }
    }
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

#[test]
fn widths_of_nothing_leave_zeros_or_means() {
    let sizes = sizes([2, 2, 2, 3, 4, 0, 2]);
    let v = Random::new(4).values(32);
    assert_eq!(linear::<f32>(FeatureMap::Relu, sizes, [&[], &[], &v], Band::None, None), [0.0; 24]);
    let means = plain(FeatureMap::Normalized, sizes, [&[], &[], &v], &[]);
    let got = linear::<f32>(FeatureMap::Normalized, sizes, [&[], &[], &v], Band::None, None);
    assert_close("a mean", &got, &means, 1e-5, 1e-5);
    assert!(means.iter().any(|x| *x != 0.0));
}

// fla-org/flash-linear-attention#594
#[test]
fn running_sums_run_over_time_and_not_over_heads() {
    type By<S> = Tensor<(Batch<C<1>>, Heads<C<2>>, S, HeadDim<C<1>>)>;
    let q = By::<Query<C<2>>>::ones();
    let k = By::<Key<C<2>>>::from([[[[1.0], [3.0]], [[2.0], [2.0]]]]);
    let v = By::<Key<C<2>>>::from([[[[1.0], [5.0]], [[1.0], [5.0]]]]);
    let y = LinearAttention::new(FeatureMap::Relu).apply(&q, &k, &v, Causal);
    let at = |head, time| y.try_at(&[0, head, time, 0]).unwrap();
    assert_eq!([at(0, 0), at(1, 0)], [1.0, 1.0]);
    assert_eq!([at(0, 1), at(1, 1)], [4.0, 3.0]);
    // The same from memory in which heads lie inside of time.
    let inside = |x: &By<Key<C<2>>>| x.transpose(Heads, Key).packed().transpose(Key, Heads);
    let (k, v): (By<_>, By<_>) = (inside(&k), inside(&v));
    assert_eq!(LinearAttention::new(FeatureMap::Relu).apply(&q, &k, &v, Causal), y);
}

#[test]
fn a_causal_result_is_on_each_prefix_that_of_the_prefix_alone() {
    let whole = sizes([2, 6, 2, 130, 130, 4, 3]);
    let inputs = Random::new(8).inputs(whole);
    for map in MAPS {
        let all = inputs.each_ref().map(Vec::as_slice);
        let causal = linear::<f64>(map, whole, all, Band::End, None);
        for length in [1, 2, 63, 64, 65, 129, 130] {
            let part = |x: &[f64], width: usize| {
                let line = |line: &[f64]| line[..length * width].to_vec();
                x.chunks(130 * width).flat_map(line).collect::<Vec<_>>()
            };
            let [q, k, v] = [(0, 4), (1, 4), (2, 3)].map(|(i, width)| part(&inputs[i], width));
            let sizes = Sizes { queries: length, keys: length, ..whole };
            let alone = linear::<f64>(map, sizes, [&q, &k, &v], Band::None, None);
            for head in 0..12 {
                // The last query of the prefix sees all of it, with or without a mask.
                let last = &alone[(head * length + length - 1) * 3..][..3];
                let row = &causal[(head * 130 + length - 1) * 3..][..3];
                assert_close(&format!("{map:?} {length}"), row, last, 1e-12, 1e-12);
            }
        }
    }
}

#[test]
fn what_is_hidden_reaches_nothing() {
    for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for map in MAPS {
            let sizes = sizes([2, 6, 2, 70, 70, 4, 3]);
            let mut inputs = Random::new(9).inputs(sizes);
            let keep: Vec<bool> = (0..140).map(|i| i % 5 != 3).collect();
            let clean = inputs.clone();
            // Padding, and the last position of all, which only the last query sees.
            for (i, width) in [(1, 4), (2, 3)] {
                for (row, x) in inputs[i].chunks_mut(width).enumerate() {
                    let (sample, position) = (row / 70 / 2, row % 70);
                    if !keep[sample * 70 + position] || position == 69 {
                        x.fill(poison);
                    }
                }
            }
            let run = |inputs: &[Vec<f64>; 3], band| {
                let inputs = inputs.each_ref().map(Vec::as_slice);
                linear::<f32>(map, sizes, inputs, band, Some(&keep))
            };
            let (got, want) = (run(&inputs, Band::End), widened(&run(&clean, Band::End)));
            for (head, (got, want)) in got.chunks(210).zip(want.chunks(210)).enumerate() {
                assert_close(&format!("{map:?} {head}"), &got[..207], &want[..207], 1e-5, 1e-5);
            }
        }
    }
}

#[test]
fn a_query_that_sees_nothing_gets_zero() {
    let sizes = sizes([2, 2, 2, 5, 3, 2, 2]);
    let mut inputs = Random::new(10).inputs(sizes);
    inputs[0].fill(f64::NAN);
    let inputs = inputs.each_ref().map(Vec::as_slice);
    for map in MAPS {
        let hidden = linear::<f32>(map, sizes, inputs, Band::None, Some(&[false; 6]));
        assert!(hidden.iter().all(|y| *y == 0.0));
        // More queries than keys: the first two see none.
        let causal = linear::<f32>(map, sizes, inputs, Band::End, None);
        assert!(causal.chunks(10).all(|head| head[..4].iter().all(|y| *y == 0.0)));
    }
}

#[test]
fn vectors_of_any_length_have_a_direction() {
    type By<S> = Tensor<(Batch<C<1>>, Heads<C<1>>, S, HeadDim<C<2>>)>;
    for scale in [1e-30, 1.0_f32, 1e30] {
        let q = By::<Query<C<1>>>::from([[[[3.0, 4.0]]]]).map(|x| x * scale);
        let k = By::<Key<C<2>>>::from([[[[4.0, 3.0], [0.0, 0.0]]]]).map(|x| x * scale);
        let v = By::<Key<C<2>>>::from([[[[1.0, 0.0], [0.0, 1.0]]]]);
        let y = LinearAttention::new(FeatureMap::Normalized).apply(&q, &k, &v, NoMask);
        // Weights 1 + 24/25 and 1.
        assert_close("means", &y.to_vec(), &[1.96 / 2.96, 1.0 / 2.96], 1e-6, 0.0);
    }
}
