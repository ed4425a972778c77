//! What is done in place gives the bits that it gives anew, and reaches nothing else.

use super::{Bits, Scattered};
use shapeproof::{
    Activation, Batch, C, Float, Generator, Infer, Key, LayerNorm, Query, Shape, Tensor, Train,
};
use shapeproof::{EncoderConfig, EncoderLayer, Hidden, Linear, Model, NoMask, NormPlacement, Seq};

type Scores = (Batch<C<3>>, Query<C<5>>, Key<C<37>>);

fn scores<E: Float>() -> Tensor<Scores, E> {
    Tensor::normal(0.0, 3.0, &mut Generator::seeded(1))
}

/// `in_place` gives what `anew` gives: for a tensor that shares with none, one that shares, and views;
/// and what shares keeps its elements.
#[track_caller]
fn same<S: Shape, E: Float>(
    x: &Tensor<S, E>,
    in_place: impl Fn(&mut Tensor<S, E>),
    anew: impl Fn(&Tensor<S, E>) -> Tensor<S, E>,
) where
    Tensor<S, E>: Bits + Scattered<E>,
{
    let expected = anew(x).bits();
    let mut alone = x.map(|x| x);
    in_place(&mut alone);
    assert_eq!(alone.bits(), expected);

    for original in [vec![x.clone()], x.scattered(E::from_f64(7.0))].concat() {
        let before = original.bits();
        let mut changed = original.clone();
        in_place(&mut changed);
        assert_eq!(changed.bits(), expected);
        assert_eq!(original.bits(), before);
    }
    for mut view in x.scattered(E::from_f64(7.0)) {
        in_place(&mut view);
        assert_eq!(view.bits(), expected);
    }
}

#[test]
fn what_is_done_in_place_is_what_is_done_anew() {
    let x = scores::<f32>();
    let row = Tensor::<(Key<C<37>>,)>::normal(0.0, 1.0, &mut Generator::seeded(2));
    let column = Tensor::<(Batch<C<3>>, Query<C<5>>)>::normal(0.0, 1.0, &mut Generator::seeded(3));
    let other = Tensor::<Scores>::normal(0.0, 1.0, &mut Generator::seeded(4));
    same(&x, |x| x.add_in_place(&row), |x| x.add(&row));
    same(&x, |x| x.sub_in_place(&column), |x| x.sub(&column));
    same(&x, |x| x.mul_in_place(&other), |x| x.mul(&other));
    same(&x, |x| x.add_scalar_in_place(0.3), |x| x.add_scalar(0.3));
    same(&x, |x| x.sub_scalar_in_place(0.3), |x| x.sub_scalar(0.3));
    same(&x, |x| x.mul_scalar_in_place(0.3), |x| x.mul_scalar(0.3));
    same(&x, |x| x.map_in_place(|x| 1.0 / x), |x| x.map(|x| 1.0 / x));
    same(&x, |x| x.softmax_in_place(Key), |x| x.softmax(Key));
    same(&x, |x| x.softmax_in_place(Query), |x| x.softmax(Query));
    same(&x, |x| x.softmax_in_place(Batch), |x| x.softmax(Batch));
    for of in [Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
        same(&x, |x| of.apply_in_place(x), |x| of.of(x));
        same(&scores::<f64>(), |x| of.apply_in_place(x), |x| of.of(x));
    }
}

#[test]
fn the_memory_of_a_tensor_that_shares_with_none_is_used_again() {
    let mut x = scores::<f32>();
    let at = x.as_slice().unwrap().as_ptr();
    x.softmax_in_place(Key);
    x.add_in_place(&Tensor::<(Key<C<37>>,)>::ones());
    x.map_in_place(|x| -x);
    Activation::Gelu.apply_in_place(&mut x);
    assert_eq!(x.as_slice().unwrap().as_ptr(), at);
    let shared = x.clone();
    x.mul_scalar_in_place(2.0);
    assert_ne!(x.as_slice().unwrap().as_ptr(), shared.as_slice().unwrap().as_ptr());
}

#[test]
fn a_tensor_combined_with_itself_in_place_reads_what_was_there() {
    let mut x = scores::<f32>();
    let expected = x.mul(&x).bits();
    let same = x.clone();
    x.mul_in_place(&same);
    assert_eq!(x.bits(), expected);
}

#[test]
fn empty_tensors_stay_empty_in_place() {
    let mut x = Tensor::<(Batch<C<2>>, Key<C<0>>)>::ones();
    x.softmax_in_place(Key);
    x.softmax_in_place(Batch);
    x.add_in_place(&Tensor::scalar(1.0));
    x.map_in_place(|x| x);
    Activation::Gelu.apply_in_place(&mut x);
    assert_eq!(x.count(), 0);
}

/// Packed weights are known by the storage of what they were packed from.
#[test]
fn a_weight_that_was_packed_is_not_changed_where_it_lies() {
    let mut generator = Generator::seeded(6);
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
    let weight =
        || Tensor::<(Model<C<8>>, Hidden<C<4>>)>::normal(0.0, 1.0, &mut Generator::seeded(7));
    let mut layer = Linear::without_bias(weight());
    let before = layer.forward(&x, &mut Infer);
    let mut taken = layer.weight.value();
    layer.weight.set(Tensor::zeros());
    taken.mul_scalar_in_place(2.0);
    layer.weight.set(taken);
    assert_eq!(layer.forward(&x, &mut Infer), before.mul_scalar(2.0));
}

/// An encoder layer adds and normalises in the memory of what it made itself, never in its input's.
#[test]
fn encoder_layers_leave_their_input_as_it_was() {
    let mut generator = Generator::seeded(5);
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
    let before = x.bits();
    for norm in [NormPlacement::Post, NormPlacement::Pre] {
        let config = EncoderConfig { norm, ..EncoderConfig::new(1e-5) };
        let layer = EncoderLayer::<C<8>, C<2>, C<16>>::xavier(config, &mut generator);
        let y = layer.forward(&x, NoMask, &mut Infer);
        assert_eq!(layer.forward(&x, NoMask, &mut Infer), y);
        layer.forward(&x, NoMask, &mut Train::seeded(1));
        assert_eq!(x.bits(), before);
        let first = LayerNorm::<Model<C<8>>>::new(1e-5).forward(&x, &mut Infer);
        assert_ne!(first, x);
        assert_eq!(x.bits(), before);
    }
}
