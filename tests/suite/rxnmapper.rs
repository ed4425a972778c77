//! The model of the example `map_atoms` against reference values: attention weights, hidden
//! states, and the atom mapping that is read from them.

#[path = "../../examples/map_atoms/model.rs"]
pub(crate) mod model;

use std::path::{Path, PathBuf};

use shapeproof::{Batch, C, Heads, Infer, Key, Model, NoMask, Query, Seq, Tensor, dyn_size};

use self::model::Albert;
use crate::{
    fixtures::{assert_close, read_json},
    map_atoms::{
        mapping::{MappedAtom, map_atoms},
        pairs, reference_pairs, reference_reactions,
        smiles::Reaction,
    },
};

pub(crate) const LAYER: usize = 10;
pub(crate) const HEAD: usize = 5;

pub(crate) fn weights_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/rxnmapper_albert.safetensors")
}

pub(crate) fn config() -> serde_json::Value {
    read_json(&weights_file().with_extension("json"))["config"].clone()
}

fn albert() -> Albert {
    Albert::load(&weights_file(), &config()).unwrap()
}

/// The weights of one layer for one reaction: all heads, row by row.
fn attention(model: &Albert, layer: usize, ids: &[usize]) -> Vec<f32> {
    dyn_size!(length = ids.len());
    let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids.to_vec()).unwrap();
    model.attention(layer, &tokens, NoMask).unwrap().to_vec()
}

/// The hidden states behind the last layer for one reaction.
fn hidden(model: &Albert, ids: &[usize]) -> Vec<f32> {
    dyn_size!(length = ids.len());
    let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids.to_vec()).unwrap();
    let x = model.embed(&tokens).unwrap();
    model.encoder.forward(&x, NoMask, &mut Infer).to_vec()
}

/// One head's part of what [`attention`] returns.
fn head(all: &[f32], head: usize, length: usize) -> &[f32] {
    &all[head * length * length..][..length * length]
}

#[test]
fn attention_weights_are_those_of_the_reference() {
    let (model, (reactions, reference)) = (albert(), reference_reactions());
    for (at, (_, reaction)) in reactions.iter().enumerate() {
        let all = attention(&model, LAYER, &reaction.ids);
        let name = format!("{at}.attention_layer10_head5");
        let found = head(&all, HEAD, reaction.ids.len());
        assert_close(&name, found, &reference.f64(&name), 0.0, 5e-5);
        for layer in [0, 11] {
            let name = format!("{at}.attention_layer{layer}");
            if reference.has(&name) {
                let found = attention(&model, layer, &reaction.ids);
                assert_close(&name, &found, &reference.f64(&name), 0.0, 5e-5);
            }
        }
    }
}

#[test]
fn hidden_states_are_those_of_the_reference() {
    let (model, (reactions, reference)) = (albert(), reference_reactions());
    for (at, (_, reaction)) in reactions.iter().enumerate() {
        let name = format!("{at}.hidden_last");
        let found = hidden(&model, &reaction.ids);
        assert_close(&name, &found, &reference.f64(&name), 0.0, 1e-4);
    }
}

#[test]
fn atoms_are_mapped_as_in_the_reference() {
    let (model, (reactions, reference)) = (albert(), reference_reactions());
    for (at, (wanted, reaction)) in reactions.iter().enumerate() {
        let all = attention(&model, LAYER, &reaction.ids);
        let found = pairs(&map_atoms(reaction, head(&all, HEAD, reaction.ids.len())));
        let wanted = reference_pairs(wanted);
        assert_eq!(found.len(), wanted.len(), "{}", reaction.text);
        let expected = reference.f32(&format!("{at}.attention_layer10_head5"));
        for (atom, (found, wanted)) in
            map_atoms(reaction, &expected).iter().zip(found.iter().zip(&wanted))
        {
            // No comparison of what is nearly a tie.
            let comparable = margin(reaction, &expected, atom) >= 1e-4;
            assert!(found == wanted || !comparable, "{}: {found:?}, {wanted:?}", reaction.text);
        }
    }
}

/// By how much an atom's strongest source is ahead of the second.
pub(crate) fn margin(reaction: &Reaction, attention: &[f32], atom: &MappedAtom) -> f32 {
    let row = &attention[atom.product * reaction.ids.len()..];
    let same = |at: &usize| reaction.elements[*at] == reaction.elements[atom.product];
    let mut weights: Vec<f32> = (0..reaction.arrow).filter(same).map(|at| row[at]).collect();
    weights.sort_by(f32::total_cmp);
    match weights[..] {
        [.., second, first] => first - second,
        _ => f32::INFINITY,
    }
}

#[test]
fn a_padded_batch_gives_what_each_reaction_gives_alone() {
    let (model, (reactions, reference)) = (albert(), reference_reactions());
    let [rows, width] = *reference.dims("input_ids") else { panic!("two axes") };
    dyn_size!(batch = rows, length = width);
    let shape = (Batch(batch), Seq(length));
    let tokens = Tensor::try_from_vec(shape, reference.usize("input_ids")).unwrap();
    let keep = Tensor::try_from_vec(shape, reference.i64("attention_mask")).unwrap();
    let keep = keep.map(|keep| keep == 1).rename(Seq, Key);

    let weights = model.attention(LAYER, &tokens, &keep).unwrap();
    let x = model.encoder.forward(&model.embed(&tokens).unwrap(), &keep, &mut Infer);
    for (at, (_, reaction)) in reactions.iter().enumerate() {
        dyn_size!(own = reaction.ids.len());
        let mine = weights.try_select(Batch, at).unwrap();
        let mine = mine.try_slice(Query, 0, own).unwrap().try_slice(Key, 0, own).unwrap();
        let alone = attention(&model, LAYER, &reaction.ids);
        let alone = Tensor::try_from_vec((Heads(C::<8>), Query(own), Key(own)), alone).unwrap();
        mine.try_close(&alone, 0.0, 2e-6).unwrap();

        let mine = x.try_select(Batch, at).unwrap().try_slice(Seq, 0, own).unwrap();
        let alone = hidden(&model, &reaction.ids);
        let alone = Tensor::try_from_vec((Seq(own), Model(C::<256>)), alone).unwrap();
        mine.try_close(&alone, 0.0, 5e-6).unwrap();
    }
}

#[test]
fn a_hidden_token_changes_nothing() {
    let model = albert();
    let keep = Tensor::<(Batch<C<2>>, Key<C<4>>), bool>::from([[true, true, true, false]; 2]);
    let tokens =
        Tensor::<(Batch<C<2>>, Seq<C<4>>), usize>::from([[12, 16, 13, 0], [12, 16, 13, 590]]);
    let weights = model.attention(LAYER, &tokens, &keep).unwrap();
    let row = |sample| weights.try_select(Batch, sample).unwrap().try_slice(Query, 0, C::<3>);
    assert_eq!(row(0).unwrap(), row(1).unwrap());
}

#[test]
fn the_model_refuses_what_it_was_not_compiled_for() {
    let refused = |key: &str, value: serde_json::Value| {
        let mut config = config();
        config[key] = value;
        Albert::<f32>::load(&weights_file(), &config).err().unwrap()
    };
    assert_eq!(
        refused("num_attention_heads", 4.into()),
        "`num_attention_heads` is 4, compiled for 8"
    );
    assert_eq!(refused("hidden_size", "256".into()), "`hidden_size` is \"256\", compiled for 256");
    assert_eq!(refused("hidden_act", "relu".into()), "`hidden_act` is \"relu\", not a GELU");
    assert_eq!(refused("layer_norm_eps", serde_json::Value::Null), "no `layer_norm_eps`");

    let error = Albert::<f32>::load(Path::new("no/such.safetensors"), &config()).err().unwrap();
    assert!(error.starts_with("no/such.safetensors: "), "{error}");
}

#[test]
fn tokens_and_lengths_outside_the_model_are_errors() {
    let model = albert();
    let outside = Tensor::<(Batch<C<1>>, Seq<C<2>>), usize>::from([[12, 591]]);
    let error = model.embed(&outside).unwrap_err();
    assert!(error.is_index() && error.to_string().contains("591"), "{error}");
    dyn_size!(length = 513);
    let long = Tensor::zeros_in((Batch(C::<1>), Seq(length)));
    let error = model.embed(&long).unwrap_err();
    assert!(error.is_index() && error.to_string().contains("513"), "{error}");
}
