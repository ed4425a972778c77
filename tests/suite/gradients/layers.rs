//! Layers against central differences in f64, with all their parameters and their input.

use shapeproof::{
    Activation, Adjacent, Batch, Bias, C, Dropout, Embedding, FeedForward, GatedFeedForward,
    Generator, HeadDim, Heads, Hidden, LayerNorm, LearnedPositions, Linear, Mode, Model, Module,
    NoBias, Parameter, Query, RmsNorm, Rotary, RotaryTable, Seq, Shape, Tensor, Train, Vocab,
    parameters, try_check_gradients,
};

use super::weighed;
use crate::modules::set_each;

type Wide = (Batch<C<2>>, Seq<C<3>>, Model<C<4>>);

/// A layer and what goes in.
struct With<L, S> {
    layer: L,
    x: Parameter<S, f64>,
}
impl<L: Module, S: Shape> Module for With<L, S> {
    parameters!(layer, x);
}

/// A layer without parameters.
struct Nothing;
impl Module for Nothing {
    parameters!();
}

fn check<L: Module, S: Shape + Default, R: Shape>(
    layer: L,
    forward: impl Fn(&L, &Tensor<S, f64>, &mut Train) -> Tensor<R, f64>,
) {
    let mut generator = Generator::seeded(8);
    let x = Parameter::new(Tensor::normal_in(S::default(), 0.0, 1.0, &mut generator));
    let mut module = With { layer, x };
    // Weights of 1 and biases of 0 would hide faults.
    set_each(&mut module, |x| x + 0.3 * generator.normal());
    try_check_gradients(&mut module, 2e-7, |module, train| {
        let x = train.read(&module.x);
        weighed(&forward(&module.layer, &x, train))
    })
    .unwrap();
}

pub(super) fn rng() -> Generator {
    Generator::seeded(7)
}

#[test]
fn linear_maps_agree_with_differences() {
    check::<_, Wide, _>(
        Linear::<Model<C<4>>, Hidden<C<5>>, Bias, f64>::xavier(&mut rng()),
        |layer, x, train| layer.forward(x, train),
    );
    check::<_, Wide, _>(
        Linear::<Model<C<4>>, Hidden<C<5>>, NoBias, f64>::xavier(&mut rng()),
        |layer, x, train| layer.forward(&x.transpose(Batch, Seq), train),
    );
    check::<_, (Model<C<4>>,), _>(
        Linear::<Model<C<4>>, Hidden<C<1>>, Bias, f64>::xavier(&mut rng()),
        |layer, x, train| layer.forward(x, train),
    );
}

#[test]
fn norms_agree_with_differences() {
    check::<_, Wide, _>(LayerNorm::<Model<C<4>>, f64>::new(1e-5), |layer, x, train| {
        layer.forward(x, train)
    });
    check::<_, Wide, _>(LayerNorm::<(Seq<C<3>>, Model<C<4>>), f64>::new(0.1), |layer, x, train| {
        layer.forward(x, train)
    });
    check::<_, Wide, _>(RmsNorm::<Model<C<4>>, f64>::new(1e-6), |layer, x, train| {
        layer.forward(x, train)
    });
    check::<_, (Model<C<4>>, Batch<C<2>>, Seq<C<3>>), _>(
        RmsNorm::<Model<C<4>>, f64>::new(1e-6),
        |layer, x, train| layer.forward(&x.permute::<Wide, _>(), train),
    );
}

#[test]
fn feed_forward_blocks_agree_with_differences() {
    let activations = [Activation::Gelu, Activation::GeluTanh, Activation::Silu];
    for activation in activations {
        let mut block = FeedForward::<C<4>, C<6>, Bias, f64>::xavier(activation, &mut rng());
        block.dropout = Dropout::try_new(0.4).unwrap();
        check::<_, Wide, _>(block, |layer, x, train| layer.forward(x, train));
        let mut gated = GatedFeedForward::<C<4>, C<6>, Bias, f64>::xavier(activation, &mut rng());
        gated.dropout = Dropout::try_new(0.4).unwrap();
        check::<_, Wide, _>(gated, |layer, x, train| layer.forward(x, train));
        let gated = GatedFeedForward::<C<4>, C<6>, NoBias, f64>::xavier(activation, &mut rng());
        check::<_, Wide, _>(gated, |layer, x, train| layer.forward(x, train));
    }
    let block = FeedForward::<C<4>, C<6>, Bias, f64>::xavier(Activation::Relu, &mut rng());
    check::<_, Wide, _>(block, |layer, x, train| layer.forward(x, train));
    let gated = GatedFeedForward::<C<4>, C<6>, NoBias, f64>::xavier(Activation::Relu, &mut rng());
    check::<_, Wide, _>(gated, |layer, x, train| layer.forward(x, train));
}

#[test]
fn embeddings_and_tied_heads_agree_with_differences() {
    let tokens = Tensor::<(Batch<C<2>>, Seq<C<3>>), u32>::from([[2, 0, 2], [4, 2, 1]]);
    check::<_, Wide, _>(
        Embedding::<Vocab<C<5>>, Model<C<4>>, f64>::normal(1.0, &mut rng()),
        |layer, x, train| {
            let vectors = layer.try_forward(&tokens, train).unwrap().mul(x);
            layer.unembed(&vectors, train)
        },
    );
}

#[test]
fn learned_positions_agree_with_differences() {
    check::<_, Wide, _>(
        LearnedPositions::<Seq<C<5>>, Model<C<4>>, f64>::normal(1.0, &mut rng()),
        |layer, x, train| {
            let first = layer.try_forward(2, Seq(C::<3>), train).unwrap();
            let places = Tensor::<(Seq<C<3>>,), u32>::from([4, 0, 4]);
            x.mul(&first).add(&layer.try_at(&places, train).unwrap())
        },
    );
}

#[test]
fn rotations_agree_with_differences() {
    type Split = (Batch<C<2>>, Heads<C<1>>, Query<C<3>>, HeadDim<C<6>>);
    let by_half = Rotary::<C<4>>::try_new(100.0).unwrap().try_at(5, Seq(C::<3>)).unwrap();
    check::<_, Split, _>(Nothing, |_, x, _| by_half.rotate(x));
    let table: RotaryTable<_, _, Adjacent, f64> =
        Rotary::<C<6>, Adjacent>::try_new(100.0).unwrap().try_at(0, Seq(C::<3>)).unwrap();
    check::<_, Split, _>(Nothing, |_, x, _| table.rotate(x));
    let positions = Tensor::<(Batch<C<2>>, Query<C<3>>), u32>::from([[0, 1, 2], [9, 8, 7]]);
    let each = Rotary::<C<4>>::try_new(100.0).unwrap().try_at_positions(&positions).unwrap();
    check::<_, Split, _>(Nothing, |_, x, _| each.rotate(x));
}

#[test]
fn dropout_drops_the_same_numbers_forward_and_backward() {
    let dropout = Dropout::try_new(0.5).unwrap();
    check::<_, Wide, _>(Nothing, |_, x, train| dropout.forward(&x.exp(), train));
    let p = Parameter::new(Tensor::<(Batch<C<40>>, Model<C<50>>)>::ones());
    let mut train = Train::seeded(1);
    let y = dropout.forward(&train.read(&p), &mut train);
    assert_eq!(train.backward(&y.sum_all()).of(&p), y.detach());
    let again = dropout.forward(&train.read(&p), &mut train);
    assert_ne!(again, y, "each call draws anew");
}
