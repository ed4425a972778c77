//! What a step does besides its rule: groups, freezing, sharing, in place, the same bits anywhere.

use super::{Pair, Small, given};
use crate::modules::bits;
use crate::properties::threads::the_same_in_pools;
use shapeproof::{
    Adam, AdamW, C, Float, Gradients, Hidden, Mode, Model, Module, Optimizer, Parameter, Sgd,
    Tensor, Train, UpdateRule, parameters,
};
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn groups_have_their_own_settings_by_name() {
    let decayed = AdamW { weight_decay: 0.5, ..AdamW::default() };
    let plain = AdamW { weight_decay: 0.0, ..decayed };
    let step = |optimizer: Optimizer<AdamW>| {
        let (mut pair, mut optimizer) = (Small::<f64>::new(1.0), optimizer);
        for _ in 0..3 {
            let gradients = pair.gradients();
            optimizer.step(&mut pair, &gradients, 0.1).unwrap();
        }
        pair
    };
    let all = step(Optimizer::try_new(decayed).unwrap());
    let none = step(Optimizer::try_new(plain).unwrap());
    let grouped = Optimizer::try_new(decayed).unwrap();
    let grouped = grouped.try_group(|name| name.contains("norm"), plain).unwrap();
    // A later group does not count where an earlier one does.
    let grouped = grouped.try_group(|name| name == "norm.weight", decayed).unwrap();
    let grouped = step(grouped);
    assert_ne!(all.weight.value(), none.weight.value());
    assert_ne!(all.bias.value(), none.bias.value());
    assert_eq!(grouped.weight.value(), none.weight.value());
    assert_eq!(grouped.bias.value(), all.bias.value());
}

#[test]
fn a_group_may_have_a_rate_of_its_own() {
    let mut pair = Small::<f64>::new(1.0);
    let before = (pair.weight.value(), pair.bias.value());
    let gradients = pair.gradients();
    let optimizer = Optimizer::try_new(Sgd::default()).unwrap();
    let mut optimizer = optimizer.try_scale_rate(|name| name == "bias", 0.25).unwrap();
    optimizer.step(&mut pair, &gradients, 0.5).unwrap();
    let moved = before.0.sub(&gradients.of(&pair.weight).mul_scalar(0.5));
    assert!(pair.weight.value().all_close(&moved, 1e-15, 0.0));
    let moved = before.1.sub(&gradients.of(&pair.bias).mul_scalar(0.125));
    assert!(pair.bias.value().all_close(&moved, 1e-15, 0.0));
}

#[test]
fn frozen_parameters_keep_their_values() {
    let mut pair = Small::<f32>::new(1.0);
    let (weight, bias) = (pair.weight.value(), pair.bias.value());
    let gradients = pair.gradients();
    let optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    let mut optimizer = optimizer.freeze(|name| name.starts_with("norm."));
    optimizer.step(&mut pair, &gradients, 0.1).unwrap();
    assert_eq!(pair.weight.value(), weight);
    assert_ne!(pair.bias.value(), bias);
}

#[test]
fn a_parameter_without_a_gradient_stays_and_is_not_counted() {
    // The bias gets its first gradient late: its update is then the first, for Adam's corrections.
    let mut late = Small::<f64>::new(1.0);
    let mut optimizer = Optimizer::try_new(Adam::default()).unwrap();
    let bias = late.bias.value();
    for _ in 0..5 {
        let gradients = given(&late, &[1.0; 6]);
        optimizer.step(&mut late, &gradients, 0.1).unwrap();
    }
    assert_eq!(late.bias.value(), bias);
    let gradients = late.gradients();
    optimizer.step(&mut late, &gradients, 0.1).unwrap();
    // The first update of Adam moves by the rate, whatever the gradient.
    let moved = bias.add_scalar(-0.1);
    assert!(late.bias.value().all_close(&moved, 1e-7, 0.0));
}

struct Tied {
    first: Parameter<(Model<C<2>>,), f64>,
    second: Parameter<(Model<C<2>>,), f64>,
}

impl Module for Tied {
    shapeproof::parameters!(first, second);
}

#[test]
fn a_shared_parameter_is_updated_once() {
    let first = Parameter::new(Tensor::from([1.0, 2.0]));
    let mut tied = Tied { second: first.tied(), first };
    let mut optimizer = Optimizer::try_new(Sgd { momentum: 0.5, ..Sgd::default() }).unwrap();
    let mut train = Train::seeded(1);
    let (first, second) = (train.read(&tied.first), train.read(&tied.second));
    let loss = first.sum_all().add(&second.mul_scalar(3.0).sum_all());
    let gradients = train.backward(&loss);
    drop((first, second, loss));
    optimizer.step(&mut tied, &gradients, 1.0).unwrap();
    assert_eq!(tied.second.value().to_vec(), [-3.0, -2.0]);
    optimizer.step(&mut tied, &gradients, 1.0).unwrap();
    assert_eq!(tied.first.value().to_vec(), [-9.0, -8.0]);
    assert_eq!(parameters(&tied).len(), 1);
}

/// A thread that waits for its part of an update may be given what reads the parameter's other place.
#[test]
fn a_step_ends_though_the_pool_reads_a_second_place_of_the_parameter_meanwhile() {
    struct Large {
        at: Parameter<(Model<C<65536>>,)>,
    }
    impl Module for Large {
        shapeproof::parameters!(at);
    }
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut large = Large { at: Parameter::zeros() };
        let second = large.at.tied();
        let mut train = Train::seeded(1);
        let loss = train.read(&large.at).sum_all();
        let gradients = train.backward(&loss);
        drop(loss);
        let mut optimizer = Optimizer::try_new(Sgd::default()).unwrap();
        for _ in 0..300 {
            let step = || optimizer.step(&mut large, &gradients, 0.5).unwrap();
            let reads = || (0..50).all(|_| second.value().try_at(&[65535]).unwrap() <= 0.0);
            assert!(rayon::join(step, reads).1);
        }
        assert_eq!(second.value(), Tensor::full(-150.0));
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(120)).expect("no thread waits for itself");
}

#[test]
fn a_step_writes_where_the_parameter_is() {
    fn place<E: Float>(pair: &Small<E>) -> *const E {
        pair.weight.value().as_slice().unwrap().as_ptr()
    }
    let mut pair = Small::<f32>::new(1.0);
    let mut optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    let before = place(&pair);
    for _ in 0..3 {
        let gradients = pair.gradients();
        optimizer.step(&mut pair, &gradients, 0.1).unwrap();
        assert_eq!(place(&pair), before);
    }
    // What something else holds does not change under it.
    let (held, numbers) = (pair.weight.value(), pair.weight.value().to_vec());
    let gradients = pair.gradients();
    optimizer.step(&mut pair, &gradients, 0.1).unwrap();
    assert_eq!(held.to_vec(), numbers);
    assert_ne!(pair.weight.value().to_vec(), numbers);
    assert_ne!(place(&pair), before);
}

#[test]
fn strided_parameters_and_gradients_are_updated_as_packed_ones() {
    let (mut packed, mut strided) = (Small::<f32>::new(1.0), Small::<f32>::new(1.0));
    let columns = strided.weight.value().transpose(Model, Hidden).packed();
    strided.weight.set(columns.transpose(Hidden, Model));
    assert!(strided.weight.value().as_slice().is_none());
    let rule = AdamW { amsgrad: true, ..AdamW::default() };
    let optimizers = [0; 2].map(|_| Optimizer::try_new(rule).unwrap());
    for (pair, mut optimizer) in [&mut packed, &mut strided].into_iter().zip(optimizers) {
        for _ in 0..4 {
            let gradients = pair.gradients();
            optimizer.step(pair, &gradients, 0.1).unwrap();
        }
    }
    assert_eq!(bits(&packed), bits(&strided));
}

#[test]
fn a_step_has_the_same_bits_for_every_number_of_threads() {
    type Large = Pair<C<300>, C<250>>;
    fn run<R: UpdateRule + Copy>(rule: R) {
        the_same_in_pools(&format!("{rule:?}"), || {
            let mut pair = Large::new(-5.0);
            let mut optimizer = Optimizer::try_new(rule).unwrap();
            for _ in 0..3 {
                let mut train = Train::seeded(1);
                let loss = train.read(&pair.weight).sum_all();
                let gradients = train.backward(&loss);
                drop(loss);
                optimizer.step(&mut pair, &gradients, 0.1).unwrap();
            }
            bits(&pair)
        });
    }
    run(AdamW { amsgrad: true, ..AdamW::default() });
    run(Sgd { momentum: 0.9, weight_decay: 0.1, ..Sgd::default() });
    run(Sgd { weight_decay: 0.1, ..Sgd::default() });
}

#[test]
fn empty_parameters_are_updated() {
    let mut pair = Pair::<C<0>, C<1>, f64>::new(1.0);
    let mut optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    let before = pair.bias.value();
    for _ in 0..2 {
        let gradients = pair.gradients();
        optimizer.step(&mut pair, &gradients, 0.1).unwrap();
    }
    assert!(pair.weight.value().to_vec().is_empty());
    assert_ne!(pair.bias.value(), before);
}

#[test]
fn micro_batches_add_up_to_the_batch() {
    let pair = Small::<f64>::new(1.0);
    let whole = given(&pair, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mut sum = Gradients::default();
    for part in [[0.5, 3.0, 1.0, 0.0, 9.0, 8.0], [1.5, 1.0, 5.0, 8.0, 1.0, 4.0]] {
        sum.add(&given(&pair, &part));
    }
    sum.scale(0.5);
    assert_eq!(sum.of(&pair.weight), whole.of(&pair.weight));
}
