//! PyTorch and onnxruntime, from the scripts beside this crate. They draw weights of their own.

use crate::Result;
use crate::report::Runs;
use crate::setting::Case;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every variant that a script times at this setting; a script whose library is missing gives none.
pub fn run(python: &Path, case: &Case, seconds: f64) -> Result<Vec<Runs>> {
    let mut all = Vec::new();
    for (script, library) in [("torch_mha.py", "torch"), ("ort_mha.py", "onnxruntime, onnx")] {
        let import = format!("import {library}");
        let found = Command::new(python).args(["-c", &import]).stderr(Stdio::null()).status()?;
        if !found.success() {
            eprintln!("{}: no {library}, so no {script}", python.display());
            continue;
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let output = Command::new(python)
            .arg(path)
            .args([seconds.to_string(), case.name.to_string()])
            .stderr(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(format!("{script} failed at {case}: {}", output.status).into());
        }
        for line in String::from_utf8(output.stdout)?.lines() {
            all.push(parse(line, case).ok_or_else(|| format!("{script} printed {line:?}"))?);
        }
    }
    Ok(all)
}

/// Name, case, floating-point operations, and the seconds of each run, tab-separated.
fn parse(line: &str, case: &Case) -> Option<Runs> {
    let [name, _, _, seconds] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
    let seconds = seconds.split(',').map(|time| time.parse().ok()).collect::<Option<_>>()?;
    Some(Runs { case: *case, name: name.into(), seconds })
}
