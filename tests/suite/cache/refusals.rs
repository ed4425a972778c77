//! Refused calls leave the cache as it was.

use shapeproof::{
    Batch, C, HeadDim, Heads, Key, KvCache, Mode, Parameter, Seq, Tensor, Train, dyn_size,
};

type Cache = KvCache<C<2>, Heads<C<1>>, C<4>, C<1>>;
type Keys<T> = Tensor<(Batch<C<2>>, Heads<C<1>>, Key<T>, HeadDim<C<1>>)>;

/// Two layers of three positions, sample b with the keys 10b, 10b + 1, 10b + 2, negative
/// in the second layer, whose values are twice the keys.
fn filled() -> Cache {
    let mut cache = Cache::try_new(2).unwrap();
    let keys = Keys::<C<3>>::from([[[[0.0], [1.0], [2.0]]], [[[10.0], [11.0], [12.0]]]]);
    let mut step = cache.begin(Seq(C::<3>)).unwrap();
    step.append(0, &keys, &keys.add(&keys)).unwrap();
    step.append(1, &keys.neg(), &keys.add(&keys).neg()).unwrap();
    step.commit().unwrap();
    cache
}

/// Keys of both layers, values behind them, as a step of no new position sees them.
fn contents(cache: &mut Cache) -> Vec<Vec<f32>> {
    let mut step = cache.begin(Seq(C::<0>)).unwrap();
    dyn_size!(keys = step.keys());
    let mut all = Vec::new();
    for layer in 0..2 {
        step.append(layer, &Tensor::zeros(), &Tensor::zeros()).unwrap();
        let (k, v) = step.view(layer, Key(keys)).unwrap();
        all.extend([k.to_vec(), v.to_vec()]);
    }
    all
}

fn is_as_filled(cache: &mut Cache) {
    let keys = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0];
    let times = |factor: f32| keys.iter().map(|x| x * factor).collect::<Vec<_>>();
    assert_eq!(contents(cache), [times(1.0), times(2.0), times(-1.0), times(-2.0)]);
    assert_eq!(cache.lengths(), [3, 3]);
}

#[test]
fn what_has_no_room_is_refused() {
    let mut cache = filled();
    let error = cache.begin(Seq(C::<2>)).err().unwrap();
    assert!(error.is_shape());
    assert_eq!(
        error.to_string(),
        "a cache of 4 positions that holds 3 has room for 1 more, not for 2"
    );
    dyn_size!(huge = usize::MAX);
    assert!(cache.begin(Seq(huge)).is_err());
    let error = cache.begin_ragged(Seq(C::<2>), &[1, 2]).err().unwrap().to_string();
    assert_eq!(
        error,
        "sample 1: a cache of 4 positions that holds 3 has room for 1 more, not for 2"
    );
    let error = cache.begin_ragged(Seq(C::<1>), &[2, 1]).err().unwrap().to_string();
    assert_eq!(error, "sample 0: expected at most 1 new positions, found 2");
    assert!(cache.begin_ragged(Seq(C::<2>), &[3, 1]).is_err(), "more than the step has");
    assert!(cache.begin_ragged(Seq(C::<2>), &[1]).is_err(), "a count for each sample");
    is_as_filled(&mut cache);
}

#[test]
fn a_cache_does_not_lose_a_gradient_in_silence() {
    let mut cache = filled();
    let keys = Parameter::new(Keys::<C<1>>::ones());
    let (read, plain) = (Train::seeded(1).read(&keys), Keys::<C<1>>::ones());
    let words = "recorded for gradients, which a cache does not keep; `detach()` them";
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    for (keys, values) in [(&read, &plain), (&plain, &read)] {
        let error = step.append(0, keys, values).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    step.append(0, &read.detach(), &plain).unwrap();
    drop(step);
    let mut step = cache.begin_ragged(Seq(C::<1>), &[1, 0]).unwrap();
    assert!(step.append(0, &plain, &read).unwrap_err().to_string().contains(words));
    drop(step);
    is_as_filled(&mut cache);
}

#[test]
fn a_step_without_commit_leaves_nothing() {
    let mut cache = filled();
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    step.append(0, &Keys::full(7.0), &Keys::full(7.0)).unwrap();
    step.append(1, &Keys::full(7.0), &Keys::full(7.0)).unwrap();
    drop(step);
    is_as_filled(&mut cache);

    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    step.append(1, &Keys::full(7.0), &Keys::full(7.0)).unwrap();
    let error = step.commit().unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer 0 has not been written in this step, which cannot be committed"
    );
    is_as_filled(&mut cache);

    let mut step = cache.begin_ragged(Seq(C::<1>), &[1, 0]).unwrap();
    step.append(0, &Keys::full(7.0), &Keys::full(7.0)).unwrap();
    assert!(step.commit().is_err());
    is_as_filled(&mut cache);
}

#[test]
fn a_layer_is_written_once_and_then_seen() {
    let mut cache = filled();
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    let keys = Keys::<C<1>>::full(7.0);
    let error = step.append(2, &keys, &keys).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "expected a layer below 2, found layer 2");
    assert!(step.view(0, Key(C::<4>)).is_err(), "not written yet");
    step.append(0, &keys, &keys).unwrap();
    assert!(step.append(0, &Keys::full(8.0), &keys).is_err(), "written already");
    let error = step.view(0, Key(C::<3>)).unwrap_err();
    assert_eq!(error.to_string(), "expected 4 keys, found 3");
    assert!(step.mask(Key(C::<5>)).is_err());
    assert!(step.view(9, Key(C::<4>)).is_err());
    let (k, _) = step.view(0, Key(C::<4>)).unwrap();
    assert_eq!(k.to_vec(), [0.0, 1.0, 2.0, 7.0, 10.0, 11.0, 12.0, 7.0]);
}

#[test]
fn rewinding_forgets_the_last_positions_and_no_others() {
    let mut cache = filled();
    let error = cache.truncate(4).unwrap_err();
    assert_eq!(error.to_string(), "cannot rewind sample 0 to 4 positions, it has 3");
    assert!(cache.truncate_each(&[3, 4]).is_err());
    assert!(cache.truncate_each(&[3]).is_err());
    assert!(cache.truncate_each(&[1, 2, 3]).is_err());
    is_as_filled(&mut cache);
    cache.truncate(1).unwrap();
    assert_eq!(contents(&mut cache)[0], [0.0, 10.0]);
    let mut step = cache.begin(Seq(C::<2>)).unwrap();
    for layer in 0..2 {
        step.append(layer, &Keys::full(7.0), &Keys::full(8.0)).unwrap();
    }
    step.commit().unwrap();
    assert_eq!(contents(&mut cache)[2], [0.0, 7.0, 7.0, -10.0, 7.0, 7.0]);
    cache.clear();
    assert_eq!(cache.length().unwrap(), 0);
    assert_eq!(contents(&mut cache)[0], [0.0; 0]);
}

#[test]
fn reordered_samples_take_their_keys_values_and_lengths_along() {
    let mut cache = filled();
    for wrong in [&[0][..], &[0, 1, 0], &[0, 2], &[usize::MAX, 0]] {
        assert!(cache.reorder(wrong).is_err());
    }
    cache.reorder(&[0, 1]).unwrap();
    is_as_filled(&mut cache);
    cache.truncate_each(&[2, 3]).unwrap();
    cache.reorder(&[1, 0]).unwrap();
    assert_eq!(cache.lengths(), [3, 2]);
    cache.truncate(2).unwrap();
    assert_eq!(
        contents(&mut cache),
        [
            [10.0, 11.0, 0.0, 1.0],
            [20.0, 22.0, 0.0, 2.0],
            [-10.0, -11.0, 0.0, -1.0],
            [-20.0, -22.0, 0.0, -2.0]
        ]
    );
    cache.reorder(&[0, 0]).unwrap();
    assert_eq!(contents(&mut cache)[0], [10.0, 11.0, 10.0, 11.0]);
}

#[test]
fn sizes_beyond_the_machine_are_refused() {
    for [batch, heads, capacity, dim] in [
        [usize::MAX, 1, 1, 1],
        [1, usize::MAX, 2, 2],
        [1, 1, usize::MAX, 8],
        [0, 1, usize::MAX, usize::MAX],
        [1, 1, 1, usize::MAX],
    ] {
        dyn_size!(b = batch, h = heads, cap = capacity, d = dim);
        let shape = (Batch(b), Heads(h), Key(cap), HeadDim(d));
        let cache: shapeproof::Result<KvCache<_, _, _, _>> =
            KvCache::try_new_in(shape, HeadDim(d), 1);
        assert!(cache.unwrap_err().is_overflow(), "{batch} {heads} {capacity} {dim}");
    }
    dyn_size!(half = usize::MAX / 2 + 1);
    let shape = (Batch(C::<0>), Heads(C::<1>), Key(half), HeadDim(C::<1>));
    let ring: shapeproof::Result<KvCache<_, _, _, _>> =
        KvCache::try_ring_in(shape, HeadDim(C::<1>), 1, 1);
    assert!(ring.unwrap_err().is_overflow());
    let layers: shapeproof::Result<Cache> = Cache::try_new(usize::MAX);
    assert!(layers.unwrap_err().is_overflow());
    // What can be counted, but not held.
    dyn_size!(much = 1 << 56);
    let shape = (Batch(C::<1>), Heads(C::<1>), Key(much), HeadDim(C::<1>));
    let cache: shapeproof::Result<KvCache<_, _, _, _>> =
        KvCache::try_new_in(shape, HeadDim(C::<1>), 1);
    assert!(cache.unwrap_err().to_string().starts_with("no memory for"));
    // What is empty, but many.
    dyn_size!(samples = 1 << 61);
    let shape = (Batch(samples), Heads(C::<0>), Key(C::<1>), HeadDim(C::<1>));
    let cache: shapeproof::Result<KvCache<_, _, _, _>> =
        KvCache::try_new_in(shape, HeadDim(C::<1>), 1);
    assert!(cache.unwrap_err().to_string().starts_with("no memory for"));
    let layers = KvCache::<C<0>, Heads<C<1>>, C<1>, C<1>>::try_new(1 << 58);
    assert!(layers.unwrap_err().to_string().starts_with("no memory for"));
}
