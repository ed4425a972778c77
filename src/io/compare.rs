//! A trace beside tensors from elsewhere: which step is the first to differ, by how much, and whether another
//! reading of the same numbers agrees.

use super::{TensorFile, save_tensors};
use crate::error::Result;
use crate::nn::Trace;
use crate::ops::index_of;
use readings::{Values, readings};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

mod readings;

/// How far apart two numbers may be and still agree: |ours − theirs| ≤ absolute + relative · |theirs|.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tolerance {
    /// What small numbers may be apart.
    pub absolute: f64,
    /// What large numbers may be apart, as a part of theirs.
    pub relative: f64,
}

impl Default for Tolerance {
    /// 1e-5 and 1e-4: what f32 models of some layers agree within.
    fn default() -> Self {
        Tolerance { absolute: 1e-5, relative: 1e-4 }
    }
}

/// What a [`Trace`] and a file have in common, step by step. Printed, it says how far the two agree and what is
/// known about the first step that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    path: PathBuf,
    steps: Vec<ComparedStep>,
}

/// One step of a [`Comparison`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ComparedStep {
    /// The step's name in the trace.
    pub name: String,
    /// Its key in the file.
    pub key: String,
    /// What was found.
    pub outcome: Outcome,
}

/// What comparing one step has found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The file does not have the step.
    Missing,
    /// All numbers agree; the largest difference.
    Agrees(f64),
    /// Sizes or numbers do not.
    Differs(Difference),
}

/// How a step differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The sizes here.
    pub ours: Vec<usize>,
    /// The sizes in the file.
    pub theirs: Vec<usize>,
    /// How many numbers differ, the largest difference and its place; none where the sizes differ.
    pub numbers: Option<(usize, f64, Vec<usize>)>,
    /// Other readings of the file's numbers that agree with ours: axes exchanged, heads in another order, a
    /// shift by some positions, a factor.
    pub readings: Vec<String>,
}

impl Trace {
    /// Writes every step to a safetensors file, under its name.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        save_tensors(path, self.steps.iter().map(|step| (&step.name, step.output.clone())))
    }

    /// Compares every step, in the order in which it was computed, with what a safetensors file has under the
    /// key that `key` makes of its name.
    ///
    /// # Errors
    /// Where the file cannot be read, has none of the keys, or holds under one of them what is no float.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{
    ///     AnyTensor, Batch, C, FloatTensor, Linear, Model, Seq, Tensor, Tolerance, Trace, save_tensors,
    /// };
    ///
    /// // What another program wrote: the transposed output.
    /// let path = std::env::temp_dir().join("shapeproof-trace-example.safetensors");
    /// let theirs = AnyTensor::try_from_vec(&[2, 2], vec![1.0f32, 3.0, 2.0, 4.0])?;
    /// save_tensors(&path, [("fc", FloatTensor::new(theirs))])?;
    ///
    /// let layer = Linear::<Model<C<2>>, Model<C<2>>, shapeproof::NoBias>::without_bias(
    ///     Tensor::from([[1.0, 0.0], [0.0, 1.0]]),
    /// );
    /// let mut trace = Trace::of(&layer);
    /// layer.forward(&Tensor::<(Seq<C<2>>, Model<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]), &mut trace);
    /// let found = trace.compare(&path, |_| "fc".into(), Tolerance::default())?;
    /// assert!(found.to_string().contains("theirs agrees with axes 0 and 1 exchanged"));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn compare(
        &self,
        path: impl AsRef<Path>,
        key: impl Fn(&str) -> String,
        tolerance: Tolerance,
    ) -> Result<Comparison> {
        let mut file = TensorFile::open(path)?;
        let mut steps: Vec<ComparedStep> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let (name, key) = (step.name.clone(), key(&step.name));
            let outcome = match file.dims(&key) {
                None => Outcome::Missing,
                Some(_) => {
                    let theirs = Values::of(&file.read(&key)?);
                    Values::of(&step.output).beside(&theirs, tolerance)
                }
            };
            steps.push(ComparedStep { name, key, outcome });
        }
        match steps.first() {
            Some(first) if steps.iter().all(|step| step.outcome == Outcome::Missing) => {
                Err(file.missing(&first.key))
            }
            _ => Ok(Comparison { path: file.path().to_owned(), steps }),
        }
    }
}

impl Values {
    fn beside(&self, theirs: &Values, tolerance: Tolerance) -> Outcome {
        let differs = |numbers| {
            let (ours, dims) = (self.dims.clone(), theirs.dims.clone());
            let readings = readings(self, theirs, tolerance);
            Outcome::Differs(Difference { ours, theirs: dims, numbers, readings })
        };
        if self.dims != theirs.dims {
            return differs(None);
        }
        let (mut count, mut largest, mut place) = (0, 0.0, 0);
        for (at, (&x, &y)) in self.data.iter().zip(&theirs.data).enumerate() {
            count += usize::from(!tolerance.allows(x, y));
            // NaN beside a number is further away than any number.
            let apart = if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() };
            let apart = if apart.is_nan() { f64::INFINITY } else { apart };
            if apart > largest {
                (largest, place) = (apart, at);
            }
        }
        match count {
            0 => Outcome::Agrees(largest),
            _ => differs(Some((count, largest, index_of(place, &self.dims)))),
        }
    }
}

impl Tolerance {
    fn allows(self, ours: f64, theirs: f64) -> bool {
        ours == theirs
            || (ours.is_nan() && theirs.is_nan())
            || (ours - theirs).abs() <= self.absolute + self.relative * theirs.abs()
    }
}

impl Comparison {
    /// Every step, in the order in which it was computed.
    pub fn steps(&self) -> &[ComparedStep] {
        &self.steps
    }

    /// The first step that differs, and how.
    pub fn first_difference(&self) -> Option<(&ComparedStep, &Difference)> {
        self.steps.iter().find_map(|step| match &step.outcome {
            Outcome::Differs(difference) => Some((step, difference)),
            _ => None,
        })
    }
}

impl Display for Comparison {
    /// The steps up to the first that differs, and what is known of that one.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} steps beside {}", self.steps.len(), self.path.display())?;
        for (at, ComparedStep { name, key, outcome }) in self.steps.iter().enumerate() {
            match outcome {
                Outcome::Missing => writeln!(f, "missing  {name} (no key {key:?})")?,
                Outcome::Agrees(largest) => writeln!(f, "agrees   {name} (within {largest:.1e})")?,
                Outcome::Differs(difference) => {
                    writeln!(f, "DIFFERS  {name}, key {key:?}\n{difference}")?;
                    return write!(f, "{} steps behind it", self.steps.len() - at - 1);
                }
            }
        }
        write!(f, "no step differs")
    }
}

impl Display for Difference {
    /// A line for the sizes or the numbers, and one for each reading that agrees.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.numbers {
            None => {
                write!(f, "         ours has sizes {:?}, theirs {:?}", self.ours, self.theirs)?;
            }
            Some((count, largest, place)) => {
                let all: usize = self.ours.iter().product();
                write!(f, "         {count} of {all} numbers, {largest:.3e} apart at {place:?}")?;
            }
        }
        for reading in &self.readings {
            write!(f, "\n         theirs agrees {reading}")?;
        }
        if self.readings.is_empty() {
            write!(f, "\n         no other reading of theirs agrees")?;
        }
        Ok(())
    }
}
