//! Samples of one batch at positions of their own.

use shapeproof::{
    Batch, Float, HeadDim, Heads, Key, KvCache, Query, Seq, ValueDim, bf16, dyn_size, f16,
    scaled_dot_product_attention,
};

use super::{Layer, positions, tensor};
use crate::fixtures::assert_close;
use crate::masks::{Part, Sizes, widened};
use crate::oracle;

/// Of sample `sample`, all over (heads, positions, width), what plain loops say of its
/// first `length` positions.
fn alone(layer: &Layer, sample: usize, length: usize) -> Vec<f64> {
    let Sizes { heads, queries, dim, value, .. } = layer.sizes;
    let widths = layer.widths();
    let inputs = [0, 1, 2].map(|i| {
        let each = heads * queries * widths[i];
        let own = &layer.inputs[i][sample * each..(sample + 1) * each];
        positions(own, queries, widths[i], 0, length)
    });
    let sizes = Sizes { value, ..Sizes::new(1, heads, length, length, dim) };
    oracle::attention(sizes, inputs.each_ref().map(Vec::as_slice), None, &[Part::Causal]).0
}

/// What the samples feed in a step: sample i its positions from `starts[i]` on, padded
/// with NaN, which must reach nothing.
fn fed(x: &[f64], shape: [usize; 3], starts: &[usize], counts: &[usize], new: usize) -> Vec<f64> {
    let [heads, length, width] = shape;
    let mut all = Vec::new();
    for (sample, (&start, &count)) in starts.iter().zip(counts).enumerate() {
        for head in 0..heads {
            let line = &x[(sample * heads + head) * length * width..][..length * width];
            all.extend_from_slice(&line[start * width..(start + count) * width]);
            all.extend(std::iter::repeat_n(f64::NAN, (new - count) * width));
        }
    }
    all
}

fn ragged_equals_alone<E: Float>(sizes: [usize; 5], steps: &[&[usize]]) {
    let layers = [Layer::random(sizes, 5), Layer::random(sizes, 6)];
    let [batch, heads, length, dim, value] = sizes;
    let (rtol, atol) = oracle::tolerance::<E>();
    dyn_size!(b = batch, h = heads, cap = length, d = dim, w = value);
    let shape = (Batch(b), Heads(h), Key(cap), HeadDim(d));
    let mut cache: KvCache<_, _, _, _, _, E> =
        KvCache::try_new_in(shape, ValueDim(w), layers.len()).unwrap();
    let mut starts = vec![0; batch];
    for counts in steps {
        dyn_size!(new = counts.iter().copied().max().unwrap_or(0) + 1);
        let new_positions = shapeproof::Size::get(new);
        let mut step = cache.begin_ragged(Seq(new), counts).unwrap();
        assert_eq!(step.starts(), starts);
        dyn_size!(keys = step.keys());
        for (i, layer) in layers.iter().enumerate() {
            let part = |i: usize| {
                let shape = [heads, length, layer.widths()[i]];
                fed(&layer.inputs[i], shape, &starts, counts, new_positions)
            };
            let q = tensor((Batch(b), Heads(h), Query(new), HeadDim(d)), &part(0));
            let k = tensor((Batch(b), Heads(h), Key(new), HeadDim(d)), &part(1));
            let v = tensor((Batch(b), Heads(h), Key(new), ValueDim(w)), &part(2));
            step.append(i, &k, &v).unwrap();
            let (k, v, mask) = step.view(i, Key(keys)).unwrap();
            let y = widened(&scaled_dot_product_attention(&q, &k, &v, &mask).to_vec());
            for (sample, &count) in counts.iter().enumerate() {
                let (start, each) = (starts[sample], heads * new_positions * value);
                let own = &y[sample * each..(sample + 1) * each];
                let got = positions(own, new_positions, value, 0, count);
                let want = alone(layer, sample, start + count);
                let want = positions(&want, start + count, value, start, count);
                let name = format!("layer {i}, sample {sample} from {start}");
                assert_close(&name, &got, &want, rtol, atol);
                let padding = positions(own, new_positions, value, count, new_positions - count);
                assert!(padding.iter().all(|y| *y == 0.0), "padding sees nothing");
            }
        }
        step.commit().unwrap();
        starts.iter_mut().zip(*counts).for_each(|(start, count)| *start += count);
        assert_eq!(cache.lengths(), starts);
    }
}

#[test]
fn samples_of_any_lengths_equal_each_sample_alone() {
    let steps: [&[usize]; 5] = [&[3, 1, 0], &[1, 1, 1], &[0, 2, 3], &[1, 0, 1], &[2, 3, 1]];
    for sizes in [[3, 2, 7, 4, 5], [3, 3, 7, 3, 3], [3, 1, 7, 1, 2]] {
        ragged_equals_alone::<f32>(sizes, &steps);
        ragged_equals_alone::<f64>(sizes, &steps);
        ragged_equals_alone::<f16>(sizes, &steps);
        ragged_equals_alone::<bf16>(sizes, &steps);
    }
    ragged_equals_alone::<f32>([1, 2, 4, 3, 3], &[&[2], &[0], &[1], &[1]]);
    ragged_equals_alone::<f32>([2, 2, 4, 3, 3], &[&[2, 4], &[2, 0]]);
    ragged_equals_alone::<f32>([0, 2, 4, 3, 3], &[&[], &[]]);
}

#[test]
fn samples_that_were_rewound_go_on_from_their_own_lengths() {
    dyn_size!(b = 2, h = 1, cap = 6, d = 1);
    let shape = (Batch(b), Heads(h), Key(cap), HeadDim(d));
    let mut cache: KvCache<_, _, _, _> = KvCache::try_new_in(shape, HeadDim(d), 1).unwrap();
    let mut step = cache.begin(Seq(shapeproof::C::<4>)).unwrap();
    let keys = (Batch(b), Heads(h), Key(shapeproof::C::<4>), HeadDim(d));
    let values = tensor(keys, &[0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]);
    step.append(0, &values, &values).unwrap();
    step.commit().unwrap();
    cache.truncate_each(&[1, 3]).unwrap();
    assert_eq!(cache.lengths(), [1, 3]);
    assert!(cache.length().unwrap_err().is_shape());
    assert!(cache.begin(Seq(shapeproof::C::<1>)).is_err(), "the samples differ in length");

    let mut step = cache.begin_ragged(Seq(shapeproof::C::<1>), &[1, 1]).unwrap();
    assert_eq!(step.positions().to_vec(), [1, 3]);
    let one = (Batch(b), Heads(h), Key(shapeproof::C::<1>), HeadDim(d));
    let value = tensor(one, &[7.0, 17.0]);
    step.append(0, &value, &value).unwrap();
    let (keys, _, mask) = step.view(0, Key(shapeproof::C::<4>)).unwrap();
    assert_eq!(keys.to_vec(), [0.0, 7.0, 2.0, 3.0, 10.0, 11.0, 12.0, 17.0]);
    assert_eq!(mask.to_vec(), [true, true, false, false, true, true, true, true]);
    step.commit().unwrap();
    cache.truncate(2).unwrap();
    assert_eq!(cache.length().unwrap(), 2, "all samples have one length again");
}
