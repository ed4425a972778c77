//! Half types: what they hold, sums that do not stall, files; attention over them, and training by what
//! they are rounded from.

macro_rules! in_both {
    ($($name:ident => $check:ident;)+) => { $(
        #[test]
        fn $name() {
            $check::<f16>();
            $check::<bf16>();
        }
    )+ };
}

mod attention;
mod models;
mod training;

use shapeproof::{
    Batch, Bias, C, Causal, Checkpoint, Embedding, Float, Generator, Hidden, Infer, LayerNorm,
    Linear, Mode, Model, MultiHeadAttention, Parameter, Seq, Tensor, TensorFile, Train, Vocab,
    WeightLayout, bf16, copy_parameters, dyn_size, f16,
};

use crate::fixtures::assert_close;
use crate::io::Folder;
use crate::masks::{bits, widened};
use crate::oracle::tolerance;

in_both! {
    conversions_round_to_the_nearest_and_have_a_gradient => conversions;
    sums_of_many_do_not_stall => sums;
    gradients_that_meet_do_not_stall => meeting;
    sums_within_operations_do_not_stall => lines;
    gradients_of_what_was_stretched_are_rounded_once => stretched;
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

fn stretched<E: Float>() {
    // Of this number and 1, the sum has a digit more than the type.
    let most = if is_f16::<E>() { 2048.0 } else { 256.0 };
    let p = Parameter::<(Seq<C<1>>,), E>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<1>>, Model<C<2>>), E>::zeros();
    let by = Tensor::from([[[most, 1.0]], [[-most, 0.0]]].map(|x| x.map(|x| x.map(E::from_f64))));
    let mut train = Train::seeded(1);
    let loss = x.add(&train.read(&p)).mul(&by).sum_all();
    assert_eq!(widened(&train.backward(&loss).of(&p).to_vec()), [1.0]);
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
