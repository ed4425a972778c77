//! Compares sentences by meaning: all-MiniLM-L6-v2 over a batch of any size and length.
//!
//! ```text
//! cargo run --release --example sentence_similarity -- --model DIR 'A cat.' 'A feline.'
//! ```

mod cli;
#[path = "../common/dtype.rs"]
mod dtype;
#[path = "../common/layers.rs"]
mod layers;
mod model;
mod similarity;
mod words;

use std::{io::Write, process::ExitCode};

use cli::Command;
use dtype::with_dtype;
use model::Config;
use shapeproof::{FloatTensor, save_tensors};
use words::Words;

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
    let (folder, sentences, file, dtype) = match cli::parse(arguments).map_err(usage)? {
        Command::Help => {
            print!("{}", cli::HELP);
            return Ok(());
        }
        Command::Compare { model, sentences, vectors, dtype } => (model, sentences, vectors, dtype),
    };
    cli::check_model(&folder).map_err(usage)?;
    let config = Config::read(&folder.join("config.json")).map_err(failure)?;
    let words = Words::load(&folder.join("tokenizer.json"), config.positions).map_err(failure)?;
    let batch = words.batch(&sentences).map_err(failure)?;
    batch.notices.iter().for_each(|notice| eprintln!("sentence_similarity: {notice}"));

    let vectors = with_dtype!(dtype, E => model::encode::<E>(&folder, &config, &batch));
    let vectors = vectors.map_err(failure)?;
    let rows: Vec<Vec<f32>> = vectors.to_vec().chunks(config.width).map(<[f32]>::to_vec).collect();
    let table = similarity::table(&sentences, &similarity::cosines(&rows));
    if let Some(file) = file {
        save_tensors(&file, [("vectors", FloatTensor::new(vectors))])
            .map_err(|error| failure(error.to_string()))?;
        eprintln!("sentence_similarity: wrote {}", file.display());
    }
    let written = std::io::stdout().write_all(table.as_bytes());
    written.map_err(|error| failure(format!("standard output: {error}")))
}
