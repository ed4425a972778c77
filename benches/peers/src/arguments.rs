//! The command line.

use crate::Result;
use crate::setting::{CASES, Case, ElementType};
use std::path::PathBuf;

const USAGE: &str = "\
usage: COMMAND [options]
  attention  [--cases ABCDEFGHI] [--dtype f32|bf16]  attention layers, and a step of decoding (F)
  memory     [--cases ABCDEFGHI]                     the most memory that shapeproof takes
  training   [--cases AC]                            forward and backward, of any case but F
  char                                               a step of examples/train_char_lm
  generate   [--tokens 200]                          decoding with the model of examples/generate
all but memory: [--rounds 5] [--seconds 0.3] [--raw FILE] [--python PATH]";

#[derive(Clone, Copy, PartialEq)]
pub enum Command {
    Attention,
    Memory,
    Training,
    Char,
    Generate,
}

pub struct Arguments {
    pub command: Command,
    pub cases: Vec<Case>,
    pub element: ElementType,
    /// How many are generated.
    pub tokens: usize,
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
        let command = match words.next().as_deref() {
            Some("attention") => Command::Attention,
            Some("memory") => Command::Memory,
            Some("training") => Command::Training,
            Some("char") => Command::Char,
            Some("generate") => Command::Generate,
            _ => return Err(USAGE.into()),
        };
        let cases = match command {
            Command::Training => vec![Case::named('A')?, Case::named('C')?],
            _ => CASES.to_vec(),
        };
        let mut arguments = Arguments {
            command,
            cases,
            element: ElementType::F32,
            tokens: 200,
            rounds: 5,
            seconds: 0.3,
            raw: None,
            python: None,
        };
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value\n{USAGE}"))?;
            match (option.as_str(), command) {
                ("--cases", Command::Attention | Command::Memory | Command::Training) => {
                    arguments.cases = value.chars().map(Case::named).collect::<Result<_>>()?;
                }
                ("--dtype", Command::Attention) => arguments.element = value.parse()?,
                ("--tokens", Command::Generate) => arguments.tokens = value.parse()?,
                ("--rounds", _) => arguments.rounds = value.parse()?,
                ("--seconds", _) => arguments.seconds = value.parse()?,
                ("--raw", _) => arguments.raw = Some(value.into()),
                ("--python", _) => arguments.python = Some(value.into()),
                _ => return Err(format!("{option} is not known here\n{USAGE}").into()),
            }
        }
        if command == Command::Training && arguments.cases.iter().any(|case| case.cached > 0) {
            return Err(format!("a cache records nothing, so F has no training\n{USAGE}").into());
        }
        Ok(arguments)
    }
}
