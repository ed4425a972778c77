//! Attention over halves: sums over many keys, scores that do not fit, and masks.

use shapeproof::{
    Attention, Batch, Bias, C, Causal, FeatureMap, Float, Generator, HeadDim, Heads, Key,
    LinearAttention, Mask, Mode, Model, MultiHeadAttention, NoMask, Parameter, Query, Seq, Stage,
    Static, Tensor, Train, ValueDim, bf16, f16,
};

use crate::fixtures::assert_close;
use crate::masks::{narrowed, widened};
use crate::oracle::tolerance;

in_both! {
    equal_weights_of_4096_keys_give_their_mean => many_keys;
    gradients_of_4096_queries_and_keys_add_up => many_gradients;
    large_scores_give_weights => large_scores;
    large_scores_give_gradients => gradients_of_large_scores;
    masks_use_no_number_that_a_half_type_lacks => masks;
    padding_and_causality_over_one_cell_hide_it => padding;
    what_is_hidden_reaches_no_output_and_no_gradient => hidden;
    queries_that_see_nothing_give_zero_and_no_gradient => nothing_visible;
}

fn many_keys<E: Float>() {
    type Heads2 = Heads<C<2>>;
    let mut generator = Generator::seeded(1);
    let v = Tensor::<(Batch<C<1>>, Heads2, Key<C<4096>>, ValueDim<C<8>>), E>::ones();
    let keys = (Batch(C::<1>), Heads(C::<2>), Key(C::<4096>), HeadDim(C::<8>));
    let k = Tensor::<_, E>::normal_in(keys, 0.0, 1.0, &mut generator);
    let near = |out: Vec<E>| widened(&out).iter().all(|x| (x - 1.0).abs() < 1e-3);
    let one = Tensor::<(Batch<C<1>>, Heads2, Query<C<1>>, HeadDim<C<8>>), E>::zeros();
    let many = Tensor::<(Batch<C<1>>, Heads2, Query<C<70>>, HeadDim<C<8>>), E>::zeros();
    assert!(near(Attention::new().apply(&one, &k, &v, NoMask).to_vec()));
    assert!(near(Attention::new().apply(&many, &k, &v, NoMask).to_vec()));
    let v = Tensor::<(Batch<C<1>>, Heads2, Key<C<4096>>, HeadDim<C<8>>), E>::ones();
    let linear = LinearAttention::new(FeatureMap::EluPlusOne);
    assert!(near(linear.apply(&many, &k, &v, NoMask).to_vec()));
}

fn many_gradients<E: Float>() {
    type Of<S, E> = Tensor<(Batch<C<1>>, Heads<C<1>>, S, HeadDim<C<8>>), E>;
    let near = |what: &str, found: &[f64], wanted: f64| {
        let off = found.iter().map(|x| (x / wanted - 1.0).abs()).fold(0.0, f64::max);
        assert!(off < 1e-3, "{what} in {}: {off}", E::NAME);
    };
    // Each of 4096 equal keys weighs 1/4096, for 70 queries.
    let (k, v) = (Of::<Key<C<4096>>, E>::ones(), Parameter::new(Of::<Key<C<4096>>, E>::ones()));
    let q = Parameter::new(Of::<Query<C<70>>, E>::zeros());
    let mut train = Train::seeded(1);
    let y = Attention::new().apply(&train.read(&q), &k, &train.read(&v), NoMask);
    let gradients = train.backward(&y.sum_all().to::<f32>());
    near("a value", &widened(&gradients.of(&v).to_vec()), 70.0 / 4096.0);
    assert!(widened(&gradients.of(&q).to_vec()).iter().all(|x| x.abs() < 1e-3));
    // 4096 queries see one key.
    let (q, v) = (Of::<Query<C<4096>>, E>::ones(), Parameter::new(Of::<Key<C<1>>, E>::ones()));
    let mut train = Train::seeded(1);
    let y = Attention::new().apply(&q, &Of::ones(), &train.read(&v), NoMask);
    let gradients = train.backward(&y.sum_all().to::<f32>());
    near("the one value", &widened(&gradients.of(&v).to_vec()), 4096.0);
}

/// Products of queries and keys beyond 65504, and scores of that size.
fn large_scores<E: Float>() {
    let of = |x: [f64; 3]| narrowed::<E>(&x);
    let shape = (Batch(C::<1>), Heads(C::<1>), Query(C::<1>), HeadDim(C::<1>));
    let q = Tensor::try_from_vec(shape, narrowed::<E>(&[1000.0])).unwrap();
    let shape = (Batch(C::<1>), Heads(C::<1>), Key(C::<3>), HeadDim(C::<1>));
    let k = Tensor::try_from_vec(shape, of([200.0, 200.0, -200.0])).unwrap();
    let v = Tensor::try_from_vec(shape, of([2.0, 4.0, 9.0])).unwrap();
    let attention = Attention::new().scale(0.25);
    let (y, weights) = attention.apply_with_weights(&q, &k, &v, NoMask);
    assert_eq!(widened(&weights.to_vec()), [0.5, 0.5, 0.0]);
    assert_eq!(widened(&y.to_vec()), [3.0]);
    assert_eq!(widened(&attention.apply(&q, &k, &v, NoMask).to_vec()), [3.0]);
    let scores = widened(&attention.scores(&q, &k, NoMask, Stage::Product).to_vec());
    assert!(scores.iter().all(|score| (score.abs() / 50_000.0 - 1.0).abs() < 0.004), "{scores:?}");
    // Over many positions, with gradients.
    let mut generator = Generator::seeded(3);
    let layer = MultiHeadAttention::<C<16>, C<2>, C<16>, C<16>, Bias, E>::xavier(&mut generator);
    let x = Tensor::<(Batch<C<2>>, Seq<C<40>>, Model<C<16>>), E>::normal(0.0, 60.0, &mut generator);
    let mut train = Train::seeded(1);
    let y = layer.forward(&x, Causal, &mut train);
    assert!(widened(&y.to_vec()).iter().all(|y| y.is_finite()));
    assert!(train.backward(&y.mean_all()).is_finite());
}

fn gradients_of_large_scores<E: Float>() {
    let shape = (Batch(C::<1>), Heads(C::<1>), Query(C::<1>), HeadDim(C::<1>));
    let q = Parameter::new(Tensor::try_from_vec(shape, narrowed::<E>(&[1000.0])).unwrap());
    let shape = (Batch(C::<1>), Heads(C::<1>), Key(C::<3>), HeadDim(C::<1>));
    let of = |x: [f64; 3]| Parameter::new(Tensor::try_from_vec(shape, narrowed::<E>(&x)).unwrap());
    let (k, v) = (of([200.0, 200.0, -200.0]), of([2.0, 4.0, 9.0]));
    let mut train = Train::seeded(1);
    let y = Attention::new().scale(0.25).apply(
        &train.read(&q),
        &train.read(&k),
        &train.read(&v),
        NoMask,
    );
    let gradients = train.backward(&y.sum_all());
    assert_eq!(widened(&gradients.of(&v).to_vec()), [0.5, 0.5, 0.0]);
    // ½ · (v − 3) · q · ¼
    assert_eq!(widened(&gradients.of(&k).to_vec()), [-125.0, 125.0, 0.0]);
    assert_eq!(widened(&gradients.of(&q).to_vec()), [0.0]);
}

// google/flax#982
fn masks<E: Float>() {
    let shape = (Batch(C::<1>), Heads(C::<1>), Query(C::<1>), HeadDim(C::<1>));
    let q = Parameter::new(Tensor::try_from_vec(shape, narrowed::<E>(&[1.0])).unwrap());
    let shape = (Batch(C::<1>), Heads(C::<1>), Key(C::<3>), HeadDim(C::<1>));
    let of = |x: [f64; 3]| Parameter::new(Tensor::try_from_vec(shape, narrowed::<E>(&x)).unwrap());
    let (k, v) = (of([0.0, 0.0, 4.0]), of([2.0, 4.0, 9.0]));
    let keep = Tensor::<(Key<C<3>>,), bool>::from([true, true, false]);
    let mut train = Train::seeded(1);
    let (q, keys, values) = (train.read(&q), train.read(&k), train.read(&v));
    let (y, weights) = Attention::new().apply_with_weights(&q, &keys, &values, &keep);
    assert_eq!(widened(&weights.to_vec()), [0.5, 0.5, 0.0]);
    assert_eq!(widened(&y.to_vec()), [3.0]);
    let gradients = train.backward(&y.sum_all());
    assert_eq!(widened(&gradients.of(&v).to_vec()), [0.5, 0.5, 0.0]);
    assert_eq!(widened(&gradients.of(&k).to_vec()), [-0.5, 0.5, 0.0]);
}

fn padding<E: Float>() {
    let shape = (Batch(C::<1>), Heads(C::<1>), Seq(C::<3>), HeadDim(C::<1>));
    let zeros = Tensor::<_, E>::zeros_in(shape);
    let v = Tensor::try_from_vec(shape, narrowed::<E>(&[3.0, 6.0, 9.0])).unwrap();
    let q = Parameter::new(Tensor::ones_in(shape).rename(Seq, Query));
    let (k, v) = (Parameter::new(zeros.rename(Seq, Key)), Parameter::new(v.rename(Seq, Key)));
    let keep = Tensor::<(Key<C<3>>,), bool>::from([false, true, true]);
    let mut train = Train::seeded(1);
    let (queries, keys, values) = (train.read(&q), train.read(&k), train.read(&v));
    let y = Attention::new().apply(&queries, &keys, &values, &keep & Causal);
    assert_eq!(widened(&y.to_vec()), [0.0, 6.0, 7.5]);
    let gradients = train.backward(&y.sum_all());
    assert_eq!(widened(&gradients.of(&v).to_vec()), [0.0, 1.5, 0.5]);
    assert_eq!(widened(&gradients.of(&k).to_vec()), [0.0, -0.75, 0.75]);
    assert_eq!(widened(&gradients.of(&q).to_vec()), [0.0; 3]);
}

/// NaN and infinity in hidden keys and values, for few queries, for many, and with gradients.
fn hidden<E: Float>() {
    fn check<E: Float, N: Static>() {
        type Of<S, E> = Tensor<(Batch<C<2>>, Heads<C<2>>, S, HeadDim<C<32>>), E>;
        let mut generator = Generator::seeded(6);
        let q = Of::<Query<N>, E>::normal(0.0, 1.0, &mut generator);
        let mut keys = || Of::<Key<C<48>>, E>::normal(0.0, 1.0, &mut generator);
        let (k, v) = (keys(), keys());
        let keep = Tensor::<(Key<C<48>>,), bool>::from_fn(|at| at[0] % 5 != 2);
        let run = |k: &Of<Key<C<48>>, E>, v: &Of<Key<C<48>>, E>| {
            let alone = Attention::new().apply(&q, k, v, &keep);
            let (q, k) = (Parameter::new(q.clone()), Parameter::new(k.clone()));
            let v = Parameter::new(v.clone());
            let mut train = Train::seeded(1);
            let (queries, keys, values) = (train.read(&q), train.read(&k), train.read(&v));
            let y = Attention::new().apply(&queries, &keys, &values, &keep);
            let gradients = train.backward(&y.sum_all());
            let of_q = gradients.of(&q).to_vec();
            let of_pair = [&k, &v].map(|x| widened(&gradients.of(x).to_vec()));
            let [of_k, of_v] = of_pair;
            [widened(&alone.to_vec()), widened(&y.to_vec()), widened(&of_q), of_k, of_v]
        };
        let clean = run(&k, &v);
        let (rtol, atol) = tolerance::<E>();
        for strange in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let strange = Tensor::scalar(E::from_f64(strange));
            let spoiled = run(&k.where_or(&keep, &strange), &v.where_or(&keep, &strange));
            for (found, wanted) in spoiled.iter().zip(&clean) {
                assert_close(E::NAME, found, wanted, rtol, atol);
            }
            let rows = spoiled[3].chunks(32).zip(spoiled[4].chunks(32)).enumerate();
            for (_, (of_k, of_v)) in rows.filter(|(row, _)| row % 48 % 5 == 2) {
                assert!(of_k.iter().chain(of_v).all(|x| *x == 0.0));
            }
        }
    }
    check::<E, C<1>>();
    check::<E, C<40>>();
}

fn nothing_visible<E: Float>() {
    let mut generator = Generator::seeded(1);
    let layer = MultiHeadAttention::<C<8>, C<2>, C<8>, C<8>, Bias, E>::xavier(&mut generator);
    let x = Parameter::new(Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>), E>::normal(
        0.0,
        1.0,
        &mut generator,
    ));
    let lengths = Tensor::<(Batch<C<2>>,), usize>::from([0, 5]);
    let mut train = Train::seeded(1);
    let input = train.read(&x);
    let mask = Mask::try_lengths(&lengths, Key(C::<5>)).unwrap();
    let y = layer.forward(&input, mask, &mut train);
    assert_eq!(widened(&y.to_vec())[..40], [0.0; 40]);
    let gradients = train.backward(&y.sum_all());
    assert!(gradients.is_finite());
    let of_x = widened(&gradients.of(&x).to_vec());
    assert_eq!(of_x[..40], [0.0; 40]);
    assert!(of_x[40..].iter().any(|x| *x != 0.0));
}
