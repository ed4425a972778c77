//! Greedy decoding with the model of `examples/generate`, token by token from a cache, behind one prompt of
//! the reference. Where the context is full the text ends, and the next one begins with the prompt again.

#[allow(dead_code, reason = "the example does more than decoding")]
#[path = "../../../examples/generate/model.rs"]
mod model;

use crate::python::Script;
use crate::race::{Contestant, Race};
use crate::report::{Task, Work};
use crate::{Result, candle};
use candle_core::Device;
use model::{Cache, Context, Glass};
use serde_json::Value;
use shapeproof::{Batch, C, Static};
use std::cell::RefCell;
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// The model, and what everybody generates with it.
pub struct Setting {
    pub weights: PathBuf,
    /// The sizes, under their names.
    pub config: Value,
    prompt: Vec<usize>,
    /// What the reference generates behind the prompt, at first.
    reference: Vec<usize>,
    tokens: usize,
}

impl Setting {
    fn read(tokens: usize) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let json = std::fs::read_to_string(root.join("examples/models/glassllm_en.json"))?;
        let reference = root.join("tests/fixtures/glassllm/reference.safetensors");
        let reference = candle_core::safetensors::load(reference, &Device::Cpu)?;
        let numbers = |name: &str| -> Result<Vec<usize>> {
            let numbers = reference.get(name).ok_or_else(|| format!("no {name} to refer to"))?;
            numbers.to_vec1::<i64>()?.into_iter().map(|number| Ok(number.try_into()?)).collect()
        };
        Ok(Setting {
            weights: root.join("examples/models/glassllm_en.safetensors"),
            config: serde_json::from_str::<Value>(&json)?["config"].take(),
            prompt: numbers("0.ids")?,
            reference: numbers("0.greedy")?,
            tokens,
        })
    }

    fn script(&self) -> Script {
        let prompt: Vec<_> = self.prompt.iter().map(usize::to_string).collect();
        Script {
            file: "torch_glass.py",
            imports: "torch, safetensors",
            arguments: vec![
                self.weights.display().to_string(),
                self.config.to_string(),
                prompt.join(","),
                self.tokens.to_string(),
            ],
        }
    }
}

pub fn race(tokens: usize) -> Result<Race> {
    let setting = Setting::read(tokens)?;
    let model = Glass::load(&setting.weights, &setting.config)?;
    let cache = model.cache(Batch(C))?;
    let mine = Generation::new(Ours { model, cache }, &setting);
    let (expected, known) = (mine.generate()?, &setting.reference);
    if expected.iter().zip(known).any(|(token, known)| token != known) {
        return Err(format!("shapeproof generates {expected:?}, the reference {known:?}").into());
    }
    Ok(Race {
        task: Task {
            name: "generate".into(),
            text: format!("{tokens} tokens"),
            work: Work::Tokens(tokens),
        },
        expected: vec![floats(&expected)],
        tolerance: 0.0,
        contestants: vec![Box::new(mine), candle::glass(&setting)?],
        scripts: vec![setting.script()],
    })
}

/// A model that follows a text.
pub trait Decoder {
    fn name(&self) -> &'static str;
    /// Forgets the text.
    fn begin(&mut self) -> Result<()>;
    /// The logits behind the last of more tokens.
    fn follow(&mut self, tokens: &[usize]) -> Result<Vec<f32>>;
}

/// Greedy decoding by one model.
pub struct Generation<D> {
    decoder: RefCell<D>,
    prompt: Vec<usize>,
    tokens: usize,
}

impl<D: Decoder> Generation<D> {
    pub fn new(decoder: D, setting: &Setting) -> Self {
        let Setting { prompt, tokens, .. } = setting;
        Generation { decoder: RefCell::new(decoder), prompt: prompt.clone(), tokens: *tokens }
    }

    fn generate(&self) -> Result<Vec<usize>> {
        let mut decoder = self.decoder.borrow_mut();
        let mut generated = Vec::with_capacity(self.tokens);
        while generated.len() < self.tokens {
            decoder.begin()?;
            let mut next = likeliest(&decoder.follow(&self.prompt)?);
            generated.push(next);
            let room = Context::N - self.prompt.len();
            for _ in 0..room.min(self.tokens - generated.len()) {
                next = likeliest(&decoder.follow(&[next])?);
                generated.push(next);
            }
        }
        Ok(generated)
    }
}

impl<D: Decoder> Contestant for Generation<D> {
    fn name(&self) -> &str {
        self.decoder.borrow().name()
    }
    fn run(&self) -> Result<()> {
        black_box(self.generate()?);
        Ok(())
    }
    /// The tokens.
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![floats(&self.generate()?)])
    }
}

fn likeliest(logits: &[f32]) -> usize {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(token, _)| token)
}

/// Exact, because tokens are small.
fn floats(tokens: &[usize]) -> Vec<f32> {
    tokens.iter().map(|&token| token as f32).collect()
}

struct Ours {
    model: Glass,
    cache: Cache<C<1>>,
}

impl Decoder for Ours {
    fn name(&self) -> &'static str {
        "shapeproof"
    }
    fn begin(&mut self) -> Result<()> {
        self.cache.clear();
        Ok(())
    }
    fn follow(&mut self, tokens: &[usize]) -> Result<Vec<f32>> {
        Ok(self.model.follow(tokens, &mut self.cache)?)
    }
}
