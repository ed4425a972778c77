//! Models of all kinds come back bit for bit.

use super::{Folder, bits, fill, in_out, out_in, round_trip};
use crate::modules;
use shapeproof::{
    AttentionBias, Bias, C, Checkpoint, Embedding, Encoder, EncoderConfig, EncoderLayer, Hidden,
    LayerNorm, Linear, Model, Module, MultiHeadAttention, NoBias, NoKeyBias, Parameter, QkvBias,
    Source, Tensor, TensorFile, Vocab, WeightLayout, axis, count_parameters, dyn_size,
};

axis!(Row);
axis!(Column);

type Map<E> = Linear<Model<C<3>>, Hidden<C<5>>, Bias, E>;

#[test]
fn a_linear_map_comes_back_in_both_orders_and_types() {
    for checkpoint in [out_in(), in_out()] {
        round_trip(&checkpoint, &mut Map::<f32>::zeros(), &mut Map::zeros());
        round_trip(&checkpoint, &mut Map::<f64>::zeros(), &mut Map::zeros());
    }
}

#[test]
fn f64_is_saved_as_f64() {
    let folder = Folder::new();
    let mut map = Map::<f64>::zeros();
    fill(&mut map, 3);
    out_in().save(&map, folder.path("map")).unwrap();
    let value = TensorFile::open(folder.path("map")).unwrap().read("weight").unwrap();
    assert_eq!((value.element(), value.dims()), ("f64", &[5, 3][..]));
}

#[test]
fn a_sequence_of_extremes_comes_back() {
    let folder = Folder::new();
    let extremes = [f32::MIN, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), -0.0, 0.0];
    let parameter = Embedding::new(Tensor::<(Vocab<C<6>>, Model<C<1>>)>::from(
        extremes.map(|extreme| [extreme]),
    ));
    out_in().save(&parameter, folder.path("extremes")).unwrap();
    let mut other = Embedding::<Vocab<C<6>>, Model<C<1>>>::zeros();
    out_in().load(&mut other, folder.path("extremes")).unwrap();
    assert_eq!(bits(&parameter), bits(&other));
}

fn attention<B: AttentionBias>(names: &[&str]) {
    type Attention<B> = MultiHeadAttention<C<6>, C<2>, C<4>, C<3>, B>;
    for checkpoint in [out_in(), in_out()] {
        let (mut from, mut to) = (Attention::<B>::zeros(), Attention::<B>::zeros());
        round_trip(&checkpoint, &mut from, &mut to);
        assert_eq!(modules::names(&from), names);
    }
}

#[test]
fn attention_comes_back_with_every_kind_of_bias() {
    let [q, k, v, out] = ["q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"];
    let [bq, bk, bv, bout] = ["q_proj.bias", "k_proj.bias", "v_proj.bias", "out_proj.bias"];
    attention::<Bias>(&[q, bq, k, bk, v, bv, out, bout]);
    attention::<NoBias>(&[q, k, v, out]);
    attention::<QkvBias>(&[q, bq, k, bk, v, bv, out]);
    attention::<NoKeyBias>(&[q, bq, k, v, bv, out, bout]);
}

type Layer<B> = EncoderLayer<C<4>, C<2>, C<6>, B>;

fn layer<B: AttentionBias>() -> Layer<B> {
    Layer::zeros(EncoderConfig::new(1e-5))
}

#[test]
fn encoders_come_back_and_shared_layers_are_saved_once() {
    let own = || Encoder::new(vec![layer::<Bias>(), layer(), layer()]);
    round_trip(&out_in(), &mut own(), &mut own());

    let shared = || Encoder::shared(layer::<NoBias>(), 3).with_norm(LayerNorm::new(1e-5));
    round_trip(&in_out(), &mut shared(), &mut shared());

    let folder = Folder::new();
    out_in().save(&shared(), folder.path("shared")).unwrap();
    let file = TensorFile::open(folder.path("shared")).unwrap();
    let keys: Vec<_> = file.keys().collect();
    assert!(keys[..keys.len() - 2].iter().all(|key| key.starts_with("layers.0.")), "{keys:?}");
    assert_eq!(keys[keys.len() - 2..], ["norm.bias", "norm.weight"]);
}

/// An embedding whose table is also the output's weight, fields that are there or not, and many.
struct Tied {
    table: Embedding<Vocab<C<7>>, Model<C<4>>>,
    head: Embedding<Vocab<C<7>>, Model<C<4>>>,
    some: Option<LayerNorm<Model<C<4>>>>,
    none: Option<LayerNorm<Model<C<4>>>>,
    many: Vec<Linear<Model<C<4>>, Model<C<4>>>>,
    scale: Parameter<(), f64>,
}

impl Module for Tied {
    shapeproof::parameters!(table, head as "lm_head", some, none, many as "layers", scale);
}

impl Tied {
    fn zeros() -> Self {
        let table = Embedding::zeros();
        let mut head = Embedding::zeros();
        head.weight = table.weight.tied();
        Tied {
            table,
            head,
            some: Some(LayerNorm::new(1e-5)),
            none: None,
            many: vec![Linear::zeros(), Linear::zeros()],
            scale: Parameter::zeros(),
        }
    }
}

#[test]
fn a_shared_parameter_is_listed_counted_and_saved_once() {
    let (mut from, mut to) = (Tied::zeros(), Tied::zeros());
    round_trip(&out_in(), &mut from, &mut to);
    assert_eq!(
        modules::names(&from),
        [
            "table.weight",
            "some.weight",
            "some.bias",
            "layers.0.weight",
            "layers.0.bias",
            "layers.1.weight",
            "layers.1.bias",
            "scale"
        ]
    );
    assert_eq!(count_parameters(&from), 7 * 4 + 2 * 4 + 2 * (4 * 4 + 4) + 1);
    assert_eq!(to.head.weight.value(), to.table.weight.value());
    assert_eq!(to.head.weight.value(), from.table.weight.value());
}

#[test]
fn keys_are_renamed_by_the_rule() {
    let renamed =
        out_in().sources(|name| Source::key(format!("model.{}", name.replace("layers.", "h."))));
    round_trip(&renamed, &mut Tied::zeros(), &mut Tied::zeros());
    let folder = Folder::new();
    renamed.save(&Tied::zeros(), folder.path("renamed")).unwrap();
    let file = TensorFile::open(folder.path("renamed")).unwrap();
    let keys: Vec<_> = file.keys().filter(|key| key.contains("h.0")).collect();
    assert_eq!(keys, ["model.h.0.bias", "model.h.0.weight"]);
}

#[test]
fn strided_values_are_saved_as_what_they_show() {
    let x = Tensor::<(Row<C<2>>, Column<C<3>>)>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let transposed = x.transpose(Row, Column);
    assert!(transposed.as_slice().is_none(), "a view that is packed proves nothing");
    let map = Linear::without_bias(transposed);
    for (checkpoint, dims, data) in [
        (in_out(), [3, 2], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
        (out_in(), [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ] {
        let folder = Folder::new();
        checkpoint.save(&map, folder.path("map")).unwrap();
        let saved = TensorFile::open(folder.path("map")).unwrap().read("weight").unwrap();
        assert_eq!((saved.dims(), saved.to::<f32>().to_vec()), (&dims[..], data.to_vec()));
        let mut other = Linear::<Column<C<3>>, Row<C<2>>, NoBias>::zeros();
        checkpoint.load(&mut other, folder.path("map")).unwrap();
        assert_eq!(bits(&map), bits(&other));
    }
}

#[test]
fn sizes_of_run_time_and_empty_axes_come_back() {
    for n in [0, 1, 5] {
        dyn_size!(rows = n);
        let zeros = || Embedding::new(Tensor::<_, f32>::zeros_in((Vocab(rows), Model(C::<3>))));
        let folder = Folder::new();
        let (mut from, mut to) = (zeros(), zeros());
        fill(&mut from, 1);
        out_in().save(&from, folder.path("table")).unwrap();
        out_in().load(&mut to, folder.path("table")).unwrap();
        assert_eq!(bits(&from), bits(&to));
    }
}

#[test]
fn a_file_of_another_float_type_is_rounded_to_the_models() {
    let folder = Folder::new();
    let mut wide = Map::<f64>::zeros();
    fill(&mut wide, 4);
    out_in().save(&wide, folder.path("wide")).unwrap();
    let mut narrow = Map::<f32>::zeros();
    out_in().load(&mut narrow, folder.path("wide")).unwrap();
    assert_eq!(narrow.weight.value().to_vec(), wide.weight.value().to::<f32>().to_vec());

    Checkpoint::new(WeightLayout::InOut).save(&narrow, folder.path("narrow")).unwrap();
    in_out().load(&mut wide, folder.path("narrow")).unwrap();
    assert_eq!(wide.bias.value().to_vec(), narrow.bias.value().to::<f64>().to_vec());
}
