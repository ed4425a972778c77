//! Gated feed-forward blocks and tied embeddings.

use shapeproof::{
    Activation, Batch, Bias, BiasKind, C, Checkpoint, Embedding, Float, GatedFeedForward,
    Generator, Infer, Linear, Model, Module, NoBias, Seq, Size, Static, Tensor, Vocab,
    WeightLayout, count_parameters, dyn_size,
};

use crate::fixtures::assert_close;
use crate::masks::{narrowed, widened};
use crate::modules::names;
use crate::oracle;
use crate::random::Random;
use crate::torch::{Projection, set};

fn activation(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::Gelu => oracle::gelu(x),
        Activation::GeluTanh => oracle::gelu_tanh(x),
        Activation::Silu => x / (1.0 + (-x).exp()),
        other => panic!("{other:?}"),
    }
}

/// A linear map of small numbers, and the same for plain loops.
fn map<I: shapeproof::Axis, O: shapeproof::Axis, B: BiasKind, E: Float>(
    linear: &mut Linear<I, O, B, E>,
    random: &mut Random,
) -> Projection {
    let [inputs, outputs] = *linear.weight.value().dims() else { panic!("two axes") };
    let weight = random.values(inputs * outputs);
    let bias = B::get(&linear.bias).map(|_| random.values(outputs));
    let of = Projection { weight, bias };
    set(linear, &of);
    of
}

fn gated<M: Static, F: Static, B: BiasKind, E: Float>([batch, length]: [usize; 2]) {
    let mut random = Random::new((M::N * 100 + F::N * 10 + batch) as u64);
    for kind in [Activation::Silu, Activation::Gelu, Activation::GeluTanh, Activation::Relu] {
        let mut block = GatedFeedForward::<M, F, B, E>::zeros(kind);
        let gate = map(&mut block.gate, &mut random);
        let up = map(&mut block.up, &mut random);
        let down = map(&mut block.down, &mut random);
        let values = random.values(batch * length * M::N);
        let of = |x: &[f64], map: &Projection, inputs: usize, outputs: usize| match inputs {
            0 => map.bias.clone().unwrap_or(vec![0.0; outputs]).repeat(batch * length),
            _ => oracle::linear(x, &map.weight, map.bias.as_deref(), inputs),
        };
        let (gates, ups) = (of(&values, &gate, M::N, F::N), of(&values, &up, M::N, F::N));
        let hidden: Vec<_> =
            gates.iter().zip(&ups).map(|(&gate, up)| activation(kind, gate) * up).collect();
        let want = of(&hidden, &down, F::N, M::N);

        dyn_size!(b = batch, s = length);
        let shape = (Batch(b), Seq(s), Model(M::default()));
        let x = Tensor::try_from_vec(shape, narrowed::<E>(&values)).unwrap();
        let (rtol, atol) = if E::NAME == "f32" { (1e-5, 1e-3) } else { (1e-9, 1e-9) };
        let y = block.forward(&x, &mut Infer);
        assert_close(&format!("{kind:?}"), &widened(&y.to_vec()), &want, rtol, atol);
        let strided = x.transpose(Batch, Seq).packed().transpose(Seq, Batch);
        assert!(block.forward(&strided, &mut Infer) == y);
    }
}

#[test]
fn gated_feed_forward_equals_plain_loops() {
    fn both<E: Float>() {
        gated::<C<5>, C<7>, NoBias, E>([2, 3]);
        gated::<C<4>, C<11>, Bias, E>([3, 2]);
        gated::<C<3>, C<3>, Bias, E>([3, 3]);
        gated::<C<1>, C<1>, NoBias, E>([1, 1]);
        gated::<C<16>, C<20>, NoBias, E>([2, 40]);
        gated::<C<4>, C<6>, Bias, E>([0, 3]);
        gated::<C<4>, C<6>, Bias, E>([2, 0]);
        gated::<C<4>, C<0>, Bias, E>([2, 3]);
        gated::<C<0>, C<4>, Bias, E>([2, 3]);
    }
    both::<f32>();
    both::<f64>();
}

#[test]
fn gated_feed_forward_takes_tensors_of_any_rank_and_its_new_weights() {
    let mut block =
        GatedFeedForward::<C<3>, C<4>>::xavier(Activation::Silu, &mut Generator::seeded(2));
    let x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::from([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]]);
    let rows = block.forward(&x, &mut Infer);
    let row = Tensor::<(Model<C<3>>,)>::from([1.0, 2.0, 3.0]);
    assert_eq!(block.forward(&row, &mut Infer).to_vec(), rows.to_vec()[..3]);
    block.up.weight.set(Tensor::zeros());
    assert_eq!(block.forward(&x, &mut Infer), Tensor::zeros());
    assert_eq!(names(&block), ["gate.weight", "up.weight", "down.weight"]);
}

fn unembedded<V: Static, M: Static, E: Float>([batch, length]: [usize; 2]) {
    let mut random = Random::new(90);
    let table = random.values(V::N * M::N);
    let values = random.values(batch * length * M::N);
    let shape = (Vocab(V::default()), Model(M::default()));
    let embedding =
        Embedding::<_, _, E>::new(Tensor::try_from_vec(shape, narrowed(&table)).unwrap());
    dyn_size!(b = batch, s = length);
    let x = Tensor::try_from_vec((Batch(b), Seq(s), shape.1), narrowed::<E>(&values)).unwrap();
    let (rtol, atol) = oracle::tolerance::<E>();
    let logits = embedding.unembed(&x, &mut Infer);
    assert_eq!(logits.dims(), [b.get(), s.get(), V::N]);
    let want = oracle::linear(&values, &table, None, M::N);
    assert_close("logits", &widened(&logits.to_vec()), &want, rtol, atol);
}

#[test]
fn unembedding_multiplies_by_the_table_itself() {
    unembedded::<C<11>, C<5>, f32>([2, 3]);
    unembedded::<C<11>, C<5>, f64>([2, 3]);
    unembedded::<C<4>, C<4>, f32>([4, 4]);
    unembedded::<C<1>, C<3>, f64>([1, 1]);
    unembedded::<C<3>, C<2>, f32>([0, 4]);
    unembedded::<C<0>, C<2>, f32>([2, 4]);
}

struct Tied {
    embedding: Embedding<Vocab<C<5>>, Model<C<3>>>,
}

impl Module for Tied {
    shapeproof::parameters!(embedding);
}

#[test]
fn a_tied_head_is_one_parameter_that_follows_its_table() {
    let folder = crate::io::Folder::new();
    let mut generator = Generator::seeded(4);
    let mut model = Tied { embedding: Embedding::normal(1.0, &mut generator) };
    let x = Tensor::<(Batch<C<1>>, Model<C<3>>)>::from([[1.0, -1.0, 0.5]]);
    let before = model.embedding.unembed(&x, &mut Infer);
    assert_eq!(names(&model), ["embedding.weight"]);
    assert_eq!(count_parameters(&model), 15);

    let checkpoint = Checkpoint::new(WeightLayout::OutIn);
    checkpoint.save(&model, folder.path("tied")).unwrap();
    model.embedding.weight.set(Tensor::ones());
    assert_eq!(model.embedding.unembed(&x, &mut Infer).to_vec(), [0.5; 5]);
    checkpoint.load(&mut model, folder.path("tied")).unwrap();
    assert_eq!(model.embedding.unembed(&x, &mut Infer), before);
}
