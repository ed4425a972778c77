//! Clipping, by norm and by value.

use super::{Small, given};
use shapeproof::{Float, Gradients};

fn gradients<E: Float>(pair: &Small<E>) -> Gradients {
    given(pair, &[3.0, -4.0, 0.0, 12.0, 0.0, 84.0])
}

#[test]
fn the_norm_is_clipped_where_it_is_too_long() {
    fn check<E: Float>(tolerance: f64) {
        let pair = Small::<E>::new(0.0);
        for (limit, factor) in
            [(100.0, 1.0), (84.99, 84.99 / 85.000_001), (1e-3, 1e-3 / 85.000_001)]
        {
            let mut clipped = gradients(&pair);
            assert!((clipped.try_clip_norm(limit).unwrap() - 85.0).abs() < 1e-9);
            let want = gradients(&pair).of(&pair.weight).mul_scalar(factor);
            assert!(clipped.of(&pair.weight).all_close(&want, tolerance, 0.0), "{limit}");
            assert!(clipped.norm() <= limit * (1.0 + tolerance));
        }
    }
    check::<f32>(1e-6);
    check::<f64>(1e-14);
}

#[test]
fn values_are_clipped_one_by_one() {
    let pair = Small::<f32>::new(0.0);
    let mut clipped = gradients(&pair);
    clipped.try_clip_values(3.5).unwrap();
    assert_eq!(clipped.of(&pair.weight).to_vec(), [3.0, -3.5, 0.0, 3.5, 0.0, 3.5]);
}

#[test]
fn gradients_of_nothing_have_norm_0() {
    let mut none = Gradients::default();
    assert_eq!(none.try_clip_norm(1.0).unwrap().to_bits(), 0);
    none.try_clip_values(1.0).unwrap();
}

#[test]
fn what_cannot_be_clipped_is_left_as_it_is() {
    let pair = Small::<f64>::new(0.0);
    for limit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut kept = gradients(&pair);
        let error = kept.try_clip_norm(limit).unwrap_err();
        assert!(error.is_value(), "{error}");
        assert!(kept.try_clip_values(limit).unwrap_err().is_value());
        assert_eq!(kept.of(&pair.weight), gradients(&pair).of(&pair.weight));
    }
    for broken in [f64::NAN, f64::INFINITY] {
        let mut kept = given(&pair, &[1.0, broken, 2.0, 3.0, 4.0, 5.0]);
        let error = kept.try_clip_norm(1.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("expected a finite norm of gradients, found {broken}")
        );
        assert_eq!(kept.of(&pair.weight).to_vec()[5].to_bits(), 5.0f64.to_bits());
    }
}
