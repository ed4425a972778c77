//! Maps the atoms of a reaction's product to the reactant atoms they come from, read
//! from the attention weights of a model that learned reactions as text.
//!
//! ```text
//! cargo run --release --example map_atoms -- 'CCO.CC(=O)O>>CC(=O)OCC' --plot map.svg
//! ```

mod cli;
#[path = "../common/dtype.rs"]
mod dtype;
mod element;
mod heatmap;
#[path = "../common/layers.rs"]
mod layers;
mod mapping;
mod model;
mod smiles;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use cli::Command;
use dtype::with_dtype;
use heatmap::HeatMap;
use mapping::MappedAtom;
use model::Albert;
use shapeproof::{Batch, C, Float, Heads, NoMask, Seq, Tensor, dyn_size};
use smiles::{Reaction, Vocabulary};

/// The arguments are wrong, or a text is no reaction.
const USAGE: u8 = 2;
/// The model or the plot's file failed.
const FAILURE: u8 = 1;

/// What this model has learned to map atoms with, both counted from 0.
const LAYER: usize = 10;
const HEAD: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("map_atoms: {message}");
            ExitCode::from(code)
        }
    }
}

fn run() -> Result<(), (u8, String)> {
    let arguments = std::env::args_os().skip(1);
    let (texts, plot, dtype) = match cli::parse(arguments).map_err(|message| (USAGE, message))? {
        Command::Help => {
            print!("{}", cli::HELP);
            return Ok(());
        }
        Command::Map { reactions, plot, dtype } => (reactions, plot, dtype),
    };
    let [config, weights] = model_files()?;
    let json = read_json(&config)?;
    let vocabulary = Vocabulary::from_json(&json).map_err(|message| (FAILURE, message))?;
    let reactions: Vec<Reaction> = texts
        .iter()
        .map(|text| vocabulary.parse(text).map_err(|message| (USAGE, message)))
        .collect::<Result<_, _>>()?;
    let plot = plot.as_deref();
    with_dtype!(dtype, E => {
        let model = Albert::<E>::load(&weights, &json["config"]);
        map(&model.map_err(|message| (FAILURE, message))?, &reactions, plot)
    })
}

/// Maps every reaction.
fn map<E: Float>(
    model: &Albert<E>,
    reactions: &[Reaction],
    plot: Option<&Path>,
) -> Result<(), (u8, String)> {
    let mut out = std::io::stdout().lock();
    for (at, reaction) in reactions.iter().enumerate() {
        if !reaction.unknown.is_empty() {
            let unknown = reaction.unknown.join(" ");
            eprintln!("map_atoms: the model does not know {unknown}, and reads [UNK] instead");
        }
        if reactions.len() > 1 {
            writeln!(out, "# {}", reaction.text).map_err(unwritten)?;
        }
        let attention =
            attention(model, &reaction.ids).map_err(|error| (FAILURE, error.to_string()))?;
        let atoms = mapping::map_atoms(reaction, &attention);
        for atom in &atoms {
            writeln!(out, "{atom}").map_err(unwritten)?;
        }
        if let Some(plot) = plot {
            let path = numbered(plot, at, reactions.len());
            draw(&path, reaction, &attention, &atoms).map_err(|message| (FAILURE, message))?;
            eprintln!("map_atoms: wrote {}", path.display());
        }
    }
    Ok(())
}

fn unwritten(error: std::io::Error) -> (u8, String) {
    (FAILURE, format!("standard output: {error}"))
}

/// The attention weights that tell where atoms come from, a row for each query.
fn attention<E: Float>(model: &Albert<E>, ids: &[usize]) -> shapeproof::Result<Vec<f32>> {
    dyn_size!(length = ids.len());
    let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids.to_vec())?;
    let weights = model.attention(LAYER, &tokens, NoMask)?;
    Ok(weights.try_select(Batch, 0)?.try_select(Heads, HEAD)?.to::<f32>().to_vec())
}

fn draw(
    path: &Path,
    reaction: &Reaction,
    attention: &[f32],
    atoms: &[MappedAtom],
) -> Result<(), String> {
    let name = |(at, token): (usize, &String)| format!("{at} {token}");
    let tokens: Vec<String> = reaction.tokens.iter().enumerate().map(name).collect();
    let cell = |atom: &MappedAtom| Some((atom.product, atom.source.as_ref()?.reactant));
    let boxed: Vec<_> = atoms.iter().filter_map(cell).collect();
    let map = HeatMap {
        title: &reaction.text,
        subtitle: &format!(
            "attention weights of layer index {LAYER}, head {HEAD}; red boxes: the atom mapping"
        ),
        tokens: &tokens,
        weights: attention,
        divider: reaction.arrow,
        boxed: &boxed,
    };
    map.write(path)
}

/// `FILE-1.svg`, `FILE-2.svg`, … where there is more than one reaction.
fn numbered(plot: &Path, at: usize, count: usize) -> PathBuf {
    if count == 1 {
        return plot.to_owned();
    }
    let stem = plot.file_stem().unwrap_or_default().to_string_lossy();
    let ending = plot.extension().map(|it| format!(".{}", it.to_string_lossy()));
    plot.with_file_name(format!("{stem}-{}{}", at + 1, ending.unwrap_or_default()))
}

/// The model's JSON and weights, which a clone has wherever the program is run from.
fn model_files() -> Result<[PathBuf; 2], (u8, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models");
    let files =
        ["json", "safetensors"].map(|it| folder.join("rxnmapper_albert").with_extension(it));
    match files.iter().find(|file| !file.is_file()) {
        Some(file) => Err((
            FAILURE,
            format!("no {}: models come with the repository, not with the package", file.display()),
        )),
        None => Ok(files),
    }
}

fn read_json(path: &Path) -> Result<serde_json::Value, (u8, String)> {
    let refuse = |error: &dyn std::fmt::Display| (FAILURE, format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
    serde_json::from_str(&text).map_err(|error| refuse(&error))
}
