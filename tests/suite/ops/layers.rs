//! Layers: modes, parameters, what they list, and that a changed weight is seen.

use crate::modules::names;
use shapeproof::{
    Activation, AnyParameter, Batch, Bias, C, Dropout, Encoder, EncoderConfig, EncoderLayer,
    FeedForward, FloatTensor, Generator, Hidden, Infer, Linear, Mode, Model, Module,
    MultiHeadAttention, NoBias, NoKeyBias, NoMask, Parameter, QkvBias, Seq, Tensor, Train, Vocab,
    count_parameters, parameters, parameters_mut,
};

type X = Tensor<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>;

fn x() -> X {
    Tensor::normal(0.0, 1.0, &mut Generator::seeded(11))
}

#[test]
fn dropout_acts_in_training_alone() {
    type Many = (Model<C<10000>>,);
    let ones = Tensor::<Many>::ones();
    let dropout = Dropout::try_new(0.25).unwrap();
    assert_eq!(dropout.forward(&ones, &mut Infer), ones);
    let y = dropout.forward(&ones, &mut Train::seeded(1));
    let kept = 1.0f32 / 0.75;
    assert!(y.to_vec().iter().all(|y| *y == 0.0 || *y == kept));
    assert!((y.mean_all().value() - 1.0).abs() < 0.03);
    assert_eq!(dropout.forward(&ones, &mut Train::seeded(1)), y);
    assert_ne!(dropout.forward(&ones, &mut Train::seeded(2)), y);
    let mut train = Train::seeded(1);
    let first = dropout.forward(&ones, &mut train);
    assert_ne!(dropout.forward(&ones, &mut train), first);
    assert_eq!(Dropout::NONE.forward(&ones, &mut Train::seeded(1)), ones);
    let all = Dropout::try_new(1.0).unwrap().forward(&ones, &mut Train::seeded(1));
    assert_eq!(all.sum_all().value(), 0.0);
    // What is dropped is 0 even where it was not a number.
    let strange = Tensor::<Many>::full(f32::NAN);
    let y = dropout.forward(&strange, &mut Train::seeded(1)).to_vec();
    assert!(y.contains(&0.0) && y.iter().any(|y| y.is_nan()));
}

#[test]
fn a_probability_outside_zero_to_one_is_refused() {
    for p in [-0.1, 1.1, f64::NAN] {
        let error = Dropout::try_new(p).unwrap_err();
        assert!(error.is_value());
        assert_eq!(error.to_string(), format!("expected a probability in 0..=1, found {p}"));
    }
}

#[test]
fn an_encoder_drops_out_in_training_alone() {
    let config =
        EncoderConfig { dropout: Dropout::try_new(0.5).unwrap(), ..EncoderConfig::new(1e-5) };
    let draw = |config| EncoderLayer::<C<4>, C<2>, C<8>>::xavier(config, &mut Generator::seeded(1));
    let (dropping, plain) = (draw(config), draw(EncoderConfig::new(1e-5)));
    assert_eq!(dropping.forward(&x(), NoMask, &mut Infer), plain.forward(&x(), NoMask, &mut Infer));
    assert_ne!(
        dropping.forward(&x(), NoMask, &mut Train::seeded(1)),
        plain.forward(&x(), NoMask, &mut Infer)
    );
    // In training, few queries take the way of many: the same numbers within rounding.
    let trained = plain.forward(&x(), NoMask, &mut Train::seeded(1)).to_vec();
    let inferred = plain.forward(&x(), NoMask, &mut Infer).to_vec();
    assert!(trained.iter().zip(&inferred).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn every_kind_of_bias_computes_with_it() {
    fn run<B: shapeproof::AttentionBias>(
        set: impl Fn(&mut MultiHeadAttention<C<4>, C<2>, C<4>, C<4>, B>),
    ) -> [X; 2] {
        let mut layer = MultiHeadAttention::xavier(&mut Generator::seeded(3));
        set(&mut layer);
        let x = x();
        [layer.forward(&x, NoMask, &mut Infer), layer.cross(&x, &x, &x, NoMask, &mut Infer)]
    }
    let row = Tensor::<(Model<C<4>>,)>::from([0.5, -1.0, 2.0, 3.0]);
    let [none, cross] = run::<NoBias>(|_| ());
    assert!(none.all_close(&cross, 1e-6, 1e-6));
    // A bias of 0 is no bias.
    for [fused, cross] in [run::<Bias>(|_| ()), run::<QkvBias>(|_| ()), run::<NoKeyBias>(|_| ())] {
        assert!(fused.all_close(&none, 1e-6, 1e-6) && cross.all_close(&none, 1e-6, 1e-6));
    }
    // A bias on the keys adds the same to all scores of a query: no effect.
    for y in run::<QkvBias>(|layer| layer.k.bias.set(row.clone())) {
        assert!(y.all_close(&none, 1e-5, 1e-5));
    }
    // A bias on the output is added to it, one on the values passes through the weights.
    for y in run::<NoKeyBias>(|layer| layer.out.bias.set(row.clone())) {
        assert!(y.all_close(&none.add(&row), 1e-5, 1e-5));
    }
    let [fused, cross] = run::<QkvBias>(|layer| layer.v.bias.set(row.clone()));
    let layer = MultiHeadAttention::<C<4>, C<2>>::xavier(&mut Generator::seeded(3));
    let through = layer.out.forward(&row, &mut Infer);
    assert!(fused.all_close(&none.add(&through), 1e-5, 1e-5));
    assert!(cross.all_close(&none.add(&through), 1e-5, 1e-5));
}

#[test]
fn a_changed_weight_is_seen_by_the_next_call() {
    let mut generator = Generator::seeded(5);
    let mut linear = Linear::<Model<C<4>>, Hidden<C<3>>>::xavier(&mut generator);
    let before = linear.forward(&x(), &mut Infer);
    linear.weight.set(linear.weight.value().mul_scalar(2.0));
    assert_eq!(linear.forward(&x(), &mut Infer), before.mul_scalar(2.0));

    let mut layer = MultiHeadAttention::<C<4>, C<2>>::xavier(&mut generator);
    let before = layer.forward(&x(), NoMask, &mut Infer);
    layer.v.weight.set(layer.v.weight.value().mul_scalar(2.0));
    assert!(layer.forward(&x(), NoMask, &mut Infer).all_close(&before.mul_scalar(2.0), 1e-6, 1e-6));
    layer.v.weight.set(Tensor::zeros());
    assert_eq!(layer.forward(&x(), NoMask, &mut Infer), X::zeros());
    layer.out.bias.set(Tensor::ones());
    assert_eq!(layer.forward(&x(), NoMask, &mut Infer), X::ones());

    for (name, parameter) in parameters_mut(&mut layer) {
        if name == "out_proj.bias" {
            let threes = Tensor::<(Model<C<4>>,), f64>::full(3.0);
            parameter.try_set(FloatTensor::new(threes.erase())).unwrap();
        }
    }
    assert_eq!(layer.forward(&x(), NoMask, &mut Infer), X::full(3.0));
}

#[test]
fn a_tied_parameter_is_one_parameter() {
    struct Tied {
        embedding: Parameter<(Vocab<C<3>>, Model<C<2>>)>,
        head: Parameter<(Vocab<C<3>>, Model<C<2>>)>,
    }
    impl Module for Tied {
        parameters!(embedding, head);
    }
    let embedding = Parameter::zeros();
    let head = embedding.tied();
    let mut model = Tied { embedding, head };
    assert_eq!(names(&model), ["embedding"]);
    assert_eq!(count_parameters(&model), 6);
    model.head.set(Tensor::ones());
    assert_eq!(Infer.read(&model.embedding), Tensor::ones());
    let apart = Tied { embedding: Parameter::zeros(), head: Parameter::zeros() };
    assert_eq!(names(&apart), ["embedding", "head"]);
    assert_eq!(count_parameters(&apart), 12);
}

#[test]
fn a_parameter_refuses_other_sizes_and_keeps_its_value() {
    let mut parameter = Parameter::<(Model<C<2>>, Hidden<C<3>>)>::zeros();
    let wrong = FloatTensor::new(Tensor::<(Hidden<C<3>>, Model<C<2>>)>::ones().erase());
    let error = AnyParameter::try_set(&mut parameter, wrong).unwrap_err();
    assert!(error.is_shape());
    assert_eq!(error.to_string(), "expected shape (Model 2, Hidden 3), found sizes [3, 2]");
    assert_eq!(parameter.value(), Tensor::zeros());
    assert_eq!(
        (parameter.axes(), &*parameter.dims(), parameter.element()),
        (&["Model", "Hidden"][..], &[2, 3][..], "f32")
    );
    assert!(
        !parameter.is_projection()
            && Linear::<Model<C<1>>, Hidden<C<1>>>::zeros().weight.is_projection()
    );
}

#[test]
fn shared_layers_are_listed_once_and_no_layers_give_their_input() {
    let layer = EncoderLayer::<C<4>, C<2>, C<8>>::zeros(EncoderConfig::new(1e-5));
    let shared = Encoder::shared(layer, 12);
    assert_eq!((names(&shared).len(), shared.len(), shared.iter().count()), (16, 12, 12));
    let none = Encoder::<C<4>, C<2>, C<8>>::new(Vec::new());
    assert!(none.is_empty() && none.forward(&x(), NoMask, &mut Infer) == x());
}

#[test]
fn a_shared_layer_is_the_same_layer_again_and_again() {
    let draw = || {
        EncoderLayer::<C<4>, C<2>, C<8>>::xavier(
            EncoderConfig::new(1e-5),
            &mut Generator::seeded(9),
        )
    };
    let shared = Encoder::shared(draw(), 3);
    let apart = Encoder::new(vec![draw(), draw(), draw()]);
    assert_eq!(shared.forward(&x(), NoMask, &mut Infer), apart.forward(&x(), NoMask, &mut Infer));
    let layer = draw();
    let mut y = x();
    for _ in 0..3 {
        y = layer.forward(&y, NoMask, &mut Infer);
    }
    assert_eq!(shared.forward(&x(), NoMask, &mut Infer), y);
}

#[test]
fn a_feed_forward_block_is_its_two_maps_around_the_activation() {
    let mut generator = Generator::seeded(6);
    for activation in [Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
        let block = FeedForward::<C<4>, C<5>>::xavier(activation, &mut generator);
        let hidden = block.up.forward(&x(), &mut Infer);
        let by_hand = block.down.forward(&activation.of(&hidden), &mut Infer);
        assert_eq!(block.forward(&x(), &mut Infer), by_hand);
    }
    assert_eq!(Activation::default(), Activation::Relu);
}
