//! What must hold of every gradient: bits for any number of threads, hidden values, cuts, sharing.

use shapeproof::{
    Activation, Attention, Batch, C, Causal, Dropout, Embedding, FeatureMap, FeedForward,
    Generator, Gradients, HeadDim, Heads, Infer, Key, LayerNorm, Linear, LinearAttention, Mode,
    Model, Module, Optimizer, Parameter, Query, Seq, Sgd, Shape, Tensor, Train, Vocab, parameters,
    try_check_gradients, try_cross_entropy,
};

use crate::properties::threads::the_same_in_pools;

/// All gradients of a small model with every kind of kernel, as bits.
fn gradient_bits() -> Vec<u32> {
    let mut generator = Generator::seeded(3);
    let embedding = Embedding::<Vocab<C<50>>, Model<C<96>>>::normal(1.0, &mut generator);
    let norm = LayerNorm::<Model<C<96>>>::new(1e-5);
    let block = FeedForward::<C<96>, C<200>>::xavier(Activation::Gelu, &mut generator);
    let tokens = Tensor::<(Batch<C<8>>, Seq<C<40>>), u32>::from_fn(|at| {
        u32::try_from((at[0] * 7 + at[1] * 3) % 50).unwrap()
    });
    let mut train = Train::seeded(4);
    let x = embedding.try_forward(&tokens, &mut train).unwrap();
    let y = block.forward(&norm.forward(&x, &mut train), &mut train).add(&x).softmax(Seq).tanh();
    let loss = try_cross_entropy(&embedding.unembed(&y, &mut train), &tokens).unwrap();
    let gradients = train.backward(&loss);
    let mut bits = vec![];
    let mut all = |values: Vec<f32>| bits.extend(values.into_iter().map(f32::to_bits));
    all(gradients.of(&embedding.weight).to_vec());
    all(gradients.of(&norm.weight).to_vec());
    all(gradients.of(&norm.bias).to_vec());
    all(gradients.of(&block.up.weight).to_vec());
    all(gradients.of(&block.down.weight).to_vec());
    all(gradients.of(&block.down.bias).to_vec());
    let [high, low] = [gradients.norm().to_bits() >> 32, gradients.norm().to_bits()];
    bits.extend([high, low].map(|half| u32::try_from(half & 0xffff_ffff).unwrap()));
    bits
}

#[track_caller]
fn same(what: &str, bits: impl Fn() -> Vec<u32> + Sync) {
    let bits = the_same_in_pools(what, bits);
    assert!(bits.iter().any(|&bits| bits << 1 != 0), "{what}");
}

#[test]
fn gradients_have_the_same_bits_for_every_number_of_threads() {
    same("a model's gradients", gradient_bits);
}

#[test]
fn gradients_of_linear_attention_have_the_same_bits_for_every_number_of_threads() {
    fn normal<S: Shape + Default>(seed: u64) -> Parameter<S> {
        Parameter::new(Tensor::normal_in(S::default(), 0.0, 1.0, &mut Generator::seeded(seed)))
    }
    type By<S> = (Batch<C<2>>, Heads<C<3>>, S, HeadDim<C<24>>);
    let (q, k, v) = (
        normal::<By<Query<C<300>>>>(1),
        normal::<By<Key<C<310>>>>(2),
        normal::<By<Key<C<310>>>>(3),
    );
    for map in [FeatureMap::EluPlusOne, FeatureMap::Relu, FeatureMap::Normalized] {
        same(&format!("{map:?}"), || {
            let mut train = Train::seeded(1);
            let (q_read, k_read, v_read) = (train.read(&q), train.read(&k), train.read(&v));
            let y = LinearAttention::new(map).apply(&q_read, &k_read, &v_read, Causal);
            let gradients = train.backward(&y.mul(&y).sum_all());
            let all = [gradients.of(&k).to_vec(), gradients.of(&v).to_vec()].concat();
            let all = gradients.of(&q).to_vec().into_iter().chain(all);
            all.map(f32::to_bits).collect()
        });
    }
}

#[test]
fn nan_in_a_hidden_place_reaches_no_gradient() {
    type Shape = (Query<C<2>>, Key<C<3>>);
    let keep = Tensor::<(Key<C<3>>,), bool>::from([true, false, true]);
    for hidden in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let p = Parameter::new(Tensor::<Shape>::from([[1.0, hidden, 2.0], [0.5, hidden, 0.25]]));
        let zero = Tensor::<(), f32>::scalar(0.0);
        let mut train = Train::seeded(1);
        let x = train.read(&p);
        let weights = Tensor::<Shape>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        let results = [
            x.masked_softmax(Key, &keep).mul(&weights).sum_all(),
            x.masked_log_softmax(Key, &keep).where_or(&keep, &zero).mul(&weights).sum_all(),
            x.where_or(&keep, &zero).exp().mul(&weights).sum_all(),
        ];
        for (i, loss) in results.iter().enumerate() {
            let gradient = train.backward(loss).of(&p);
            assert!(loss.value().is_finite(), "{i} {hidden}");
            assert!(gradient.to_vec().iter().all(|g| g.is_finite()), "{i} {hidden}: {gradient}");
            let [a, b] = [0, 1].map(|row| gradient.try_at(&[row, 1]).unwrap());
            assert_eq!([a, b], [0.0, 0.0], "{i}");
            assert!(gradient.to_vec().iter().any(|&g| g != 0.0), "{i}");
        }
    }
}

#[test]
fn a_row_in_which_nothing_is_visible_has_gradient_0() {
    let p = Parameter::new(Tensor::<(Query<C<1>>, Key<C<3>>)>::from([[1.0, 2.0, 3.0]]));
    let none = Tensor::<(Key<C<3>>,), bool>::full(false);
    let mut train = Train::seeded(1);
    let loss = train.read(&p).masked_softmax(Key, &none).exp().sum_all();
    assert_eq!(train.backward(&loss).of(&p).to_vec(), [0.0; 3]);
}

#[test]
fn a_parameter_that_is_used_twice_gets_the_sum_and_one_that_is_not_gets_zeros() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([2.0, 3.0]));
    let (tied, other) = (p.tied(), Parameter::<(Model<C<2>>,)>::zeros());
    let mut train = Train::seeded(1);
    let loss = train.read(&p).mul(&train.read(&tied)).sum_all();
    let gradients = train.backward(&loss);
    assert_eq!(gradients.of(&p).to_vec(), [4.0, 6.0]);
    assert_eq!(gradients.of(&tied), gradients.of(&p));
    assert_eq!(gradients.of(&other), Tensor::zeros());
}

#[test]
fn what_is_read_under_infer_or_detached_gets_no_gradient() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([2.0, 3.0]));
    let train = Train::seeded(1);
    let under_infer = Infer.read(&p).mul(&Infer.read(&p)).sum_all();
    assert_eq!(train.backward(&under_infer).of(&p), Tensor::zeros());
    let mut train = Train::seeded(1);
    let cut = train.read(&p).mul_scalar(2.0).detach().sum_all();
    assert_eq!(train.backward(&cut).of(&p), Tensor::zeros());
    assert_eq!(train.backward(&cut).norm(), 0.0);
}

#[test]
fn a_tensor_that_changes_after_its_use_changes_no_gradient() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([2.0, 3.0]));
    let mut train = Train::seeded(1);
    let mut x = train.read(&p).mul_scalar(1.0);
    let square = x.mul(&x).sum_all();
    x.mul_scalar_in_place(100.0);
    x.try_assign(Model, 0, &Tensor::scalar(7.0)).unwrap();
    assert_eq!(train.backward(&square).of(&p).to_vec(), [4.0, 6.0]);
    assert_eq!(train.backward(&x.sum_all()).of(&p).to_vec(), [0.0, 100.0]);
}

/// Of two views of a transposed tensor, one passes on a gradient that another tensor has too; what the other
/// view adds must go to the tensor's own places all the same.
#[test]
fn views_of_what_lies_transposed_add_up_where_a_gradient_is_shared() {
    let value = Tensor::<(Query<C<2>>, Key<C<3>>)>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let p = Parameter::new(value.transpose(Query, Key));
    let q = Parameter::<(Query<C<2>>, Key<C<3>>)>::zeros();
    let mut train = Train::seeded(1);
    let x = train.read(&p);
    let part = x.try_slice(Key, 1, C::<2>).unwrap();
    let sum = x.transpose(Key, Query).add(&train.read(&q));
    let weights = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let of_part = Tensor::from([[10.0, 20.0], [30.0, 40.0]]);
    let loss = sum.mul(&weights).sum_all().add(&part.mul(&of_part).sum_all());
    let gradients = train.backward(&loss);
    assert_eq!(gradients.of(&p).to_vec(), [1.0, 4.0, 12.0, 25.0, 33.0, 46.0]);
    assert_eq!(gradients.of(&q), weights);
}

#[test]
fn setting_a_parameter_does_not_tie_it_to_what_the_value_was_computed_from() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([2.0, 3.0]));
    let mut train = Train::seeded(1);
    let mut q = Parameter::new(train.read(&p));
    q.set(train.read(&p).mul_scalar(2.0));
    let gradients = train.backward(&train.clone().read(&q).sum_all());
    assert_eq!(gradients.of(&p), Tensor::zeros());
    assert_eq!(gradients.of(&q), Tensor::ones());
}

#[test]
fn the_first_of_equals_gets_the_gradient_of_an_extreme() {
    let p = Parameter::new(Tensor::<(Key<C<4>>,)>::from([1.0, 3.0, 3.0, 1.0]));
    let mut train = Train::seeded(1);
    let x = train.read(&p);
    assert_eq!(train.backward(&x.max(Key)).of(&p).to_vec(), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(train.backward(&x.min(Key)).of(&p).to_vec(), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_chain_of_a_hundred_thousand_operations_ends_without_running_out_of_stack() {
    let p = Parameter::new(Tensor::<(), f32>::scalar(1.0));
    let mut train = Train::seeded(1);
    let mut x = train.read(&p);
    for _ in 0..100_000 {
        x = x.add_scalar(1.0);
    }
    assert_eq!(train.backward(&x).of(&p).value(), 1.0);
}

/// A sum's gradient is one number, repeated along both axes of the product.
#[test]
fn a_summed_product_of_wide_matrices_has_the_gradient_of_its_terms() {
    let mut generator = Generator::seeded(9);
    let x = Tensor::<(Seq<C<5>>, Model<C<256>>)>::normal(0.0, 1.0, &mut generator);
    let weight = Tensor::<(Model<C<256>>, Vocab<C<3>>)>::normal(0.0, 1.0, &mut generator);
    let weight = Parameter::new(weight);
    let mut train = Train::seeded(1);
    let loss = x.dot(&train.read(&weight), Model).sum_all();
    let found = train.backward(&loss).of(&weight);
    let expected = x.sum(Seq).to_vec();
    for (found, expected) in found.to_vec().chunks(3).zip(expected) {
        assert!(found.iter().all(|x| (x - expected).abs() < 1e-5), "{found:?} {expected}");
    }
}

#[test]
fn gradients_pass_between_element_types() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([2.0, 3.0]));
    let q = Parameter::new(Tensor::<(Model<C<2>>,), f64>::from([5.0, 7.0]));
    let mut train = Train::seeded(1);
    let loss = train.read(&p).to::<f64>().mul(&train.read(&q)).sum_all().to::<f32>();
    let gradients = train.backward(&loss);
    assert_eq!(gradients.of(&p).to_vec(), [5.0, 7.0]);
    assert_eq!(gradients.of(&q).to_vec(), [2.0, 3.0]);
}

#[test]
fn gradients_add_up_scale_and_know_what_is_not_finite() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    let q = Parameter::new(Tensor::<(Model<C<1>>,)>::from([12.0]));
    let mut train = Train::seeded(1);
    let half = |train: &mut Train, x: Tensor<(Model<C<2>>,)>| {
        let loss = x.mul(&x).sum_all().mul_scalar(0.5);
        train.backward(&loss)
    };
    let x = train.read(&p);
    let mut sum = half(&mut train, x);
    let y = train.read(&q);
    sum.add(&train.backward(&y.mul(&y).sum_all().mul_scalar(0.5)));
    assert_eq!(sum.norm(), 13.0);
    sum.add(&sum.clone());
    sum.scale(0.25);
    assert_eq!(sum.of(&p).to_vec(), [1.5, 2.0]);
    assert_eq!(sum.of(&q).to_vec(), [6.0]);
    assert!(sum.is_finite());
    sum.scale(f64::INFINITY);
    assert!(!sum.is_finite());
    assert!(Gradients::default().is_finite());
    assert_eq!(format!("{:?}", Gradients::default()), "Gradients { parameters: 0, norm: 0.0 }");
}

#[test]
fn backward_may_be_asked_twice() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    let mut train = Train::seeded(1);
    let x = train.read(&p);
    let loss = x.mul(&x).sum_all();
    let twice = [0, 1].map(|_| train.backward(&loss).of(&p).to_vec());
    assert_eq!(twice, [vec![6.0, 8.0], vec![6.0, 8.0]]);
}

#[test]
fn what_changes_between_the_passes_changes_no_gradient() {
    let square = |train: &mut Train, p: &Parameter<(Model<C<2>>,)>| {
        let x = train.read(p);
        x.mul(&x).sum_all()
    };
    let mut p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    let mut train = Train::seeded(1);
    let loss = square(&mut train, &p);
    p.set(Tensor::from([100.0, 200.0]));
    assert_eq!(train.backward(&loss).of(&p).to_vec(), [6.0, 8.0]);
    // A step writes where the value is, unless something else holds it: here, what was recorded.
    let mut one = One { p };
    let mut optimizer = Optimizer::try_new(Sgd::default()).unwrap();
    let loss = square(&mut train, &one.p);
    for _ in 0..2 {
        let gradients = train.backward(&loss);
        assert_eq!(gradients.of(&one.p).to_vec(), [200.0, 400.0]);
        optimizer.step(&mut one, &gradients, 0.125).unwrap();
    }
    assert_eq!(one.p.value().to_vec(), [50.0, 100.0]);
}

struct One {
    p: Parameter<(Model<C<2>>,)>,
}
impl Module for One {
    parameters!(p);
}

#[test]
fn a_loss_that_is_used_twice_counts_twice() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    let mut train = Train::seeded(1);
    let x = train.read(&p);
    let loss = x.mul(&x).sum_all();
    let twice = loss.add(&loss.mul_scalar(2.0)).add(&loss.detach());
    assert_eq!(train.backward(&twice).of(&p).to_vec(), [18.0, 24.0]);
}

#[test]
fn a_loss_that_is_no_number_gives_gradients_that_no_one_takes_for_numbers() {
    for broken in [f32::NAN, f32::INFINITY] {
        let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, broken]));
        let mut train = Train::seeded(1);
        let x = train.read(&p);
        let mut gradients = train.backward(&x.softmax(Model).mul(&x).sum_all());
        assert!(!gradients.is_finite());
        assert!(gradients.try_clip_norm(1.0).unwrap_err().is_value());
    }
}

#[test]
fn dropout_of_everything_gives_0_and_no_gradient() {
    let p = Parameter::new(Tensor::<(Batch<C<3>>, Model<C<2>>)>::ones());
    let all = Dropout::try_new(1.0).unwrap();
    let mut train = Train::seeded(1);
    let y = all.forward(&train.read(&p), &mut train);
    assert_eq!(y.detach(), Tensor::zeros());
    assert_eq!(train.backward(&y.sum_all()).of(&p), Tensor::zeros());
    type By<S> = (Batch<C<1>>, Heads<C<2>>, S, HeadDim<C<3>>);
    let q = Parameter::new(Tensor::<By<Query<C<4>>>>::ones());
    let k = Tensor::<By<Key<C<5>>>>::ones();
    let attention = Attention::new().dropout(all, &mut train);
    let (y, weights) = attention.apply_with_weights(&train.read(&q), &k, &k, Causal);
    assert_eq!(y.detach(), Tensor::zeros());
    assert_eq!(weights.detach(), Tensor::zeros());
    let gradients = train.backward(&y.sum_all().add(&weights.sum_all()));
    assert_eq!(gradients.of(&q), Tensor::zeros());
}

#[test]
#[should_panic = "`map` has no gradient: call `detach` before it"]
fn a_closure_does_not_lose_a_gradient_in_silence() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    Train::seeded(1).read(&p).map(|x| x + 1.0);
}

#[test]
fn a_closure_may_make_of_recorded_floats_what_has_no_gradient() {
    let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    let x = Train::seeded(1).read(&p);
    assert_eq!(x.map(|x| x > 3.5).to_vec(), [false, true]);
    assert_eq!(x.detach().map(|x| x + 1.0).to_vec(), [4.0, 5.0]);
}

#[test]
fn a_padding_row_learns_nothing_from_lookups() {
    let table = Tensor::<(Vocab<C<3>>, Model<C<1>>)>::from([[1.0], [2.0], [3.0]]);
    let embedding: Embedding<_, _> = Embedding::new(table).try_with_padding(1).unwrap();
    let mut train = Train::seeded(1);
    let tokens = Tensor::<(Seq<C<4>>,), u32>::from([0, 1, 0, 2]);
    let loss = embedding.try_forward(&tokens, &mut train).unwrap().sum_all();
    assert_eq!(train.backward(&loss).of(&embedding.weight).to_vec(), [2.0, 0.0, 1.0]);
}

#[test]
fn a_gradient_that_is_exact_is_right_within_no_tolerance_at_all() {
    struct Point {
        at: Parameter<(Model<C<2>>,), f64>,
    }
    impl Module for Point {
        parameters!(at);
    }
    let mut point = Point { at: Parameter::zeros() };
    try_check_gradients(&mut point, 0.0, |point, train| train.read(&point.at).sum_all()).unwrap();
}

#[test]
fn a_layer_learns_its_target() {
    let mut generator = Generator::seeded(5);
    let mut layer = Linear::<Model<C<3>>, Key<C<2>>>::xavier(&mut generator);
    let teacher = Linear::<Model<C<3>>, Key<C<2>>>::xavier(&mut generator);
    let x = Tensor::<(Batch<C<16>>, Model<C<3>>)>::normal(0.0, 1.0, &mut generator);
    let target = teacher.forward(&x, &mut Infer);
    let mut train = Train::seeded(6);
    for _ in 0..200 {
        let loss = shapeproof::mean_squared_error(&layer.forward(&x, &mut train), &target);
        let gradients = train.backward(&loss);
        let step = gradients.of(&layer.weight).mul_scalar(0.5);
        layer.weight.set(layer.weight.value().sub(&step));
    }
    assert!(layer.weight.value().all_close(&teacher.weight.value(), 0.0, 1e-4));
}
