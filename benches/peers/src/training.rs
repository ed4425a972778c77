//! A training step of the attention layer: the sum of its outputs is the loss, and what is computed are
//! the gradients of all parameters and of the input.

use crate::python::Script;
use crate::race::Race;
use crate::setting::{Case, Weights};
use crate::{Result, candle, ours};

pub fn race(case: &Case) -> Result<Race> {
    let weights = Weights::of(case);
    let torch = Script {
        file: "torch_mha.py",
        imports: "torch",
        arguments: vec![case.name.into(), "train".into()],
    };
    let mine = ours::training(case, &weights)?;
    let mut race = Race {
        task: case.training_task(),
        expected: mine.answer()?,
        tolerance: 1e-3,
        contestants: vec![mine],
        scripts: vec![torch],
    };
    race.contestants.push(candle::training(case, &weights)?);
    #[cfg(feature = "burn")]
    race.contestants.extend(crate::burn::training(case, &weights));
    Ok(race)
}
