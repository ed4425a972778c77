//! Whether there is a bias is part of the type: a file that disagrees is refused.

use super::{Folder, assert_says, out_in, refusal};
use shapeproof::{
    AttentionBias, Batch, Bias, C, Hidden, Infer, Linear, Model, MultiHeadAttention, NoBias,
    NoKeyBias, QkvBias, Seq, Tensor,
};

type Attention<B> = MultiHeadAttention<C<2>, C<1>, C<2>, C<2>, B>;

#[test]
fn a_projections_bias_survives_a_round_trip() {
    let eye = Tensor::<(Model<C<2>>, Model<C<2>>)>::from([[1.0, 0.0], [0.0, 1.0]]);
    let mut attention = Attention::<Bias>::zeros();
    attention.q = Linear::new(eye, Tensor::from([0.5, -0.5]));
    let x = Tensor::<(Batch<C<1>>, Seq<C<1>>, Model<C<2>>)>::from([[[1.0, 1.0]]]);
    assert_eq!(attention.q.forward(&x, &mut Infer).to_vec(), [1.5, 0.5]);
    let folder = Folder::new();
    out_in().save(&attention, folder.path("attention")).unwrap();
    let mut other = Attention::<Bias>::zeros();
    out_in().load(&mut other, folder.path("attention")).unwrap();
    assert_eq!(other.q.forward(&x, &mut Infer).to_vec(), [1.5, 0.5]);
}

/// The message where a model with the biases `B` is to load a file with the biases `F`.
fn mismatch<F: AttentionBias, B: AttentionBias>() -> String {
    let folder = Folder::new();
    let path = folder.path("attention");
    out_in().save(&Attention::<F>::zeros(), &path).unwrap();
    refusal(&out_in(), &mut Attention::<B>::zeros(), &path)
}

#[test]
fn a_missing_bias_is_named() {
    let words = ["no key \"q_proj.bias\"", "the nearest are ", "(for parameter \"q_proj.bias\")"];
    assert_says(&mismatch::<NoBias, Bias>(), &words);
    assert_says(&mismatch::<NoKeyBias, Bias>(), &["no key \"k_proj.bias\""]);
    assert_says(&mismatch::<QkvBias, Bias>(), &["no key \"out_proj.bias\""]);
}

#[test]
fn an_unused_bias_is_named() {
    let unused = "belongs to no parameter";
    assert_says(&mismatch::<Bias, NoBias>(), &["key \"k_proj.bias\"", unused]);
    assert_says(&mismatch::<Bias, QkvBias>(), &["key \"out_proj.bias\"", unused]);
    assert_says(&mismatch::<Bias, NoKeyBias>(), &["key \"k_proj.bias\"", unused]);
    assert_says(&mismatch::<QkvBias, NoKeyBias>(), &["no key \"out_proj.bias\""]);
}

#[test]
fn linear_maps_say_the_same() {
    type Map<B> = Linear<Model<C<2>>, Hidden<C<3>>, B>;
    let folder = Folder::new();
    let (with, without) = (folder.path("with"), folder.path("without"));
    out_in().save(&Map::<Bias>::zeros(), &with).unwrap();
    out_in().save(&Map::<NoBias>::zeros(), &without).unwrap();
    let message = refusal(&out_in(), &mut Map::<Bias>::zeros(), &without);
    assert_says(&message, &["no key \"bias\"; the nearest are \"weight\""]);
    let message = refusal(&out_in(), &mut Map::<NoBias>::zeros(), &with);
    assert_eq!(message, "key \"bias\": belongs to no parameter; `allow_extra` lets a key be");
}
