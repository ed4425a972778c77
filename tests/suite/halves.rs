//! Half types: what they hold, sums that do not stall, scores that do not fit, masks, files, and training
//! by what they are rounded from.

mod models;
mod training;

use shapeproof::{
    Attention, Batch, Bias, C, Causal, Checkpoint, Embedding, FeatureMap, Float, Generator,
    HeadDim, Heads, Hidden, Infer, Key, LayerNorm, Linear, LinearAttention, Mask, Mode, Model,
    MultiHeadAttention, NoMask, Parameter, Query, Seq, Stage, Static, Tensor, TensorFile, Train,
    ValueDim, Vocab, WeightLayout, bf16, copy_parameters, dyn_size, f16,
};

use crate::fixtures::assert_close;
use crate::io::Folder;
use crate::masks::{bits, narrowed, widened};
use crate::oracle::tolerance;

macro_rules! in_both {
    ($($name:ident => $check:ident;)+) => { $(
        #[test]
        fn $name() {
            $check::<f16>();
            $check::<bf16>();
        }
    )+ };
}
in_both! {
    conversions_round_to_the_nearest_and_have_a_gradient => conversions;
    sums_of_many_do_not_stall => sums;
    gradients_that_meet_do_not_stall => meeting;
    sums_within_operations_do_not_stall => lines;
    equal_weights_of_4096_keys_give_their_mean => many_keys;
    gradients_of_4096_queries_and_keys_add_up => many_gradients;
    large_scores_give_weights => large_scores;
    large_scores_give_gradients => gradients_of_large_scores;
    masks_use_no_number_that_a_half_type_lacks => masks;
    padding_and_causality_over_one_cell_hide_it => padding;
    what_is_hidden_reaches_no_output_and_no_gradient => hidden;
    queries_that_see_nothing_give_zero_and_no_gradient => nothing_visible;
    a_layer_of_halves_is_near_the_one_that_it_was_made_from => copied_layer;
    files_have_halves_as_they_are => files;
    numbers_that_a_half_type_lacks_are_refused => overflow;
}

fn is_f16<E: Float>() -> bool {
    E::NAME == "f16"
}

fn conversions<E: Float>() {
    let unit = if is_f16::<E>() { 2f32.powi(-10) } else { 2f32.powi(-7) };
    let x = Parameter::new(Tensor::<(Model<C<6>>,)>::from([
        1.0 + unit / 2.0,
        1.0 + 1.5 * unit,
        -0.0,
        1e30,
        f32::NEG_INFINITY,
        1e-40,
    ]));
    let mut train = Train::seeded(1);
    let half = train.read(&x).to::<E>();
    let large = if is_f16::<E>() { f64::INFINITY } else { half.to_vec()[3].to_f64() };
    let found = widened(&half.to_vec());
    let unit = f64::from(unit);
    assert_eq!(found[..3], [1.0, 1.0 + 2.0 * unit, 0.0]);
    assert!(found[2].is_sign_negative() && found[3] == large && found[4] == f64::NEG_INFINITY);
    assert!(large.is_infinite() || (large / 1e30 - 1.0).abs() < 0.004);
    assert!(found[5] == 0.0 || (found[5] / 1e-40 - 1.0).abs() < 0.1, "{found:?}");
    let nan = Tensor::<(Model<C<1>>,)>::from([f32::NAN]).to::<E>();
    assert!(nan.to_vec()[0].to_f64().is_nan());
    let gradients = train.backward(&half.sum_all().to::<f32>());
    assert_eq!(gradients.of(&x).to_vec(), [1.0; 6]);
    let text = Tensor::<(Model<C<2>>,)>::from([0.5, -3.0]).to::<E>().to_string();
    assert_eq!(text, format!("(Model 2) {}\n[ 0.5000, -3.0000]", E::NAME));
}

fn sums<E: Float>() {
    let ones = Tensor::<(Model<C<20000>>,), E>::ones();
    let sum = ones.sum(Model).value().to_f64();
    assert!((sum / 20_000.0 - 1.0).abs() < 0.004, "{sum}");
    assert_eq!(ones.mean(Model).value().to_f64(), 1.0);
    assert_eq!(ones.mul_scalar(3.0).mean_all().value().to_f64(), 3.0);
    assert_eq!(ones.variance(Model).value().to_f64(), 0.0);
    let weights = ones.softmax(Model).to::<f64>();
    assert!((weights.sum(Model).value() - 1.0).abs() < 0.004);
    let running = ones.cumsum(Model).to::<f64>().to_vec();
    assert!((running[19_999] / 20_000.0 - 1.0).abs() < 0.004);
}

fn meeting<E: Float>() {
    const COUNT: usize = 5000;
    // All look up one row.
    let table = Embedding::<Vocab<C<3>>, Model<C<2>>, E>::new(Tensor::ones());
    dyn_size!(count = COUNT);
    let tokens = Tensor::try_from_vec((Seq(count),), vec![1usize; COUNT]).unwrap();
    let mut train = Train::seeded(1);
    let rows = table.try_forward(&tokens, &mut train).unwrap();
    let gradient = train.backward(&rows.sum_all()).of(&table.weight).to_vec();
    let expected = [0.0, 0.0, COUNT as f64, COUNT as f64, 0.0, 0.0];
    assert_close("a table's gradient", &widened(&gradient), &expected, 0.004, 0.0);

    // One number is added to all.
    let bias = Parameter::new(Tensor::<(Model<C<1>>,), E>::ones());
    let x = Tensor::<_, E>::zeros_in((Seq(count), Model(C::<1>)));
    let mut train = Train::seeded(1);
    let y = x.add(&train.read(&bias));
    let gradient = train.backward(&y.sum_all()).of(&bias).to_vec();
    assert_close("a bias's gradient", &widened(&gradient), &[COUNT as f64], 0.004, 0.0);

    // One parameter is used many times.
    let mut train = Train::seeded(1);
    let read = train.read(&bias);
    let mut sum = read.clone().detach();
    for _ in 0..600 {
        sum = sum.add(&read);
    }
    let gradient = train.backward(&sum.sum_all()).of(&bias).to_vec();
    assert_eq!(widened(&gradient), [600.0]);
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

/// 70,000 in a line: a running sum in bf16 would end at 256, one in f16 at 2048.
fn lines<E: Float>() {
    const COUNT: usize = 70_000;
    let near = |what: &str, found: f64, wanted: f64| {
        assert!((found / wanted - 1.0).abs() < 0.01, "{what} in {}: {found}", E::NAME);
    };
    let count = COUNT as f64;
    let ones = Tensor::<(Model<C<COUNT>>,), E>::ones();
    near("a sum", ones.mul_scalar(0.5).sum(Model).value().to_f64(), count / 2.0);
    assert_eq!(ones.mean(Model).value().to_f64(), 1.0);
    let signs = Tensor::<(Model<C<COUNT>>,), E>::from_fn(|at| {
        E::from_f64(if at[0] % 2 == 0 { 1.5 } else { -0.5 })
    });
    assert_eq!(signs.mean(Model).value().to_f64(), 0.5);
    assert_eq!(signs.variance(Model).value().to_f64(), 1.0);
    near("a logarithm of a share", ones.log_softmax(Model).to_vec()[0].to_f64(), -count.ln());

    // Forward, and the gradient where half of the line has weight 1 and half −1.
    let x = Parameter::new(signs.clone());
    let up = signs.sub_scalar(0.5);
    let mut train = Train::seeded(1);
    let y = train.read(&x).softmax(Model).mul_scalar(count / 4.0);
    // e² to 1: a weight is 2σ(2) of the mean, and Σ up · weights is 2σ(2) − 1.
    let share = 2.0 / (1.0 + (-2.0_f64).exp());
    near("softmax", y.to_vec()[0].to_f64(), share / 4.0);
    let gradients = train.backward(&y.mul(&up).sum_all());
    let wanted = share / 4.0 * (1.0 - (share - 1.0));
    near("its gradient", widened(&gradients.of(&x).to_vec())[0], wanted);
    let norm = LayerNorm::<Model<C<COUNT>>, E>::new(3.0);
    let mut train = Train::seeded(1);
    let y = norm.forward(&train.read(&x), &mut train);
    // ±1 over the root of 1 + ε.
    near("layer norm", y.to_vec()[0].to_f64(), 0.5);
    let gradients = train.backward(&y.mul(&up).sum_all());
    // (g − ŷ · mean(g · ŷ)) / √(1 + ε), with ŷ = ±1/2.
    near("its gradient", widened(&gradients.of(&x).to_vec())[0], (1.0 - 0.25) / 2.0);
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
    let y = layer.forward(&input, Mask::lengths(&lengths, Key(C::<5>)), &mut train);
    assert_eq!(widened(&y.to_vec())[..40], [0.0; 40]);
    let gradients = train.backward(&y.sum_all());
    assert!(gradients.is_finite());
    let of_x = widened(&gradients.of(&x).to_vec());
    assert_eq!(of_x[..40], [0.0; 40]);
    assert!(of_x[40..].iter().any(|x| *x != 0.0));
}

fn copied_layer<E: Float>() {
    let mut generator = Generator::seeded(4);
    let layer = MultiHeadAttention::<C<24>, C<3>>::xavier(&mut generator);
    let mut half = MultiHeadAttention::<C<24>, C<3>, C<24>, C<24>, Bias, E>::zeros();
    copy_parameters(&layer, &mut half).unwrap();
    let x = Tensor::<(Batch<C<3>>, Seq<C<7>>, Model<C<24>>)>::normal(0.0, 1.0, &mut generator);
    let y = half.forward(&x.to::<E>(), Causal, &mut Infer);
    let exact = widened(&layer.forward(&x, Causal, &mut Infer).to_vec());
    let (rtol, atol) = tolerance::<E>();
    assert_close("the layer in halves", &widened(&y.to_vec()), &exact, rtol, atol);
    // And back: what a half type holds, f32 holds.
    let mut back = MultiHeadAttention::<C<24>, C<3>>::zeros();
    copy_parameters(&half, &mut back).unwrap();
    assert_eq!(back.out.weight.value(), half.out.weight.value().to::<f32>());

    let mut narrow = MultiHeadAttention::<C<12>, C<3>, C<12>, C<12>, Bias, E>::zeros();
    let error = copy_parameters(&layer, &mut narrow).unwrap_err().to_string();
    assert!(error.contains("expected sizes [12, 12], found [24, 24]"), "{error}");
    let mut linear = Linear::<Model<C<24>>, Hidden<C<24>>, Bias, E>::zeros();
    let error = copy_parameters(&layer, &mut linear).unwrap_err().to_string();
    assert!(error.contains("no parameter \"weight\""), "{error}");
}

fn files<E: Float>() {
    let folder = Folder::new();
    let path = folder.path("half.safetensors");
    let mut generator = Generator::seeded(5);
    let layer = Linear::<Model<C<5>>, Hidden<C<3>>, Bias, E>::xavier(&mut generator);
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let checkpoint = Checkpoint::new(layout);
        checkpoint.save(&layer, &path).unwrap();
        // Two bytes a number, and the header.
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes < 18 * 2 + 300, "{bytes}");
        let read = TensorFile::open(&path).unwrap().read("weight").unwrap();
        assert_eq!(read.element(), E::NAME);
        let mut other = Linear::<Model<C<5>>, Hidden<C<3>>, Bias, E>::zeros();
        checkpoint.load(&mut other, &path).unwrap();
        assert_eq!(bits(&other.weight.value().to_vec()), bits(&layer.weight.value().to_vec()));
        // Into other elements: each is the nearest.
        let mut wide = Linear::<Model<C<5>>, Hidden<C<3>>>::zeros();
        checkpoint.load(&mut wide, &path).unwrap();
        assert_eq!(wide.weight.value(), layer.weight.value().to::<f32>());
        checkpoint.save(&wide, &path).unwrap();
        checkpoint.load(&mut other, &path).unwrap();
        assert_eq!(other.weight.value(), layer.weight.value());
    }
}

fn overflow<E: Float>() {
    let folder = Folder::new();
    let path = folder.path("large.safetensors");
    let large = if is_f16::<E>() { 70_000.0 } else { f32::MAX };
    let weight = Tensor::<(Model<C<1>>, Hidden<C<2>>)>::from([[1.0, large]]);
    let layer: Linear<_, _> = Linear::new(weight, Tensor::zeros());
    let checkpoint = Checkpoint::new(WeightLayout::InOut);
    checkpoint.save(&layer, &path).unwrap();
    let ones = (Tensor::ones(), Tensor::ones());
    let mut half = Linear::<Model<C<1>>, Hidden<C<2>>, Bias, E>::new(ones.0, ones.1);
    let error = checkpoint.load(&mut half, &path).unwrap_err().to_string();
    assert!(error.contains(&format!("expected finite {} numbers", E::NAME)), "{error}");
    let error = copy_parameters(&layer, &mut half).unwrap_err().to_string();
    assert!(error.contains(&format!("finite in {}", E::NAME)), "{error}");
    assert_eq!(widened(&half.weight.value().to_vec()), [1.0, 1.0]);
}
