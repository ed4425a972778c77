//! What is computed: the sizes, and the numbers that all contestants get.

use crate::Result;
use crate::report::{Task, Work};
use shapeproof::Generator;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Self attention over one batch, with biases; or one step of decoding.
#[derive(Clone, Copy, PartialEq)]
pub struct Case {
    pub name: char,
    pub batch: usize,
    pub length: usize,
    pub width: usize,
    pub heads: usize,
    pub causal: bool,
    /// How many positions came before: their keys and values are there already.
    pub cached: usize,
}

/// The positions before F's token.
pub const CACHED: usize = 1024;

pub const CASES: [Case; 9] = [
    case('A', [32, 64, 512, 8], false),
    case('B', [1, 128, 384, 12], false),
    case('C', [1, 512, 768, 12], false),
    case('D', [8, 128, 768, 12], false),
    case('E', [1, 2048, 768, 12], false),
    Case { cached: CACHED, ..case('F', [1, 1, 768, 12], false) },
    case('G', [2, 16, 32, 4], false),
    case('H', [1, 2048, 768, 12], true),
    case('I', [1, 8192, 512, 8], false),
];

const fn case(name: char, [batch, length, width, heads]: [usize; 4], causal: bool) -> Case {
    Case { name, batch, length, width, heads, causal, cached: 0 }
}

impl Case {
    pub fn named(name: char) -> Result<Self> {
        let found = CASES.into_iter().find(|case| case.name == name);
        found.ok_or_else(|| format!("there is no case {name}; there are ABCDEFGHI").into())
    }

    /// Multiplications and additions of the four projections and the two products of attention; a
    /// causal mask halves the latter.
    fn flops(&self) -> f64 {
        let [batch, length, width] = [self.batch, self.length, self.width].map(|n| n as f64);
        let keys = length + self.cached as f64;
        let seen = if self.causal { keys / 2.0 } else { keys };
        8.0 * batch * length * width * width + 4.0 * batch * length * seen * width
    }

    pub fn task(&self) -> Task {
        let work = Work::Operations(self.flops());
        Task { name: self.name.into(), text: self.to_string(), work }
    }

    /// Forward and backward, where each product has two: three times the operations.
    pub fn training_task(&self) -> Task {
        Task { work: Work::Operations(3.0 * self.flops()), ..self.task() }
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Case { name, batch, length, width, heads, causal, cached } = self;
        write!(f, "{name} ({batch} x {length} x {width}, {heads} heads")?;
        match (causal, cached) {
            (true, _) => write!(f, ", causal)"),
            (_, 0) => write!(f, ")"),
            (_, cached) => write!(f, ", {cached} cached)"),
        }
    }
}

/// What tensors hold.
#[derive(Clone, Copy, PartialEq)]
pub enum ElementType {
    F32,
    Bf16,
}

impl ElementType {
    /// How far answers may be off. bf16 has 8 bits, and each step of a layer rounds to them.
    pub fn tolerance(self) -> f32 {
        match self {
            ElementType::F32 => 1e-4,
            ElementType::Bf16 => 0.05,
        }
    }
}

impl FromStr for ElementType {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "f32" => Ok(ElementType::F32),
            "bf16" => Ok(ElementType::Bf16),
            _ => Err(format!("--dtype is `{text}`, expected f32 or bf16")),
        }
    }
}

impl Display for ElementType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ElementType::F32 => "f32",
            ElementType::Bf16 => "bf16",
        })
    }
}

/// The input and the parameters. Each weight is over (in, out).
pub struct Weights {
    pub x: Vec<f32>,
    /// Of queries, keys, values, and the output: a weight and a bias.
    pub projections: [(Vec<f32>, Vec<f32>); 4],
    /// Keys and values of the positions before, each over (batch, heads, positions, head dim).
    pub cached: [Vec<f32>; 2],
}

impl Weights {
    pub fn of(case: &Case) -> Self {
        let mut generator = Generator::seeded(7);
        let mut normal = |count: usize, deviation: f64| -> Vec<f32> {
            (0..count).map(|_| (deviation * generator.normal()) as f32).collect()
        };
        let width = case.width;
        let deviation = (width as f64).sqrt().recip();
        Weights {
            x: normal(case.batch * case.length * width, 1.0),
            projections: [0; 4].map(|_| (normal(width * width, deviation), normal(width, 0.1))),
            cached: [0; 2].map(|_| normal(case.batch * case.cached * width, 1.0)),
        }
    }

    /// Keys and values before F's token, with a place for its own behind each head's.
    pub fn cached_with_place(&self, case: &Case) -> [Vec<f32>; 2] {
        let head_dim = case.width / case.heads;
        let place = vec![0.0; head_dim];
        let widened = |cached: &Vec<f32>| {
            let heads = cached.chunks_exact(case.cached * head_dim);
            heads.flat_map(|head| head.iter().chain(&place)).copied().collect()
        };
        self.cached.each_ref().map(widened)
    }
}
