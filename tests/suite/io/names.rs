//! The list of parameters: its order and its names are part of a file's format.

use crate::modules::names;
use shapeproof::{
    AnyParameter, C, Encoder, EncoderConfig, EncoderLayer, Field, LayerNorm, Linear, Model, Module,
    Parameter, Vocab, count_parameters, parameters, parameters_mut,
};

const LAYER: [&str; 16] = [
    "attention.q_proj.weight",
    "attention.q_proj.bias",
    "attention.k_proj.weight",
    "attention.k_proj.bias",
    "attention.v_proj.weight",
    "attention.v_proj.bias",
    "attention.out_proj.weight",
    "attention.out_proj.bias",
    "attention_norm.weight",
    "attention_norm.bias",
    "feed_forward.up.weight",
    "feed_forward.up.bias",
    "feed_forward.down.weight",
    "feed_forward.down.bias",
    "feed_forward_norm.weight",
    "feed_forward_norm.bias",
];

fn encoder() -> Encoder<C<4>, C<2>, C<6>> {
    let layer = || EncoderLayer::zeros(EncoderConfig::new(1e-5));
    Encoder::new(vec![layer(), layer()]).with_norm(LayerNorm::new(1e-5))
}

#[test]
fn names_are_the_paths_of_the_fields_in_their_order() {
    let layers = (0..2).flat_map(|i| LAYER.iter().map(move |name| format!("layers.{i}.{name}")));
    let expected: Vec<_> =
        layers.chain(["norm.weight".to_owned(), "norm.bias".to_owned()]).collect();
    let mut encoder = encoder();
    assert_eq!(names(&encoder), expected);
    let names: Vec<_> = parameters_mut(&mut encoder).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, expected);
}

#[test]
fn both_lists_have_the_same_parameters() {
    let mut encoder = encoder();
    let ids: Vec<_> = parameters(&encoder).into_iter().map(|(_, p)| p.id()).collect();
    let mutable: Vec<_> = parameters_mut(&mut encoder).into_iter().map(|(_, p)| p.id()).collect();
    assert_eq!(ids, mutable);
    let mut single = ids.clone();
    single.sort_unstable();
    single.dedup();
    assert_eq!(single.len(), ids.len());
}

#[test]
fn only_the_weights_of_linear_maps_are_projections() {
    let encoder = encoder();
    for (name, parameter) in parameters(&encoder) {
        let expected = name.ends_with("weight") && !name.contains("norm");
        assert_eq!(parameter.is_projection(), expected, "{name}");
    }
    let linear = Linear::<Model<C<4>>, Vocab<C<3>>>::zeros();
    let weight: &dyn AnyParameter = &linear.weight;
    assert_eq!((weight.axes(), &weight.dims()[..]), (&["Model", "Vocab"][..], &[4, 3][..]));
    assert_eq!(weight.element(), "f32");
}

type Vector = Parameter<(Model<C<2>>,)>;

struct Nested {
    deep: Vec<Vec<Option<Vector>>>,
    inner: Option<Inner>,
}
struct Inner {
    gain: Parameter<(), f64>,
}
impl Module for Nested {
    shapeproof::parameters!(deep, inner as "a.b");
}
impl Module for Inner {
    shapeproof::parameters!(gain);
}

#[test]
fn lists_and_options_may_nest_and_an_absent_one_keeps_the_others_places() {
    let some = || Some(Parameter::zeros());
    let nested = Nested {
        deep: vec![vec![some(), None, some()], vec![], vec![some()]],
        inner: Some(Inner { gain: Parameter::zeros() }),
    };
    assert_eq!(names(&nested), ["deep.0.0", "deep.0.2", "deep.2.0", "a.b.gain"]);
    assert_eq!(count_parameters(&nested), 7);
}

#[test]
fn a_module_behind_dyn_lists_its_parameters() {
    let linear = Linear::<Model<C<4>>, Vocab<C<3>>>::zeros();
    let module: &dyn Module = &linear;
    assert_eq!(parameters(module).len(), 2);
    let field: &dyn Field = &linear;
    let _ = field;
}
