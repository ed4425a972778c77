//! Rotary positions: a new key is rotated by the position that its step says.

use shapeproof::{
    Batch, C, Causal, Float, HeadDim, Heads, Key, KvCache, KvHeads, Query, Seq, Size, Tensor, bf16,
    dyn_size, f16, scaled_dot_product_attention,
};

use super::{positions, tensor};
use crate::fixtures::{Case, Family, assert_close};
use crate::masks::{narrowed, widened};
use crate::oracle::{Rotation, tolerance};

/// Rows of this width at these positions, turned by split halves.
fn rotated(x: &[f64], width: usize, base: f64, at: &[usize]) -> Vec<f64> {
    Rotation { width, adjacent: false, base }.of(x, [1, at.len(), width], |_, row| at[row])
}

type Cached<E> = KvCache<C<2>, KvHeads<C<2>>, C<9>, C<6>, HeadDim<C<6>>, E>;

/// The rows of the output and the rotated keys of a step.
fn step<E: Float>(
    cache: &mut Cached<E>,
    case: &Case,
    theta: f64,
    start: usize,
    count: usize,
) -> [Vec<f64>; 2] {
    dyn_size!(new = count);
    let part = |name| positions(&case.tensors.f64(name), 7, 6, start, count);
    let mut step = cache.begin(Seq(new)).unwrap();
    let at = step.positions().to_vec();
    let q = rotated(&part("in.q"), 6, theta, &at);
    let k = rotated(&part("in.k"), 6, theta, &at);
    let q = tensor::<_, E>((Batch(C::<2>), Heads(C::<4>), Query(new), HeadDim(C::<6>)), &q);
    let shape = (Batch(C::<2>), KvHeads(C::<2>), Key(new), HeadDim(C::<6>));
    step.append(0, &tensor(shape, &k), &tensor(shape, &part("in.v"))).unwrap();
    dyn_size!(keys = step.keys());
    assert_eq!(keys.get(), start + count);
    let (k, v) = step.view(0, Key(keys)).unwrap();
    let y = scaled_dot_product_attention(&q, &k, &v, Causal);
    let out = [widened(&y.to_vec()), widened(&k.to_vec())];
    step.commit().unwrap();
    out
}

fn cached_decode<E: Float>(case: &Case, steps: &[usize]) {
    let theta = case.config.float("theta");
    let mut cache = Cached::<E>::try_new(1).unwrap();
    let (rtol, atol) = tolerance::<E>();
    let mut start = 0;
    for &count in steps {
        let [y, k] = step(&mut cache, case, theta, start, count);
        let want = positions(&case.tensors.f64("out64.output"), 7, 6, start, count);
        assert_close(&format!("output of {steps:?} from {start}"), &y, &want, rtol, atol);
        let want = positions(&case.tensors.f64("out64.k_rotated"), 7, 6, 0, start + count);
        assert_close(&format!("keys of {steps:?} from {start}"), &k, &want, rtol, atol);
        start += count;
    }
}

#[test]
fn rotary_decoding_in_chunks_equals_the_reference() {
    let family = Family::open("torch/positions");
    let case = family.cases.iter().find(|case| case.name == "cached_decode").unwrap();
    for steps in [&case.config.usizes("chunk_lengths")[..], &[7], &[1; 7], &[2, 5]] {
        cached_decode::<f32>(case, steps);
        cached_decode::<f64>(case, steps);
        cached_decode::<f16>(case, steps);
        cached_decode::<bf16>(case, steps);
    }
}

// fla-org/flash-linear-attention#766
#[test]
fn every_layer_is_at_the_same_position() {
    type Keys<T> = Tensor<(Batch<C<1>>, Heads<C<1>>, Key<T>, HeadDim<C<2>>)>;
    let mut cache = KvCache::<C<1>, Heads<C<1>>, C<8>, C<2>>::try_new(2).unwrap();
    let pair = |at: &[usize]| {
        let all: Vec<f64> = at.iter().flat_map(|_| [1.0, 0.0]).collect();
        narrowed::<f32>(&rotated(&all, 2, 1.0, at))
    };
    let mut step = cache.begin(Seq(C::<3>)).unwrap();
    for layer in 0..2 {
        let keys = pair(&step.positions().to_vec());
        let keys = Keys::<C<3>>::try_from_vec(Default::default(), keys).unwrap();
        step.append(layer, &keys, &keys).unwrap();
    }
    step.commit().unwrap();
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    for layer in 0..2 {
        let keys = pair(&step.positions().to_vec());
        let keys = Keys::<C<1>>::try_from_vec(Default::default(), keys).unwrap();
        step.append(layer, &keys, &keys).unwrap();
        let (keys, _) = step.view(layer, Key(C::<4>)).unwrap();
        let last = keys.try_slice(Key, 3, C::<1>).unwrap();
        assert_close("the key of token 3", &last.to_vec(), &[-0.98999, 0.14112], 0.0, 1e-5);
    }
    step.commit().unwrap();
    assert_eq!(cache.length().unwrap(), 4);
}
