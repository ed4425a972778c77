//! A text, token by token.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use shapeproof::{Batch, C, Float, Static};

use super::cli::Request;
use super::model::{Context, Glass};
use super::sampling::Sampler;
use super::words::Words;

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has as many tokens as were asked for.
    Asked,
    /// The model sees no more tokens.
    ContextFull,
    /// The model said so.
    OfText,
}

/// How a text came about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) end: End,
    /// How many tokens were added.
    pub(crate) added: usize,
    /// From the start to the first of them, and to the last.
    pub(crate) first: Duration,
    pub(crate) whole: Duration,
}

impl Report {
    /// One line of times.
    pub(crate) fn stats(&self) -> String {
        let Report { added, first, whole, .. } = *self;
        if added == 0 {
            return "no token was added".into();
        }
        let first = format!("first token after {:.1} ms", first.as_secs_f64() * 1e3);
        let seconds = (whole - self.first).as_secs_f64();
        if added == 1 || seconds == 0.0 {
            return first;
        }
        let rest = f64::from(u32::try_from(added - 1).unwrap_or(u32::MAX));
        format!("{first}, then {:.0} tokens a second", rest / seconds)
    }
}

/// What stopped a text.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It cannot be continued.
    Prompt(String),
    Model(String),
    Output(io::Error),
}

impl Failure {
    /// One line.
    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Prompt(message) | Failure::Model(message) => message.clone(),
            Failure::Output(error) => format!("standard output: {error}"),
        }
    }
}

/// Writes the text asked for and what follows it, each token as soon as it is there.
pub(crate) fn write<E: Float>(
    model: &Glass<E>,
    words: &Words,
    request: &Request,
    out: &mut impl Write,
) -> Result<Report, Failure> {
    let prompt = words.encode(&request.prompt).map_err(Failure::Prompt)?;
    if prompt.is_empty() {
        return Err(Failure::Prompt("the text is empty".into()));
    }
    if prompt.len() > Context::N {
        let (found, most) = (prompt.len(), Context::N);
        return Err(Failure::Prompt(format!(
            "the text has {found} tokens, the model sees at most {most}"
        )));
    }
    let started = Instant::now();
    let mut show = |text: &str| {
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
    };
    show(&request.prompt)?;
    let model_error = |error: shapeproof::Error| Failure::Model(error.to_string());
    let mut cache = model.cache(Batch(C::<1>)).map_err(model_error)?;
    let mut sampler = Sampler::new(request.sampling);
    let (mut new, mut end, mut added, mut first) = (prompt, End::Asked, 0, Duration::ZERO);
    while added < request.tokens {
        if cache.length().map_err(model_error)? + new.len() > Context::N {
            end = End::ContextFull;
            break;
        }
        let logits = model.follow(&new, &mut cache).map_err(model_error)?;
        let token = sampler.choose(&logits, |token| words.is_text_or_end(token));
        let Some(token) = token.filter(|token| Some(*token) != words.end()) else {
            end = End::OfText;
            break;
        };
        show(words.text(token))?;
        added += 1;
        if added == 1 {
            first = started.elapsed();
        }
        new = vec![token];
    }
    Ok(Report { end, added, first, whole: started.elapsed() })
}
