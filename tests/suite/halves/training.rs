//! Training in half types: steps smaller than a last digit, gradients in f32, losses scaled, runs resumed.

use shapeproof::{
    Adam, AdamW, Batch, Bias, C, Float, Generator, Hidden, Infer, Linear, LossScale, Mode, Model,
    Optimizer, Parameter, Sgd, Tensor, Train, bf16, f16, load_training, mean_squared_error,
    save_training,
};

use crate::io::Folder;
use crate::masks::{bits, widened};
use crate::modules;

type Layer<E> = Linear<Model<C<6>>, Hidden<C<4>>, Bias, E>;

#[test]
fn steps_smaller_than_a_last_digit_add_up() {
    fn check<E: Float>() {
        let mut layer = Layer::<E>::new(Tensor::ones(), Tensor::zeros());
        let mut sgd = Optimizer::try_new(Sgd::default()).unwrap();
        let x = Tensor::<(Batch<C<1>>, Model<C<6>>), E>::ones();
        // 1000 steps of 2⁻¹², each less than half of the last digit of 1 in either type.
        for _ in 0..1000 {
            let mut train = Train::seeded(1);
            let loss = layer.forward(&x, &mut train).sum_all();
            let gradients = train.backward(&loss);
            assert_eq!(gradients.of(&layer.weight).to_vec(), vec![E::Wide::from_f64(1.0); 24]);
            drop(loss);
            sgd.step(&mut layer, &gradients, 2f64.powi(-12)).unwrap();
        }
        let expected = E::from_f64(1.0 - 1000.0 * 2f64.powi(-12)).to_f64();
        assert_eq!(widened(&layer.weight.value().to_vec()), [expected; 24]);
    }
    check::<f16>();
    check::<bf16>();
}

/// With one gradient all the time, both running means are that gradient, and each step is the rate. In
/// halves the mean of squares, of which a thousandth is added at a time, would stop half way.
#[test]
fn running_means_do_not_stall() {
    fn check<E: Float>() {
        let mut layer = Layer::<E>::new(Tensor::ones(), Tensor::zeros());
        let mut adam = Optimizer::try_new(Adam::default()).unwrap();
        let x = Tensor::<(Batch<C<1>>, Model<C<6>>), E>::ones();
        for _ in 0..3000 {
            let mut train = Train::seeded(1);
            let loss = layer.forward(&x, &mut train).sum_all();
            let gradients = train.backward(&loss);
            drop(loss);
            adam.step(&mut layer, &gradients, 2f64.powi(-14)).unwrap();
        }
        let expected = E::from_f64(1.0 - 3000.0 * 2f64.powi(-14)).to_f64();
        let unit = if E::NAME == "f16" { 2f64.powi(-11) } else { 2f64.powi(-8) };
        for weight in widened(&layer.weight.value().to_vec()) {
            assert!((weight - expected).abs() <= unit, "{}: {weight} {expected}", E::NAME);
        }
    }
    check::<f16>();
    check::<bf16>();
}

/// A map that is learned from another.
struct Run<E> {
    layer: Layer<E>,
    optimizer: Optimizer<AdamW>,
    generator: Generator,
}

impl<E: Float> Run<E> {
    fn new() -> Self {
        let mut generator = Generator::seeded(8);
        let layer = Linear::xavier(&mut generator);
        let optimizer = Optimizer::try_new(AdamW::default()).unwrap();
        Run { layer, optimizer: optimizer.scaling_losses(LossScale::default()), generator }
    }

    /// One step; the loss before it.
    fn step(&mut self) -> f64 {
        let x = Tensor::<(Batch<C<16>>, Model<C<6>>)>::normal(0.0, 1.0, &mut self.generator);
        let wanted: Linear<Model<C<6>>, Hidden<C<4>>> = Linear::xavier(&mut Generator::seeded(1));
        let wanted = wanted.forward(&x, &mut Infer);
        let mut train = Train::seeded(1);
        let y = self.layer.forward(&x.to::<E>(), &mut train).to::<f32>();
        let loss = mean_squared_error(&y, &wanted);
        let gradients = self.optimizer.backward(&train, &loss);
        let value = f64::from(loss.value());
        drop((y, loss));
        if let Some(gradients) = gradients {
            self.optimizer.step(&mut self.layer, &gradients, 1e-2).unwrap();
        }
        value
    }
}

#[test]
fn a_layer_of_halves_learns_and_its_run_goes_on_bit_for_bit() {
    fn check<E: Float>() {
        let folder = Folder::new();
        let path = folder.path("run.safetensors");
        let mut run = Run::<E>::new();
        let first = run.step();
        (0..60).for_each(|_| _ = run.step());
        let (layer, optimizer) = (&run.layer, &run.optimizer);
        save_training(&path, layer, optimizer, 61, &run.generator).unwrap();
        let mut resumed = Run::<E>::new();
        let Run { layer, optimizer, generator } = &mut resumed;
        assert_eq!(load_training(&path, layer, optimizer, generator).unwrap(), 61);
        assert_eq!(modules::bits(&resumed.layer), modules::bits(&run.layer));
        assert_eq!(resumed.optimizer.loss_scale(), run.optimizer.loss_scale());
        // Were the file's numbers rounded to halves, the runs would part here.
        for _ in 0..120 {
            assert_eq!(resumed.step().to_bits(), run.step().to_bits());
        }
        assert_eq!(modules::bits(&resumed.layer), modules::bits(&run.layer));
        let last = run.step();
        assert!(last < first / 20.0, "{}: {first} {last}", E::NAME);
    }
    check::<f16>();
    check::<bf16>();
}

#[test]
fn a_run_of_scaled_losses_is_not_resumed_without_them() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    let mut run = Run::<f16>::new();
    save_training(&path, &run.layer, &run.optimizer, 0, &run.generator).unwrap();
    let mut plain = Optimizer::try_new(AdamW::default()).unwrap();
    let error = load_training(&path, &mut run.layer, &mut plain, &mut run.generator).unwrap_err();
    assert!(error.to_string().contains("loss_scale"), "{error}");
    save_training(&path, &run.layer, &plain, 0, &run.generator).unwrap();
    let Run { layer, optimizer, generator } = &mut run;
    let error = load_training(&path, layer, optimizer, generator).unwrap_err();
    assert!(error.to_string().contains("loss_scale"), "{error}");
}

#[test]
fn scaled_losses_keep_gradients_that_f16_would_lose() {
    let weight = Parameter::new(Tensor::<(Model<C<1>>,), f16>::ones());
    let mut train = Train::seeded(1);
    // 2⁻¹⁵ twice: 2⁻³⁰ is less than f16 holds.
    let small = 2f64.powi(-15);
    let loss = train.read(&weight).mul_scalar(small).mul_scalar(small).sum_all().to::<f32>();
    assert_eq!(train.backward(&loss).of(&weight).to_vec(), [0.0]);
    let optimizer = Optimizer::try_new(Sgd::default()).unwrap();
    let mut optimizer = optimizer.scaling_losses(LossScale::default());
    let gradients = optimizer.backward(&train, &loss).unwrap();
    assert_eq!(gradients.of(&weight).to_vec(), [2f32.powi(-30)]);
}

#[test]
fn a_factor_too_large_skips_steps_and_backs_off() {
    let weight = Parameter::new(Tensor::<(Model<C<1>>,), f16>::ones());
    let optimizer = Optimizer::try_new(Sgd::default()).unwrap();
    let mut optimizer = optimizer.scaling_losses(LossScale::default());
    let mut skipped = 0;
    let gradients = loop {
        let mut train = Train::seeded(1);
        let loss = train.read(&weight).mul_scalar(100.0).sum_all().to::<f32>();
        match optimizer.backward(&train, &loss) {
            Some(gradients) => break gradients,
            None => skipped += 1,
        }
    };
    // 32768 · 100 is beyond 65504, and so is all down to 1024 · 100.
    assert_eq!(gradients.of(&weight).to_vec(), [100.0]);
    let scale = optimizer.loss_scale().unwrap();
    assert_eq!((scale.factor(), scale.skipped(), skipped), (512.0, 6, 6));
}

#[test]
fn a_parameter_that_is_set_forgets_what_it_was_rounded_from() {
    let mut layer = Layer::<bf16>::new(Tensor::ones(), Tensor::zeros());
    let mut sgd = Optimizer::try_new(Sgd::default()).unwrap();
    let x = Tensor::<(Batch<C<1>>, Model<C<6>>), bf16>::ones();
    let mut step = |layer: &mut Layer<bf16>| {
        let mut train = Train::seeded(1);
        let loss = layer.forward(&x, &mut train).sum_all();
        let gradients = train.backward(&loss);
        sgd.step(layer, &gradients, 2f64.powi(-12)).unwrap();
    };
    (0..8).for_each(|_| step(&mut layer));
    layer.weight.set(Tensor::full(bf16::from_f32(2.0)));
    step(&mut layer);
    assert_eq!(bits(&layer.weight.value().to_vec()), bits(&[bf16::from_f32(2.0); 24]));
}
