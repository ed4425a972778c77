//! The arguments of `generate`.

use std::ffi::OsString;

use crate::dtype::Dtype;

pub(crate) const HELP: &str = "\
Continues a text, as a small model that has read Alice would.

Usage: generate [options] 'the beginning of a text'

Options:
  --tokens N         how many tokens to add, 40 unless given
  --temperature T    draw each token, from logits divided by T; 0 takes the likeliest
  --top-k K          draw from the K likeliest tokens
  --top-p P          draw from the likeliest tokens that together have probability P
  --seed N           what the draws depend on, 0 unless given
  --dtype TYPE       compute in f32 (unless given), f16 or bf16
  --stats            print the time to the first token and tokens a second
  -h, --help         print this help

Takes the likeliest token each time, unless an option asks for draws; --top-k, --top-p
and --seed draw at temperature 1 where none is given. A `--` before the text lets it
begin with a dash.

Standard output gets the text and what follows, token by token, and nothing else. The
model sees 128 tokens: where a text fills them, it ends, and standard error says so.

Exit code 2: an argument is wrong, or the text is; 1: anything else failed.
";

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Generate(Request),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) prompt: String,
    pub(crate) tokens: usize,
    pub(crate) sampling: Sampling,
    pub(crate) dtype: Dtype,
    pub(crate) stats: bool,
}

/// How a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// 0 takes the likeliest.
    pub(crate) temperature: f64,
    pub(crate) top_k: Option<usize>,
    pub(crate) top_p: Option<f64>,
    pub(crate) seed: u64,
}

impl Sampling {
    /// The likeliest token each time.
    pub(crate) const GREEDY: Self =
        Sampling { temperature: 0.0, top_k: None, top_p: None, seed: 0 };
}

/// Reads the arguments after the program's name. The `Err` is one line.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let mut request = Request {
        prompt: String::new(),
        tokens: 40,
        sampling: Sampling::GREEDY,
        dtype: Dtype::default(),
        stats: false,
    };
    let (mut prompts, mut only_prompts) = (Vec::new(), false);
    let (mut temperature, mut draws) = (None, false);
    while let Some(arg) = args.next() {
        let text = arg.to_str().ok_or_else(|| format!("argument {arg:?} is not UTF-8"))?;
        if only_prompts || !text.starts_with('-') {
            prompts.push(text.to_owned());
            continue;
        }
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (text, None),
        };
        if ["--", "-h", "--help", "--stats"].contains(&text) {
            match text {
                "--" => only_prompts = true,
                "--stats" => request.stats = true,
                _ => return Ok(Command::Help),
            }
            continue;
        }
        let mut value = || {
            let next = || args.next().and_then(|arg| arg.into_string().ok());
            value.clone().or_else(next).ok_or_else(|| format!("{option} needs a value"))
        };
        let sampling = &mut request.sampling;
        match option {
            "--tokens" => request.tokens = number(option, &value()?, "a whole number", |_| true)?,
            "--dtype" => request.dtype = Dtype::parse(&value()?)?,
            "--temperature" => {
                let fits = |t: &f64| t.is_finite() && *t >= 0.0;
                temperature = Some(number(option, &value()?, "a number from 0 on", fits)?);
            }
            "--top-k" => {
                let k = number(option, &value()?, "a whole number from 1 on", |k: &usize| *k > 0)?;
                (sampling.top_k, draws) = (Some(k), true);
            }
            "--top-p" => {
                let fits = |p: &f64| *p > 0.0 && *p <= 1.0;
                let p = number(option, &value()?, "a number above 0, at most 1", fits)?;
                (sampling.top_p, draws) = (Some(p), true);
            }
            "--seed" => {
                sampling.seed = number(option, &value()?, "a whole number", |_| true)?;
                draws = true;
            }
            _ => return Err(format!("unknown option `{text}` (see --help)")),
        }
    }
    request.sampling.temperature = temperature.unwrap_or(if draws { 1.0 } else { 0.0 });
    request.prompt = match <[String; 1]>::try_from(prompts) {
        Ok([prompt]) if prompt.is_empty() => return Err("the text is empty".into()),
        Ok([prompt]) => prompt,
        Err(none) if none.is_empty() => return Err("no text (see --help)".into()),
        Err(many) => return Err(format!("expected one text in quotes, found {}", many.len())),
    };
    Ok(Command::Generate(request))
}

fn number<T: std::str::FromStr>(
    option: &str,
    text: &str,
    wanted: &str,
    fits: impl Fn(&T) -> bool,
) -> Result<T, String> {
    let number = text.parse().ok().filter(fits);
    number.ok_or_else(|| format!("{option} is `{text}`, expected {wanted}"))
}
