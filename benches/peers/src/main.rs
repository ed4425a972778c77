//! shapeproof beside what one would use instead: the same weights, the same input, the same answer, run
//! in turns so that a drifting clock hits everyone alike.
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- attention --cases A --rounds 5
//! ```

mod arguments;
mod attention;
#[cfg(feature = "burn")]
mod burn;
mod candle;
mod char_lm;
mod generate;
#[path = "../../../examples/common/layers.rs"]
mod layers; // what the model of `generate` reads its configuration by
mod limit;
mod ours;
mod python;
mod race;
mod report;
mod setting;
mod training;

use arguments::{Arguments, Command};
use report::Report;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let cases = &arguments.cases;
    let mut report = Report::default();
    match arguments.command {
        Command::Attention => {
            for case in cases {
                attention::race(case, arguments.element)?.run(&arguments, &mut report)?;
            }
        }
        Command::Memory => return cases.iter().try_for_each(attention::memory),
        Command::Training => {
            for case in cases {
                training::race(case)?.run(&arguments, &mut report)?;
            }
        }
        Command::Char => char_lm::compete(&arguments, &mut report)?,
        Command::Generate => generate::race(arguments.tokens)?.run(&arguments, &mut report)?,
    }
    if let Some(path) = &arguments.raw {
        std::fs::write(path, report.raw())?;
    }
    print!("\n{report}");
    Ok(())
}
