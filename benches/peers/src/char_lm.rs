//! A step of the character model of `examples/train_char_lm`: forward, loss, backward, update. That code
//! itself runs here; the script has the same model, and computes the same loss from the same parameters.

#[allow(dead_code, reason = "the example does more than steps")]
#[allow(clippy::type_complexity, reason = "shapes are long types")]
#[path = "../../../examples/train_char_lm"]
mod example {
    pub(super) mod model;
    pub(super) mod text;
    pub(super) mod training;
}

use crate::Result;
use crate::arguments::Arguments;
use crate::python::Script;
use crate::race::{Contestant, Race};
use crate::report::{Report, Task, Work};
use example::text::{PLAY, Text};
use example::training::{CHARACTERS, Run};
use std::cell::RefCell;
use std::path::Path;

/// Of a whole run, which the rate depends on.
const STEPS: usize = 600;
const PLAY_FILE: &str = "../../examples/data/as_you_like_it.txt";

/// Adds everybody's times to the report. The script gets the parameters of a beginning in a file.
pub fn compete(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let file = format!("shapeproof-peers-{}.safetensors", std::process::id());
    let file = std::env::temp_dir().join(file);
    let run = Run::new(STEPS, 1)?;
    run.save(&file)?;
    let outcome = race(run, &file)?.run(arguments, report);
    std::fs::remove_file(file)?;
    outcome
}

fn race(run: Run, file: &Path) -> Result<Race> {
    let play = Path::new(env!("CARGO_MANIFEST_DIR")).join(PLAY_FILE);
    let paths = [file, &play].map(|path| path.display().to_string());
    let steps = Steps { run: RefCell::new(run), text: Text::new(PLAY) };
    Ok(Race {
        task: Task {
            name: "char".into(),
            text: "a step of the character model".into(),
            work: Work::Tokens(CHARACTERS),
        },
        expected: steps.answer()?,
        tolerance: 1e-5,
        contestants: vec![Box::new(steps)],
        scripts: vec![Script {
            file: "torch_char.py",
            imports: "torch, safetensors",
            arguments: paths.into(),
        }],
    })
}

struct Steps {
    run: RefCell<Run>,
    text: Text,
}

impl Contestant for Steps {
    fn name(&self) -> &str {
        "shapeproof"
    }
    fn run(&self) -> Result<()> {
        self.run.borrow_mut().step(&self.text)?;
        Ok(())
    }
    /// The loss on what is held out.
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![self.run.borrow().held_out(&self.text)? as f32]])
    }
}
