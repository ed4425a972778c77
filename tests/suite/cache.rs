//! The cache of keys and values: decoding step by step is the full pass, whatever the
//! steps are, and a refused call changes nothing.

mod ragged;
mod refusals;
mod ring;
mod rotary;
mod shared;

use shapeproof::{
    Batch, Causal, Float, HeadDim, Heads, Infer, Key, KvCache, Model, MultiHeadAttention, NoMask,
    Query, Seq, Size, Tensor, ValueDim, bf16, dyn_size, f16, scaled_dot_product_attention,
};

use crate::fixtures::assert_close;
use crate::masks::{Part, Sizes, narrowed, widened};
use crate::oracle;
use crate::random::Random;

/// Batch, heads, positions, widths of keys and values.
const SIZES: [[usize; 5]; 9] = [
    [2, 3, 7, 4, 5],
    [3, 3, 3, 3, 3],
    [1, 2, 7, 4, 3],
    [2, 1, 7, 3, 4],
    [2, 2, 5, 3, 3],
    [1, 1, 1, 1, 1],
    [0, 2, 4, 3, 3],
    [2, 0, 4, 3, 3],
    [2, 2, 4, 0, 0],
];

/// Queries, keys and values of one layer over (batch, heads, positions, width).
#[derive(Clone)]
struct Layer {
    sizes: Sizes,
    inputs: [Vec<f64>; 3],
}

impl Layer {
    fn random([batch, heads, length, dim, value]: [usize; 5], seed: u64) -> Self {
        let sizes = Sizes { value, ..Sizes::new(batch, heads, length, length, dim) };
        Layer { sizes, inputs: Random::new(seed).inputs(sizes) }
    }

    fn widths(&self) -> [usize; 3] {
        [self.sizes.dim, self.sizes.dim, self.sizes.value]
    }

    /// Queries, keys and values of the positions from `start` on.
    fn part(&self, start: usize, count: usize) -> [Vec<f64>; 3] {
        [0, 1, 2]
            .map(|i| positions(&self.inputs[i], self.sizes.queries, self.widths()[i], start, count))
    }

    /// The output of all positions at once, by plain loops.
    fn whole(&self, parts: &[Part]) -> Vec<f64> {
        oracle::attention(self.sizes, self.inputs.each_ref().map(Vec::as_slice), None, parts).0
    }
}

/// Of `x` over (…, length, width), the positions from `start` on.
fn positions(x: &[f64], length: usize, width: usize, start: usize, count: usize) -> Vec<f64> {
    if length * width == 0 {
        return Vec::new();
    }
    let part = |line: &[f64]| line[start * width..(start + count) * width].to_vec();
    x.chunks(length * width).flat_map(part).collect()
}

fn tensor<S: shapeproof::Shape, E: Float>(shape: S, values: &[f64]) -> Tensor<S, E> {
    Tensor::try_from_vec(shape, narrowed(values)).unwrap()
}

type Cache<B, H, Cap, D, V, E> = KvCache<B, Heads<H>, Cap, D, ValueDim<V>, E>;

/// Runs one step through all layers; the outputs of the new positions, a layer each.
fn run_step<B: Size, H: Size, Cap: Size, D: Size, V: Size, E: Float>(
    cache: &mut Cache<B, H, Cap, D, V, E>,
    (batch, heads, dim, value): (Batch<B>, Heads<H>, HeadDim<D>, ValueDim<V>),
    layers: &[Layer],
    start: usize,
    count: usize,
) -> Vec<Vec<f64>> {
    dyn_size!(new = count);
    let mut step = cache.begin(Seq(new)).unwrap();
    assert_eq!(step.start(), start);
    assert_eq!(step.positions().to_vec(), (start..start + count).collect::<Vec<_>>());
    dyn_size!(keys = step.keys());
    let mut outputs = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        let [q, k, v] = layer.part(start, count);
        let q = tensor((batch, heads, Query(new), dim), &q);
        let k = tensor((batch, heads, Key(new), dim), &k);
        let v = tensor((batch, heads, Key(new), value), &v);
        step.append(i, &k, &v).unwrap();
        let (k, v) = step.view(i, Key(keys)).unwrap();
        let y = scaled_dot_product_attention(&q, &k, &v, step.mask(Key(keys)).unwrap());
        outputs.push(widened(&y.to_vec()));
        if step.first_position() == 0 && keys.get() <= start + 1 {
            assert_eq!(y, scaled_dot_product_attention(&q, &k, &v, Causal));
        }
    }
    step.commit().unwrap();
    outputs
}

/// Steps of these lengths through all layers equal the whole at once.
fn steps_equal_the_whole<E: Float>(
    layers: &[Layer],
    capacity: usize,
    window: Option<usize>,
    steps: &[usize],
) {
    let sizes = layers[0].sizes;
    let Sizes { batch, heads, queries: length, dim, value, .. } = sizes;
    assert_eq!(steps.iter().sum::<usize>(), length);
    dyn_size!(b = batch, h = heads, cap = capacity, d = dim, w = value);
    let axes = (Batch(b), Heads(h), HeadDim(d), ValueDim(w));
    let shape = (axes.0, axes.1, Key(cap), axes.2);
    let mut cache: Cache<_, _, _, _, _, E> = match window {
        None => KvCache::try_new_in(shape, axes.3, layers.len()).unwrap(),
        Some(window) => KvCache::try_ring_in(shape, axes.3, layers.len(), window).unwrap(),
    };
    let parts = windowed(sizes, window.unwrap_or(length));
    let whole: Vec<_> = layers.iter().map(|layer| layer.whole(&parts)).collect();
    let (rtol, atol) = oracle::tolerance::<E>();
    let mut start = 0;
    for &count in steps {
        let outputs = run_step(&mut cache, axes, layers, start, count);
        for (i, output) in outputs.iter().enumerate() {
            let want = positions(&whole[i], length, value, start, count);
            assert_close(
                &format!("layer {i} from {start} of {sizes:?}"),
                output,
                &want,
                rtol,
                atol,
            );
        }
        start += count;
        assert_eq!(cache.length().unwrap(), start);
    }
}

/// Each query sees the last keys up to its own position, as many as `window`.
fn windowed(sizes: Sizes, window: usize) -> Vec<Part> {
    let (mut query, keys) = (0, sizes.keys.max(1));
    let mut at = 0;
    let near = crate::masks::Over::of(sizes, [false, false, true, true], || {
        (query, at) = (at / keys, at + 1);
        query < window + (at - 1) % keys
    });
    vec![Part::Causal, Part::Keep(near)]
}

#[test]
fn steps_of_any_length_equal_the_full_pass() {
    for sizes in SIZES {
        let length = sizes[2];
        let layers = [Layer::random(sizes, 1), Layer::random(sizes, 2), Layer::random(sizes, 3)];
        let mut random = Random::new(4);
        let mut drawn = Vec::new();
        while drawn.iter().sum::<usize>() < length {
            let left = length - drawn.iter().sum::<usize>();
            drawn.push(random.below(left + 1));
        }
        for steps in [vec![length], vec![1; length], drawn] {
            for capacity in [length, length + 3] {
                steps_equal_the_whole::<f32>(&layers, capacity, None, &steps);
                steps_equal_the_whole::<f64>(&layers, capacity, None, &steps);
                steps_equal_the_whole::<f16>(&layers, capacity, None, &steps);
                steps_equal_the_whole::<bf16>(&layers, capacity, None, &steps);
            }
        }
    }
}

#[test]
fn a_cache_without_layers_counts_positions() {
    dyn_size!(b = 2, h = 3, cap = 4, d = 5);
    let shape = (Batch(b), Heads(h), Key(cap), HeadDim(d));
    let mut cache: KvCache<_, _, _, _> = KvCache::try_new_in(shape, HeadDim(d), 0).unwrap();
    cache.begin(Seq(cap)).unwrap().commit().unwrap();
    assert_eq!(cache.length().unwrap(), 4);
}

#[test]
fn cross_attention_is_the_same_with_keys_and_values_projected_before() {
    type Layer = MultiHeadAttention<shapeproof::C<12>, shapeproof::C<3>, shapeproof::C<5>>;
    let mut generator = shapeproof::Generator::seeded(9);
    let layer = Layer::xavier(&mut generator);
    for (batch, queries, keys) in [(2, 3, 4), (3, 3, 3), (1, 1, 5), (2, 3, 0), (0, 2, 2)] {
        dyn_size!(b = batch, q = queries, k = keys);
        let memory =
            Tensor::normal_in((Batch(b), Seq(k), Model(shapeproof::C)), 0.0, 1.0, &mut generator);
        let cached = layer.cross_keys_and_values(&memory, &memory, &mut Infer);
        assert_eq!(cached.key().0.get(), keys);
        let keep = Tensor::from_fn_in((Batch(b), Key(k)), |at| (at[0] + at[1]) % 3 > 0);
        for _ in 0..2 {
            let shape = (Batch(b), Seq(q), Model(shapeproof::C));
            let x = Tensor::normal_in(shape, 0.0, 1.0, &mut generator);
            let y = layer.cross_cached(&x, &cached, NoMask, &mut Infer);
            assert_eq!(y, layer.cross(&x, &memory, &memory, NoMask, &mut Infer));
            let y = layer.cross_cached(&x, &cached, &keep, &mut Infer);
            assert_eq!(y, layer.cross(&x, &memory, &memory, &keep, &mut Infer));
        }
    }
}
