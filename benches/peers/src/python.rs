//! Peers in Python, from the scripts beside this crate.

use crate::Result;
use std::path::Path;
use std::process::{Command, Stdio};

/// A script, its arguments behind the seconds, and the modules that it cannot do without.
pub struct Script {
    pub file: &'static str,
    pub imports: &'static str,
    pub arguments: Vec<String>,
}

#[derive(Default)]
pub struct Output {
    /// What the script computed, where it says so.
    pub answer: Option<Vec<f32>>,
    /// The name of each variant, and the seconds of each of its runs.
    pub runs: Vec<(String, Vec<f64>)>,
}

impl Script {
    /// What the script prints; nothing where a module is missing.
    pub fn run(&self, python: &Path, seconds: f64) -> Result<Option<Output>> {
        let Script { file, imports, arguments } = self;
        let import = format!("import {imports}");
        let found = Command::new(python).args(["-c", &import]).stderr(Stdio::null()).status()?;
        if !found.success() {
            eprintln!("{}: no {imports}, so no {file}", python.display());
            return Ok(None);
        }
        let printed = Command::new(python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
            .arg(seconds.to_string())
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()?;
        if !printed.status.success() {
            let errors = String::from_utf8_lossy(&printed.stderr);
            return Err(format!("{file} {arguments:?}: {}\n{errors}", printed.status).into());
        }
        let mut output = Output::default();
        for line in String::from_utf8(printed.stdout)?.lines() {
            output.read(line).ok_or_else(|| format!("{file} printed {line:?}"))?;
        }
        Ok(Some(output))
    }
}

impl Output {
    /// `answer` and its elements; or name, case, operations, and the seconds of each run, tab-separated.
    fn read(&mut self, line: &str) -> Option<()> {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["answer", elements] => {
                let elements = elements.split(',').map(|element| element.parse().ok());
                self.answer = Some(elements.collect::<Option<_>>()?);
            }
            [name, _, _, seconds] => {
                let seconds = seconds.split(',').map(|time| time.parse().ok());
                self.runs.push((name.into(), seconds.collect::<Option<_>>()?));
            }
            _ => return None,
        }
        Some(())
    }
}
