//! Continues a text with a small language model, token by token, each computed from the cached keys and
//! values of those before.
//!
//! ```text
//! cargo run --release --example generate -- 'Alice was beginning to' --tokens 40
//! ```

mod cli;
#[path = "../common/dtype.rs"]
mod dtype;
#[path = "../common/layers.rs"]
mod layers;
mod model;
mod sampling;
mod text;
mod words;

use std::{
    io::{IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use cli::{Command, Request};
use dtype::with_dtype;
use model::Glass;
use shapeproof::{Float, Static};
use text::{End, Failure};
use words::Words;

/// The arguments or the text are wrong.
const USAGE: u8 = 2;
/// The model or the output failed.
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("generate: {message}");
            ExitCode::from(code)
        }
    }
}

fn run() -> Result<(), (u8, String)> {
    let arguments = std::env::args_os().skip(1);
    let request = match cli::parse(arguments).map_err(|message| (USAGE, message))? {
        Command::Help => {
            print!("{}", cli::HELP);
            return Ok(());
        }
        Command::Generate(request) => request,
    };
    with_dtype!(request.dtype, E => write::<E>(&request))
}

/// Writes the text asked for.
fn write<E: Float>(request: &Request) -> Result<(), (u8, String)> {
    let (model, words) = load::<E>().map_err(|message| (FAILURE, message))?;
    let mut out = std::io::stdout().lock();
    let report = text::write(&model, &words, request, &mut out).map_err(|failure| {
        let code = if matches!(failure, Failure::Prompt(_)) { USAGE } else { FAILURE };
        (code, failure.message())
    })?;
    if out.is_terminal() {
        // So that the next prompt of a shell has a line of its own.
        let _ = writeln!(out);
    }
    if report.end == End::ContextFull {
        let most = model::Context::N;
        eprintln!("generate: the text ends here, the model sees at most {most} tokens");
    }
    if request.stats {
        eprintln!("generate: {}", report.stats());
    }
    Ok(())
}

/// The model and its words, which a clone has wherever the program is run from.
fn load<E: Float>() -> Result<(Glass<E>, Words), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models");
    let [json, weights] =
        ["json", "safetensors"].map(|ending| folder.join("glassllm_en").with_extension(ending));
    for file in [&json, &weights] {
        if !file.is_file() {
            let file = file.display();
            return Err(format!(
                "no {file}: models come with the repository, not with the package"
            ));
        }
    }
    let refuse = |error: &dyn std::fmt::Display| format!("{}: {error}", json.display());
    let text = std::fs::read_to_string(&json).map_err(|error| refuse(&error))?;
    let settings: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    let words = Words::from_json(&settings).map_err(|error| refuse(&error))?;
    let model = Glass::load(&weights, &settings["config"])?;
    if words.count() != model::Words::N {
        return Err(refuse(&format!("{} tokens, expected {}", words.count(), model::Words::N)));
    }
    Ok((model, words))
}
