//! The arguments of `train_char_lm`.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use shapeproof::Element;

use crate::dtype::{Dtype, with_dtype};

pub(crate) const HELP: &str = "\
Trains a small character model on Shakespeare's As You Like It, which is compiled in.

Usage: train_char_lm [options]

Options:
  --steps N     how many steps the whole run has, 600 unless given
  --seed N      what the beginning and the windows depend on, 1 unless given
  --out DIR     the folder of the run's files, ./train_char_lm unless given
  --dtype TYPE  compute in f32 (unless given), f16 or bf16; what is learned is kept in f32
  --resume      go on with the run in that folder, from its last save
  -h, --help    print this help

The folder gets run.safetensors (parameters, optimizer, step and random numbers), loss.csv
and loss.svg; a new run replaces those of an older one. Ctrl-C saves, ends, and says which
arguments go on, bit for bit as if nothing had been. A second Ctrl-C ends at once, and leaves
the last save.

Standard output gets a text by the model, and as its last line the loss on the last tenth of
the play, which the model was not trained on, in nats a character.

Exit code 2: an argument is wrong; 130: Ctrl-C; 1: anything else failed.
";

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Train(Request),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Of the whole run, with those before it was interrupted.
    pub(crate) steps: usize,
    pub(crate) seed: u64,
    pub(crate) out: PathBuf,
    pub(crate) dtype: Dtype,
    pub(crate) resume: bool,
}

/// Reads the arguments after the program's name. The `Err` is one line.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (mut steps, mut seed, mut out, mut resume) = (None, None, None, false);
    let mut dtype = Dtype::default();
    while let Some(arg) = args.next() {
        let text = arg.to_str().ok_or_else(|| format!("argument {arg:?} is not UTF-8"))?;
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None => (text, None),
        };
        match text {
            "-h" | "--help" => return Ok(Command::Help),
            "--resume" => {
                resume = true;
                continue;
            }
            _ => {}
        }
        let known = ["--steps", "--seed", "--out", "--dtype"].contains(&option);
        if !known {
            let what = if text.starts_with('-') { "option" } else { "argument" };
            return Err(format!("unknown {what} `{text}` (see --help)"));
        }
        let value = value.or_else(|| args.next()).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("{option} needs a value"))?;
        match option {
            "--steps" => steps = Some(number(option, &value, "from 1 on", |n: &usize| *n > 0)?),
            "--dtype" => dtype = Dtype::parse(&value.to_string_lossy())?,
            "--seed" => seed = Some(number(option, &value, "from 0 on", |_| true)?),
            _ => out = Some(PathBuf::from(value)),
        }
    }
    if resume && seed.is_some() {
        return Err("--resume goes on with the numbers of the run, it takes no --seed".into());
    }
    Ok(Command::Train(Request {
        steps: steps.unwrap_or(600),
        seed: seed.unwrap_or(1),
        out: out.unwrap_or_else(|| "train_char_lm".into()),
        dtype,
        resume,
    }))
}

/// The arguments that go on with this run.
pub(crate) fn resuming(request: &Request) -> String {
    let Request { steps, out, dtype, .. } = request;
    let dtype = with_dtype!(dtype, E => <E as Element>::NAME);
    format!("--resume --steps {steps} --dtype {dtype} --out {}", out.display())
}

fn number<T: FromStr>(
    option: &str,
    value: &OsString,
    wanted: &str,
    fits: impl Fn(&T) -> bool,
) -> Result<T, String> {
    let text = value.to_string_lossy();
    let number = text.parse().ok().filter(fits);
    number.ok_or_else(|| format!("{option} is `{text}`, expected a whole number {wanted}"))
}
