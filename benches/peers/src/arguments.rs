//! The command line.

use crate::Result;
use crate::setting::{CASES, Case};
use std::path::PathBuf;

const USAGE: &str = "usage: attention|memory [--cases ABCDEFGHI] [--rounds 5] [--seconds 0.3] [--raw FILE] [--python PATH]";

pub struct Arguments {
    /// Whether the memory of shapeproof alone is asked for, in the place of everyone's time.
    pub memory: bool,
    pub cases: Vec<Case>,
    pub rounds: usize,
    /// How long each contestant runs in a round, about.
    pub seconds: f64,
    /// Where every run's time goes.
    pub raw: Option<PathBuf>,
    /// A Python that has PyTorch or onnxruntime.
    pub python: Option<PathBuf>,
}

impl Arguments {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let memory = match words.next().as_deref() {
            Some("attention") => false,
            Some("memory") => true,
            _ => return Err(USAGE.into()),
        };
        let cases = CASES.to_vec();
        let mut arguments =
            Arguments { memory, cases, rounds: 5, seconds: 0.3, raw: None, python: None };
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value\n{USAGE}"))?;
            match option.as_str() {
                "--cases" => {
                    arguments.cases = value.chars().map(Case::named).collect::<Result<_>>()?;
                }
                "--rounds" => arguments.rounds = value.parse()?,
                "--seconds" => arguments.seconds = value.parse()?,
                "--raw" => arguments.raw = Some(value.into()),
                "--python" => arguments.python = Some(value.into()),
                _ => return Err(format!("{option} is not known\n{USAGE}").into()),
            }
        }
        Ok(arguments)
    }
}
