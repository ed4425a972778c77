//! The attention layer, or one step of decoding.

use crate::python::Script;
use crate::race::Race;
use crate::setting::{Case, ElementType, Weights};
use crate::{Result, candle, ours};

pub fn race(case: &Case, element: ElementType) -> Result<Race> {
    let weights = Weights::of(case);
    let torch = Script {
        file: "torch_mha.py",
        imports: "torch",
        arguments: vec![case.name.into(), element.to_string()],
    };
    let expected = ours::single(case, &weights)?.answer()?;
    let mut race = Race {
        task: case.task(),
        expected,
        tolerance: element.tolerance(),
        contestants: vec![ours::attention(case, &weights, element)?],
        scripts: vec![torch],
    };
    if element == ElementType::F32 {
        race.contestants.extend(candle::attention(case, &weights)?);
        #[cfg(feature = "burn")]
        race.contestants.extend(crate::burn::attention(case, &weights));
        let (file, imports) = ("ort_mha.py", "onnxruntime, onnx");
        race.scripts.push(Script { file, imports, arguments: vec![case.name.into()] });
    }
    Ok(race)
}

/// The most memory that this process has had by the end of a setting, shapeproof's input, weights and
/// result among it: so one setting a run.
pub fn memory(case: &Case) -> Result<()> {
    ours::single(case, &Weights::of(case))?.run()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{case}: {} at the peak", line.ok_or("no VmHWM in /proc/self/status")?.trim());
    Ok(())
}
