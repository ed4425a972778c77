//! Linear attention against the sum over pairs that its definition is: quadratic, key by
//! key, nothing shared.

mod gradients;

use shapeproof::{
    Batch, C, Causal, CausalFromStart, DivisibleBy, FeatureMap, Float, HeadDim, Heads, Key,
    KvHeads, KvOf, LinearAttention, Mode, NoMask, Parameter, Prefix, Query, Size, Static, Tensor,
    Train, ValueDim, dispatch, dyn_size,
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
