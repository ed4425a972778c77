//! Views and clones that outlive a step keep what they saw.

use shapeproof::{Batch, C, HeadDim, Heads, Key, KvCache, Seq, Tensor};

type Cache = KvCache<C<1>, Heads<C<2>>, C<6>, C<1>>;
type Keys<T> = Tensor<(Batch<C<1>>, Heads<C<2>>, Key<T>, HeadDim<C<1>>)>;

/// One step of one position with this key; what it then sees.
fn append(cache: &mut Cache, key: f32) -> Vec<f32> {
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    step.append(0, &Keys::full(key), &Keys::full(key)).unwrap();
    shapeproof::dyn_size!(keys = step.keys());
    let seen = step.view(0, Key(keys)).unwrap().0.to_vec();
    step.commit().unwrap();
    seen
}

#[test]
fn a_view_that_is_still_there_never_changes() {
    let mut cache = Cache::try_new(1).unwrap();
    append(&mut cache, 1.0);
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    step.append(0, &Keys::full(2.0), &Keys::full(2.0)).unwrap();
    let (view, _) = step.view(0, Key(C::<2>)).unwrap();
    step.commit().unwrap();
    cache.truncate(1).unwrap();
    assert_eq!(append(&mut cache, 3.0), [1.0, 3.0, 1.0, 3.0]);
    assert_eq!(view.to_vec(), [1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut one = Cache::try_new(1).unwrap();
    append(&mut one, 1.0);
    let mut other = one.clone();
    append(&mut one, 2.0);
    append(&mut other, 3.0);
    assert_eq!(append(&mut one, 4.0), [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]);
    assert_eq!(append(&mut other, 5.0), [1.0, 3.0, 5.0, 1.0, 3.0, 5.0]);
}

#[test]
fn strided_keys_are_appended_as_their_packed_copies() {
    let mut cache = Cache::try_new(1).unwrap();
    type Turned = Tensor<(Batch<C<1>>, Key<C<3>>, Heads<C<2>>, HeadDim<C<1>>)>;
    let turned = Turned::from([[[[1.0], [4.0]], [[2.0], [5.0]], [[3.0], [6.0]]]]);
    let keys: Keys<C<3>> = turned.transpose(Key, Heads);
    let mut step = cache.begin(Seq(C::<3>)).unwrap();
    step.append(0, &keys, &keys.packed()).unwrap();
    let (k, v) = step.view(0, Key(C::<3>)).unwrap();
    assert_eq!(k.to_vec(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(k, v);
}
