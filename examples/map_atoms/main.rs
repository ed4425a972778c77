//! Maps the atoms of a reaction's product to the reactant atoms they come from, read
//! from the attention weights of a model that learned reactions as text.
//!
//! ```text
//! cargo run --release --example map_atoms -- 'CCO.CC(=O)O>>CC(=O)OCC' --plot map.svg
//! ```

mod cli;
mod element;
mod heatmap;
mod mapping;
mod smiles;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use cli::Command;
use heatmap::HeatMap;
use mapping::MappedAtom;
use smiles::{Reaction, Vocabulary};

/// The arguments are wrong, or a text is no reaction.
const USAGE: u8 = 2;
/// The model or the plot's file failed.
const FAILURE: u8 = 1;

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
    let (texts, plot) = match cli::parse(arguments).map_err(|message| (USAGE, message))? {
        Command::Help => {
            print!("{}", cli::HELP);
            return Ok(());
        }
        Command::Map { reactions, plot } => (reactions, plot),
    };
    let json = read_json(&models().join("rxnmapper_albert.json"))?;
    let vocabulary = Vocabulary::from_json(&json).map_err(|message| (FAILURE, message))?;
    let reactions: Vec<Reaction> = texts
        .iter()
        .map(|text| vocabulary.parse(text).map_err(|message| (USAGE, message)))
        .collect::<Result<_, _>>()?;

    let mut out = std::io::stdout().lock();
    for (at, reaction) in reactions.iter().enumerate() {
        if !reaction.unknown.is_empty() {
            let unknown = reaction.unknown.join(" ");
            eprintln!("map_atoms: the model does not know {unknown}, and reads [UNK] instead");
        }
        if reactions.len() > 1 {
            writeln!(out, "# {}", reaction.text).map_err(unwritten)?;
        }
        let attention = attention(&reaction.ids).map_err(|message| (FAILURE, message))?;
        let atoms = mapping::map_atoms(reaction, &attention);
        for atom in &atoms {
            writeln!(out, "{atom}").map_err(unwritten)?;
        }
        if let Some(plot) = &plot {
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

/// The attention weights of layer index 10, head 5: a row for each query.
fn attention(_ids: &[usize]) -> Result<Vec<f32>, String> {
    Err("the model is not part of this build".into())
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
        subtitle: "attention weights of layer index 10, head 5; red boxes: the atom mapping",
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

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models")
}

fn read_json(path: &Path) -> Result<serde_json::Value, (u8, String)> {
    let refuse = |error: &dyn std::fmt::Display| (FAILURE, format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
    serde_json::from_str(&text).map_err(|error| refuse(&error))
}
