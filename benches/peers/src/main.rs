//! shapeproof's attention layer beside what one would use instead: the same weights, the same input,
//! the same answer, run in turns so that a drifting clock hits everyone alike.
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- attention --cases A --rounds 5
//! ```

mod arguments;
mod candle;
mod decode;
mod limit;
mod ours;
mod python;
mod report;
mod setting;

use arguments::Arguments;
use report::{Report, Runs};
use setting::{Case, Weights};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    if arguments.memory {
        return arguments.cases.iter().try_for_each(memory);
    }
    let mut report = Report::default();
    println!("{}", Report::head());
    for case in &arguments.cases {
        compete(case, &arguments, &mut report)?;
        print!("{}", report.rows(case));
    }
    if let Some(path) = &arguments.raw {
        std::fs::write(path, report.raw())?;
    }
    print!("\n{report}");
    Ok(())
}

/// The most memory that this process has had by the end of a setting, shapeproof's input, weights and
/// result among it: so one setting a run.
fn memory(case: &Case) -> Result<()> {
    ours::contestant(case, &Weights::of(case)).run()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{case}: {} at the peak", line.ok_or("no VmHWM in /proc/self/status")?.trim());
    Ok(())
}

/// A library that computes one setting.
trait Contestant {
    fn name(&self) -> &str;
    /// Computes the answer and lets it go; this is what is timed.
    fn run(&self) -> Result<()>;
    /// The answer, over (batch, length, width).
    fn answer(&self) -> Result<Vec<f32>>;
}

/// All contestants at one setting: first their answers, then their times, in turns.
fn compete(case: &Case, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let weights = Weights::of(case);
    let contestants: Vec<Box<dyn Contestant>> = [ours::contestant(case, &weights)]
        .into_iter()
        .chain(candle::contestants(case, &weights)?)
        .collect();
    let expected = contestants[0].answer()?;
    for peer in &contestants[1..] {
        same_answer(case, peer.name(), &peer.answer()?, &expected)?;
    }
    for round in 0..arguments.rounds {
        eprintln!("{case}: round {} of {}", round + 1, arguments.rounds);
        report.limit(limit::gflops(rayon::current_num_threads()));
        for contestant in &contestants {
            let seconds = time(contestant.as_ref(), arguments.seconds)?;
            report.add(Runs { case: *case, name: contestant.name().into(), seconds });
        }
        if let Some(python) = &arguments.python {
            for runs in python::run(python, case, arguments.seconds)? {
                report.add(runs);
            }
        }
    }
    Ok(())
}

fn same_answer(case: &Case, name: &str, found: &[f32], expected: &[f32]) -> Result<()> {
    if found.len() != expected.len() {
        return Err(format!(
            "{case}: {name} gives {} elements, shapeproof {}",
            found.len(),
            expected.len()
        )
        .into());
    }
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (found - expected).abs();
        if off.is_nan() || off > 1e-4 * expected.abs().max(1.0) {
            return Err(format!(
                "{case}: element {i} is {found} in {name}, {expected} in shapeproof"
            )
            .into());
        }
    }
    Ok(())
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
