//! A ring of the last positions.

use shapeproof::{C, Heads, Key, KvCache, Seq, Tensor, bf16, f16};

use super::{Layer, steps_equal_the_whole};
use crate::random::Random;

#[test]
fn a_ring_equals_a_full_cache_with_a_window_mask() {
    for (sizes, capacity, window) in [
        ([2, 3, 29, 4, 5], 6, 4),
        ([3, 3, 9, 3, 3], 3, 3),
        ([1, 2, 17, 4, 3], 5, 1),
        ([2, 1, 17, 3, 4], 1, 1),
        ([2, 2, 8, 3, 3], 20, 5),
        ([0, 2, 9, 3, 3], 4, 2),
    ] {
        let layers = [Layer::random(sizes, 11), Layer::random(sizes, 12)];
        let mut random = Random::new(13);
        let mut drawn = Vec::new();
        while drawn.iter().sum::<usize>() < sizes[2] {
            let left = sizes[2] - drawn.iter().sum::<usize>();
            drawn.push((random.below(capacity) + 1).min(left));
        }
        for steps in [vec![1; sizes[2]], drawn] {
            steps_equal_the_whole::<f32>(&layers, capacity, Some(window), &steps);
            steps_equal_the_whole::<f64>(&layers, capacity, Some(window), &steps);
            steps_equal_the_whole::<f16>(&layers, capacity, Some(window), &steps);
            steps_equal_the_whole::<bf16>(&layers, capacity, Some(window), &steps);
        }
    }
}

type Ring = KvCache<C<1>, Heads<C<1>>, C<4>, C<1>>;

/// Appends positions whose keys are their numbers.
fn append(ring: &mut Ring, positions: std::ops::Range<usize>) {
    for position in positions {
        let mut step = ring.begin(Seq(C::<1>)).unwrap();
        assert_eq!(step.start(), position);
        let key = Tensor::full(f32::from(u8::try_from(position).unwrap()));
        step.append(0, &key, &key).unwrap();
        step.commit().unwrap();
    }
}

/// The keys that a step of one position sees, its own being 100.
fn seen(ring: &mut Ring) -> Vec<f32> {
    let mut step = ring.begin(Seq(C::<1>)).unwrap();
    step.append(0, &Tensor::full(100.0), &Tensor::full(100.0)).unwrap();
    let (first, start) = (step.first_position(), step.start());
    shapeproof::dyn_size!(keys = step.keys());
    assert_eq!(step.keys(), start - first + 1);
    step.view(0, Key(keys)).unwrap().0.to_vec()
}

#[test]
fn the_keys_of_a_ring_are_the_last_ones_in_order() {
    let mut ring = Ring::try_ring(1, 3).unwrap();
    for length in 0..23_usize {
        let keys: Vec<f32> =
            (length.max(2) - 2..length).map(|i| f32::from(u8::try_from(i).unwrap())).collect();
        assert_eq!(seen(&mut ring), [keys, vec![100.0]].concat(), "after {length}");
        assert_eq!(ring.first_kept(), length.saturating_sub(4));
        append(&mut ring, length..length + 1);
    }
}

#[test]
fn a_ring_is_rewound_as_far_as_it_keeps_what_is_seen() {
    let mut ring = Ring::try_ring(1, 3).unwrap();
    append(&mut ring, 0..10);
    // Positions 6 to 9 are kept; the query at 8 sees 6 and 7, the one at 7 would see 5.
    let error = ring.truncate(7).unwrap_err();
    let message = "cannot rewind to 7 positions: what follows sees position 5, the ring keeps those \
                   from 6 on";
    assert_eq!(error.to_string(), message);
    assert_eq!(ring.length().unwrap(), 10);
    assert_eq!(seen(&mut ring), [8.0, 9.0, 100.0]);
    ring.truncate(8).unwrap();
    assert_eq!(seen(&mut ring), [6.0, 7.0, 100.0]);
    append(&mut ring, 8..20);
    assert_eq!(seen(&mut ring), [18.0, 19.0, 100.0]);
    ring.clear();
    assert_eq!(seen(&mut ring), [100.0]);
    append(&mut ring, 0..3);
    ring.truncate(0).unwrap();
    assert_eq!(seen(&mut ring), [100.0]);
}

#[test]
fn a_ring_refuses_what_it_cannot_keep() {
    for window in [0, 5, usize::MAX] {
        assert!(Ring::try_ring(1, window).unwrap_err().is_value());
    }
    assert!(KvCache::<C<1>, Heads<C<1>>, C<0>, C<1>>::try_ring(1, 0).is_err());
    let mut ring = Ring::try_ring(1, 3).unwrap();
    let error = ring.begin(Seq(C::<5>)).err().unwrap();
    assert_eq!(error.to_string(), "a ring of 4 positions takes at most 4 in a step, not 5");
    assert!(ring.begin_ragged(Seq(C::<1>), &[1]).is_err());
    assert!(ring.truncate_each(&[0]).is_err());
    append(&mut ring, 0..6);
}
