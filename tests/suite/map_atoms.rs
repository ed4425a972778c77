//! What the example `map_atoms` does around its model: arguments, tokens, the mapping
//! read from given attention weights, the picture.

#[path = "../../examples/map_atoms/cli.rs"]
mod cli;
#[path = "../../examples/map_atoms/element.rs"]
mod element;
#[path = "../../examples/map_atoms/heatmap.rs"]
mod heatmap;
#[path = "../../examples/map_atoms/mapping.rs"]
pub(crate) mod mapping;
#[path = "../../examples/map_atoms/smiles.rs"]
pub(crate) mod smiles;

use std::{ffi::OsString, path::Path};

use self::{
    cli::Command,
    element::element,
    heatmap::HeatMap,
    mapping::{MappedAtom, map_atoms},
    smiles::{Reaction, Vocabulary},
};
use crate::dtype::Dtype;
use crate::fixtures::{Config, Tensors, read_json, reference};

fn model_json() -> serde_json::Value {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models");
    read_json(&models.join("rxnmapper_albert.json"))
}

fn vocabulary() -> Vocabulary {
    Vocabulary::from_json(&model_json()).unwrap()
}

pub(crate) fn reference_reactions() -> (Vec<(Config, Reaction)>, Tensors) {
    let vocabulary = vocabulary();
    let (json, tensors) = reference("rxnmapper");
    let parse = |it: Config| {
        let reaction = vocabulary.parse(it.text("reaction")).unwrap();
        (it, reaction)
    };
    let reactions: Vec<_> = json.objects("reactions").into_iter().map(parse).collect();
    assert!(!reactions.is_empty());
    (reactions, tensors)
}

/// The pairs that the reference has for a reaction.
pub(crate) fn reference_pairs(reaction: &Config) -> Vec<(usize, usize)> {
    let key = "product_atom_to_reactant_atom (token positions, strongest same-element attention)";
    serde_json::from_value(reaction.json()[key].clone()).unwrap()
}

/// Product and reactant positions of the atoms that have a source.
pub(crate) fn pairs(atoms: &[MappedAtom]) -> Vec<(usize, usize)> {
    atoms.iter().filter_map(|it| Some((it.product, it.source.as_ref()?.reactant))).collect()
}

#[test]
fn tokens_and_ids_are_those_of_the_reference() {
    let (reactions, tensors) = reference_reactions();
    let width = tensors.dims("input_ids")[1];
    for (at, (wanted, reaction)) in reactions.iter().enumerate() {
        assert_eq!(reaction.tokens, wanted.texts("tokens"), "{}", reaction.text);
        let mut ids = reaction.ids.clone();
        ids.resize(width, 0);
        assert_eq!(ids, tensors.usize("input_ids")[at * width..][..width], "{}", reaction.text);
        assert!(reaction.unknown.is_empty());
    }
}

#[test]
fn mapping_of_the_reference_attention_is_the_reference_mapping() {
    let (reactions, tensors) = reference_reactions();
    for (at, (wanted, reaction)) in reactions.iter().enumerate() {
        let attention = tensors.f32(&format!("{at}.attention_layer10_head5"));
        let pairs = pairs(&map_atoms(reaction, &attention));
        assert_eq!(pairs, reference_pairs(wanted), "{}", reaction.text);
    }
}

#[test]
fn each_atom_prints_as_one_line() {
    let reaction = vocabulary().parse("C[NH2+].O>>CNBr").unwrap();
    // Every query looks most at the last key, then at those before it.
    let length = u8::try_from(reaction.tokens.len()).unwrap();
    let row = (0..length).map(|key| f32::from(key) / 16.0);
    let attention: Vec<f32> = (0..length).flat_map(|_| row.clone()).collect();
    let lines: Vec<_> = map_atoms(&reaction, &attention).iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["6 C <- 1 C 0.062500", "7 N <- 2 [NH2+] 0.125000", "8 Br <- - - -"]);
}

#[test]
fn elements_are_compared_without_brackets_charges_isotopes_and_case() {
    for (token, wanted) in [
        ("C", Some("c")),
        ("c", Some("c")),
        ("Cl", Some("cl")),
        ("[Cl-]", Some("cl")),
        ("[nH]", Some("n")),
        ("[C@@H]", Some("c")),
        ("[13CH3]", Some("c")),
        ("[NH4+]", Some("n")),
        ("[Na+]", Some("na")),
        ("[se]", Some("se")),
        ("[sH+]", Some("s")),
        ("[H]", Some("h")),
        ("[2H]", Some("h")),
        ("[Hg+2]", Some("hg")),
        ("[CH3:12]", Some("c")),
        ("[Co@OH12]", Some("co")),
        ("[*]", None),
        ("[CLS]", None),
        ("[SEP]", None),
        ("[nonsense]", None),
        ("(", None),
        ("%10", None),
        ("1", None),
        ("*", None),
        (">>", None),
    ] {
        assert_eq!(element(token).as_deref(), wanted, "{token}");
    }
    let not_atoms = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    for token in model_json()["vocab"].as_array().unwrap() {
        let token = token.as_str().unwrap();
        let atom = token.starts_with(|it: char| it == '[' || it.is_alphabetic());
        let atom = atom && !token.starts_with("[unused") && !not_atoms.contains(&token);
        assert_eq!(element(token).is_some(), atom, "{token}");
    }
}

#[test]
fn a_text_that_is_no_reaction_gets_one_line_that_says_why() {
    let vocabulary = vocabulary();
    let long = format!("{}>>C", "C".repeat(600));
    for (text, why) in [
        ("", "an empty text"),
        ("   ", "an empty text"),
        ("CCO", "no `>>`"),
        ("CCO>CC", "one `>`, which should be `>>`"),
        (">>", "nothing before the arrow"),
        (">>CC", "nothing before the arrow"),
        ("CC>>", "nothing after the arrow"),
        ("C>>C>>C", "more than one arrow"),
        ("C>>C>C", "more than one arrow"),
        ("C>C>C>C", "more than one arrow"),
        ("hello world", "'h' at character 1 is not SMILES"),
        ("CC >>CC", "' ' at character 3 is not SMILES"),
        ("CC>>C\nC", "'\\n' at character 6 is not SMILES"),
        ("CC→CC", "'→' at character 3 is not SMILES"),
        ("[CH3>>C", "'[' at character 1 is not SMILES"),
        ("C[]>>C", "'[' at character 2 is not SMILES"),
        ("[hello]>>C", "\"[hello]\" is no atom"),
        ("[CLS]>>C", "\"[CLS]\" is no atom"),
        ("C(>>C", "`(` without `)`"),
        ("C)>>C", "`)` without `(`"),
        ("C1CC>>C", "ring 1 is not closed"),
        ("C..C>>C", "an empty molecule beside a dot"),
        ("C.>>C", "an empty molecule beside a dot"),
        ("*>>C", "no atom before the arrow"),
        ("C>>=", "no atom after the arrow"),
        (&long, "604 tokens, and the model has positions for 512"),
    ] {
        let message = vocabulary.parse(text).unwrap_err();
        assert!(
            message.starts_with(&format!("not a reaction that can be mapped: {why}: \"")),
            "{text:?}: {message}"
        );
        assert!(!message.contains('\n') && message.len() < 200, "{message}");
    }
}

#[test]
fn the_longest_reaction_that_the_model_has_positions_for_is_read() {
    let vocabulary = vocabulary();
    let most = format!("{}>>C", "C".repeat(508));
    assert_eq!(vocabulary.parse(&most).unwrap().tokens.len(), 512);
    assert!(vocabulary.parse(&format!("C{most}")).is_err());
}

#[test]
fn reagents_between_the_arrows_join_the_reactants() {
    let vocabulary = vocabulary();
    for (text, wanted) in [
        ("CCO>[Na+].O>CC=O", "CCO.[Na+].O>>CC=O"),
        (">O>CC=O", "O>>CC=O"),
        (" CCO>>CC=O\n", "CCO>>CC=O"),
    ] {
        assert_eq!(vocabulary.parse(text).unwrap().text, wanted);
    }
}

#[test]
fn a_token_outside_the_vocabulary_is_read_as_unknown_and_named() {
    let reaction = vocabulary().parse("[CH3:1]CO>>[CH3:1]C").unwrap();
    assert_eq!(reaction.unknown, ["[CH3:1]"]);
    assert_eq!((reaction.ids[1], reaction.elements[1].as_deref()), (11, Some("c")));
}

#[test]
fn map_atoms_reads_its_arguments() {
    let parse = |args: &[&str]| cli::parse(args.iter().map(OsString::from));
    let map = |reactions: &[&str], plot: Option<&str>| {
        let reactions = reactions.iter().map(ToString::to_string).collect();
        Ok(Command::Map { reactions, plot: plot.map(Into::into), dtype: Dtype::F32 })
    };
    assert_eq!(parse(&[]), map(&[cli::EXAMPLE], None));
    assert_eq!(parse(&["C>>C", "--plot", "a.svg", "N>>N"]), map(&["C>>C", "N>>N"], Some("a.svg")));
    assert_eq!(parse(&["--plot=a.svg", "--", "-C>>C"]), map(&["-C>>C"], Some("a.svg")));
    assert_eq!(parse(&["C>>C", "--help"]), Ok(Command::Help));
    assert!(cli::HELP.contains("--plot FILE.svg"));
    for (args, wanted) in [
        (&["--plott", "a.svg"][..], "unknown option `--plott` (see --help)"),
        (&["-x"], "unknown option `-x` (see --help)"),
        (&["--plot"], "--plot needs a file name"),
        (&["--plot", "--help"], "--plot needs a file name"),
        (&["--plot="], "--plot needs a file name"),
    ] {
        assert_eq!(parse(args), Err(wanted.to_owned()));
    }
}

#[test]
fn the_heat_map_names_every_token_on_both_axes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (reactions, tensors) = reference_reactions();
    for (at, (_, reaction)) in reactions.iter().enumerate() {
        let attention = tensors.f32(&format!("{at}.attention_layer10_head5"));
        let boxed = pairs(&map_atoms(reaction, &attention));
        let svg = heat_map(&folder.join(format!("map-{at}.svg")), reaction, &attention, &boxed);
        for (at, token) in reaction.tokens.iter().enumerate() {
            let name = format!("\n{at} {}\n", token.replace('>', "&gt;"));
            assert_eq!(svg.matches(&name).count(), 2, "{name}");
        }
    }
    let small = vocabulary().parse("C>>[13CH4]").unwrap();
    let weights: Vec<f32> = (0_u8..25).map(|at| f32::from(at) / 300.0).collect();
    heat_map(&folder.join("map-small.svg"), &small, &weights, &pairs(&map_atoms(&small, &weights)));
    // A long one, with the longest names and weights that are all the same.
    let long = format!("{0}>>{0}", ["[13C@@H](F)(Cl)Br"; 16].join("."));
    let reaction = vocabulary().parse(&long).unwrap();
    let length = reaction.tokens.len();
    assert!((200..300).contains(&length));
    let weights = vec![0.0; length * length];
    heat_map(&folder.join("map-long.svg"), &reaction, &weights, &[(length - 2, 1)]);
}

fn heat_map(path: &Path, reaction: &Reaction, weights: &[f32], boxed: &[(usize, usize)]) -> String {
    let name = |(at, token): (usize, &String)| format!("{at} {token}");
    let tokens: Vec<_> = reaction.tokens.iter().enumerate().map(name).collect();
    let map = HeatMap {
        title: &reaction.text,
        subtitle: "attention weights of layer index 10, head 5; red boxes: the atom mapping",
        tokens: &tokens,
        weights,
        divider: reaction.arrow,
        boxed,
    };
    map.write(path).unwrap();
    std::fs::read_to_string(path).unwrap()
}
