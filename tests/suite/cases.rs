//! Faults that people met in other libraries, each by its smallest input and by its
//! kind: the neighbouring inputs where such a fault hides or shows. Above a test stands the report on GitHub
//! that it comes from, here as in other files.

mod heads;
mod masks;
mod numbers;
mod sizes;
mod sparse;
mod training;

use shapeproof::{
    Batch, C, Float, HeadDim, Heads, Key, MaskFor, Query, Tensor, bf16, f16,
    scaled_dot_product_attention,
};

use crate::fixtures::assert_close;
use crate::masks::{Part, Sizes, attend, bits};
use crate::oracle;
use crate::random::Random;

/// Batch, heads, queries, keys: where faults of these axes differ.
const KIND: [(&str, [usize; 4]); 10] = [
    ("all sizes different", [2, 3, 4, 5]),
    ("all sizes equal", [3, 3, 3, 3]),
    ("a batch of one", [1, 2, 3, 4]),
    ("one head", [2, 1, 3, 4]),
    ("as many samples as heads", [2, 2, 3, 5]),
    ("as many queries as keys", [2, 3, 4, 4]),
    ("more queries than keys", [2, 3, 5, 3]),
    ("one query", [3, 2, 1, 5]),
    ("one key", [2, 2, 4, 1]),
    ("all sizes one", [1, 1, 1, 1]),
];

type Q<const N: usize> = Query<C<N>>;
type K<const N: usize> = Key<C<N>>;
type ByHead<const B: usize, const H: usize, S> =
    Tensor<(Batch<C<B>>, Heads<C<H>>, S, HeadDim<C<1>>)>;
type Scores<const L: usize, const S: usize> = (Batch<C<1>>, Heads<C<1>>, Q<L>, K<S>);

/// Queries of 0 weigh all visible keys alike: the output is their values' mean.
fn means<const L: usize, const S: usize>(
    values: [f32; S],
    mask: impl MaskFor<Scores<L, S>>,
) -> Vec<f32> {
    let (q, k) = (ByHead::<1, 1, Q<L>>::zeros(), ByHead::<1, 1, K<S>>::ones());
    let v = ByHead::<1, 1, K<S>>::try_from_vec(k.shape(), values.to_vec()).unwrap();
    scaled_dot_product_attention(&q, &k, &v, mask).to_vec()
}

/// Attention in every type, with masks made for each of the sizes, is what plain
/// loops say.
fn attention_equals_plain_loops(masks: impl Fn(&mut Random, Sizes) -> Vec<Part>) {
    for (name, [batch, heads, queries, keys]) in KIND {
        let sizes = Sizes { value: 2, ..Sizes::new(batch, heads, queries, keys, 3) };
        for seed in 0..4 {
            let mut random = Random::new(seed);
            let parts = masks(&mut random, sizes);
            let inputs = random.inputs(sizes);
            let inputs = inputs.each_ref().map(Vec::as_slice);
            let want = oracle::attention(sizes, inputs, None, &parts);
            compare::<f32>(name, sizes, inputs, &parts, &want);
            compare::<f64>(name, sizes, inputs, &parts, &want);
            compare::<f16>(name, sizes, inputs, &parts, &want);
            compare::<bf16>(name, sizes, inputs, &parts, &want);
        }
    }
}

fn compare<E: Float>(
    name: &str,
    sizes: Sizes,
    inputs: [&[f64]; 3],
    parts: &[Part],
    want: &(Vec<f64>, Vec<f64>),
) {
    let (rtol, atol) = oracle::tolerance::<E>();
    let (out, weights) = attend::<E>(sizes, inputs, None, parts);
    assert_close(&format!("output, {name}, {}", E::NAME), &out, &want.0, rtol, atol);
    assert_close(&format!("weights, {name}, {}", E::NAME), &weights, &want.1, rtol, atol);
}

/// Both give the same bits, in every type, for every size of the kind.
fn same_bits(
    one: impl Fn(&mut Random, Sizes) -> Vec<Part>,
    other: impl Fn(&mut Random, Sizes) -> Vec<Part>,
) {
    fn run<E: Float>(sizes: Sizes, parts: &[Part]) -> [Vec<u64>; 2] {
        let inputs = Random::new(77).inputs(sizes);
        let (out, weights) = attend::<E>(sizes, inputs.each_ref().map(Vec::as_slice), None, parts);
        [bits(&out), bits(&weights)]
    }
    for (name, [batch, heads, queries, keys]) in KIND {
        let sizes = Sizes::new(batch, heads, queries, keys, 2);
        for seed in 0..4 {
            let parts = one(&mut Random::new(seed), sizes);
            let others = other(&mut Random::new(seed), sizes);
            assert_eq!(run::<f32>(sizes, &parts), run::<f32>(sizes, &others), "{name}");
            assert_eq!(run::<f64>(sizes, &parts), run::<f64>(sizes, &others), "{name}");
            assert_eq!(run::<f16>(sizes, &parts), run::<f16>(sizes, &others), "{name}");
            assert_eq!(run::<bf16>(sizes, &parts), run::<bf16>(sizes, &others), "{name}");
        }
    }
}
