//! What the rule may do with names, and what the loader does with a module that is its own.

use super::{Folder, bits, fill, out_in};
use shapeproof::{
    C, Embedding, Hidden, Linear, Model, Module, NoBias, Parameter, Source, Visitor, VisitorMut,
    Vocab,
};

struct Two {
    one: Parameter<(Model<C<2>>,)>,
    other: Parameter<(Model<C<2>>,)>,
}

/// Shows its parameters in one order to look at and in the other to change.
impl Module for Two {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.parameter("one", &self.one);
        visitor.parameter("other", &self.other);
    }
    fn visit_mut<'a>(&'a mut self, visitor: &mut dyn VisitorMut<'a>) {
        visitor.parameter("other", &mut self.other);
        visitor.parameter("one", &mut self.one);
    }
}

impl Two {
    fn filled() -> Self {
        let mut two = Two { one: Parameter::zeros(), other: Parameter::zeros() };
        fill(&mut two, 1);
        two
    }
}

#[test]
fn parameters_are_told_apart_by_identity_not_by_order() {
    let folder = Folder::new();
    let two = Two::filled();
    out_in().save(&two, folder.path("two")).unwrap();
    let mut loaded = Two { one: Parameter::zeros(), other: Parameter::zeros() };
    out_in().load(&mut loaded, folder.path("two")).unwrap();
    assert_eq!(bits(&two), bits(&loaded));
}

#[test]
fn two_parameters_may_be_loaded_from_one_key_but_not_saved_to_it() {
    let folder = Folder::new();
    let path = folder.path("two");
    let one = |name: &str| match name {
        "other" => Source::key("one"),
        name => Source::key(name),
    };
    let error = out_in().sources(one).save(&Two::filled(), &path).unwrap_err();
    assert_eq!(
        super::message(&error, &path),
        "key \"one\": belongs to another parameter already (for parameter \"other\")"
    );
    assert!(folder.names().is_empty());

    out_in().save(&Two::filled(), &path).unwrap();
    let mut loaded = Two::filled();
    out_in().sources(one).allow_extra(|key| key == "other").load(&mut loaded, &path).unwrap();
    assert_eq!(loaded.one.value(), loaded.other.value());
}

#[test]
fn a_tied_parameter_that_is_loaded_is_seen_in_both_places() {
    let folder = Folder::new();
    let mut table = Embedding::<Vocab<C<3>>, Model<C<2>>>::zeros();
    fill(&mut table, 1);
    out_in().save(&table, folder.path("table")).unwrap();
    let mut loaded = Embedding::<Vocab<C<3>>, Model<C<2>>>::zeros();
    let tied = loaded.weight.tied();
    let old = tied.value();
    out_in().load(&mut loaded, folder.path("table")).unwrap();
    assert_eq!(tied.value(), table.weight.value());
    assert_ne!(tied.value(), old);
}

#[test]
fn a_layer_that_has_run_uses_what_is_loaded() {
    use shapeproof::{Batch, Infer, Tensor};
    let folder = Folder::new();
    let map = || Linear::<Model<C<2>>, Hidden<C<3>>, NoBias>::zeros();
    let (mut saved, mut loaded) = (map(), map());
    fill(&mut saved, 1);
    fill(&mut loaded, 2);
    let x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[1.0, 2.0]]);
    let before = loaded.forward(&x, &mut Infer);
    out_in().save(&saved, folder.path("map")).unwrap();
    out_in().load(&mut loaded, folder.path("map")).unwrap();
    assert_ne!(loaded.forward(&x, &mut Infer), before);
    assert_eq!(loaded.forward(&x, &mut Infer), saved.forward(&x, &mut Infer));
}
