//! Times, as a table, as raw lines and as ratios.

use std::fmt::{self, Display, Formatter, Write};

/// What the contestants of a race do.
#[derive(Clone)]
pub struct Task {
    /// As the last lines name it.
    pub name: String,
    /// As tables name it.
    pub text: String,
    pub work: Work,
}

/// How much it is.
#[derive(Clone, Copy)]
pub enum Work {
    /// Floating-point operations.
    Operations(f64),
    /// Tokens that are read or written.
    Tokens(usize),
}

impl Display for Task {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The times of a task.
struct Times {
    task: Task,
    runs: Vec<Runs>,
}

/// The seconds of each run of one contestant.
struct Runs {
    name: String,
    seconds: Vec<f64>,
}

impl Runs {
    fn minimum(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

#[derive(Default)]
pub struct Report {
    times: Vec<Times>,
    /// The most GFLOP/s that a loop of multiply-adds reached during the run.
    limit: Option<f64>,
}

impl Report {
    pub fn add(&mut self, task: &Task, name: &str, seconds: Vec<f64>) {
        let at = self.times.iter().position(|times| times.task.name == task.name);
        let at = at.unwrap_or_else(|| {
            self.times.push(Times { task: task.clone(), runs: Vec::new() });
            self.times.len() - 1
        });
        let runs = &mut self.times[at].runs;
        match runs.iter_mut().find(|known| known.name == name) {
            Some(known) => known.seconds.extend(seconds),
            None => runs.push(Runs { name: name.into(), seconds }),
        }
    }

    pub fn limit(&mut self, gflops: f64) {
        self.limit = Some(self.limit.unwrap_or(0.0).max(gflops));
    }

    /// Name, task, operations or tokens, seconds of each run; tab-separated.
    pub fn raw(&self) -> String {
        let mut text = String::new();
        for Times { task, runs } in &self.times {
            let work = match task.work {
                Work::Operations(count) => count.to_string(),
                Work::Tokens(count) => count.to_string(),
            };
            for Runs { name, seconds } in runs {
                let seconds: Vec<_> = seconds.iter().map(|s| format!("{s:.4e}")).collect();
                let _ = writeln!(text, "{name}\t{}\t{work}\t{}", task.name, seconds.join(","));
            }
        }
        text
    }

    /// The times of a task, with the table's head before those of the first.
    pub fn table(&self, task: &Task) -> String {
        let mut text = String::new();
        for (at, times) in self.times.iter().enumerate() {
            if times.task.name != task.name {
                continue;
            }
            if at == 0 {
                text += task.work.head();
            }
            for runs in &times.runs {
                let (median, minimum) = (runs.median(), runs.minimum());
                let _ = write!(text, "| {task} | {} | {} | ", runs.name, runs.seconds.len());
                let _ = write!(text, "{:.4} | {:.4} | ", median * 1e3, minimum * 1e3);
                let _ = match task.work {
                    Work::Operations(count) => {
                        let gflops = count / minimum / 1e9;
                        let share = 100.0 * gflops / self.limit.unwrap_or(f64::NAN);
                        writeln!(text, "{gflops:.1} | {share:.0} % |")
                    }
                    Work::Tokens(count) => {
                        let [median, best] = [median, minimum].map(|time| count as f64 / time);
                        writeln!(text, "{median:.0} | {best:.0} |")
                    }
                };
            }
        }
        text
    }
}

impl Work {
    /// The table's head; GFLOP/s at the minimum.
    fn head(self) -> &'static str {
        match self {
            Work::Operations(_) => {
                "| setting | who | runs | median ms | minimum ms | GFLOP/s | of the limit |\n\
                 |---|---|---|---|---|---|---|\n"
            }
            Work::Tokens(_) => {
                "| setting | who | runs | median ms | minimum ms | median tokens/s | best tokens/s |\n\
                 |---|---|---|---|---|---|---|\n"
            }
        }
    }
}

/// The limit, and for each task our minimum over that of the best peer.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(limit) = self.limit {
            let threads = rayon::current_num_threads();
            writeln!(f, "limit: {limit:.1} GFLOP/s, {threads} threads of multiply-adds")?;
        }
        for Times { task, runs } in &self.times {
            let (mine, peers): (Vec<_>, Vec<_>) =
                runs.iter().partition(|runs| runs.name == "shapeproof");
            let best = peers.into_iter().min_by(|a, b| a.minimum().total_cmp(&b.minimum()));
            let ([mine], Some(best)) = (&mine[..], best) else { continue };
            let ratio = mine.minimum() / best.minimum();
            writeln!(f, "{} {ratio:.3} {}", task.name, best.name)?;
        }
        Ok(())
    }
}
