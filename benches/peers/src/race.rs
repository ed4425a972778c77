//! Contestants: first their answers, then their times, in turns.

use crate::arguments::Arguments;
use crate::python::Script;
use crate::report::{Report, Task, Work};
use crate::{Result, limit};
use std::time::Instant;

/// A library that computes one task.
pub trait Contestant {
    fn name(&self) -> &str;
    /// Computes the answer and lets it go; this is what is timed.
    fn run(&self) -> Result<()>;
    /// The answer, in one or more parts.
    fn answer(&self) -> Result<Vec<Vec<f32>>>;
}

pub struct Race {
    pub task: Task,
    /// What everybody's answer is compared with, part by part.
    pub expected: Vec<Vec<f32>>,
    /// How far an element may be off, as a share of itself or of its part's root mean square, whichever
    /// is larger.
    pub tolerance: f32,
    pub contestants: Vec<Box<dyn Contestant>>,
    /// They run where there is a Python.
    pub scripts: Vec<Script>,
}

impl Race {
    /// Adds everybody's times to the report, and prints them.
    pub fn run(&self, arguments: &Arguments, report: &mut Report) -> Result<()> {
        let (task, seconds) = (&self.task, arguments.seconds);
        for contestant in &self.contestants {
            self.check(contestant.name(), &contestant.answer()?)?;
        }
        for round in 0..arguments.rounds {
            eprintln!("{task}: round {} of {}", round + 1, arguments.rounds);
            if let Work::Operations(_) = task.work {
                report.limit(limit::gflops(rayon::current_num_threads()));
            }
            for contestant in &self.contestants {
                report.add(task, contestant.name(), time(contestant.as_ref(), seconds)?);
            }
            let Some(python) = &arguments.python else { continue };
            for script in &self.scripts {
                let Some(output) = script.run(python, seconds)? else { continue };
                if let Some(answer) = output.answer {
                    self.check(script.file, &[answer])?;
                }
                for (name, seconds) in output.runs {
                    report.add(task, &name, seconds);
                }
            }
        }
        print!("{}", report.table(task));
        Ok(())
    }

    fn check(&self, name: &str, found: &[Vec<f32>]) -> Result<()> {
        let Race { task, expected, tolerance, .. } = self;
        let counts = |parts: &[Vec<f32>]| parts.iter().map(Vec::len).collect::<Vec<_>>();
        let [found_counts, expected_counts] = [found, expected].map(counts);
        if found_counts != expected_counts {
            let text = format!("{found_counts:?} elements, expected {expected_counts:?}");
            return Err(format!("{task}: {name} gives {text}").into());
        }
        for (part, (found, expected)) in found.iter().zip(expected).enumerate() {
            let squares: f64 = expected.iter().map(|&x| f64::from(x).powi(2)).sum();
            let usual = (squares / expected.len() as f64).sqrt() as f32;
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                let off = (found - expected).abs();
                if off.is_nan() || off > tolerance * expected.abs().max(usual) {
                    let text = format!("element {i} of part {part} is {found} in {name}");
                    return Err(format!("{task}: {text}, expected {expected}").into());
                }
            }
        }
        Ok(())
    }
}

/// The seconds of each run, at least three of them, over about `seconds`. What is shorter than 50 µs
/// is run several times between two looks at the clock.
fn time(contestant: &dyn Contestant, seconds: f64) -> Result<Vec<f64>> {
    contestant.run()?;
    let once = {
        let start = Instant::now();
        contestant.run()?;
        start.elapsed().as_secs_f64()
    };
    let inner = (50e-6 / once).ceil().clamp(1.0, 1000.0) as u32;
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || start.elapsed().as_secs_f64() < seconds {
        let run = Instant::now();
        for _ in 0..inner {
            contestant.run()?;
        }
        times.push(run.elapsed().as_secs_f64() / f64::from(inner));
    }
    Ok(times)
}
