//! Times, as a table, as raw lines and as ratios.

use crate::setting::Case;
use std::fmt::{self, Display, Formatter, Write};

/// The seconds of each run of one contestant at one setting.
pub struct Runs {
    pub case: Case,
    pub name: String,
    pub seconds: Vec<f64>,
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
    runs: Vec<Runs>,
    /// The most GFLOP/s that a loop of multiply-adds reached during the run.
    limit: f64,
}

impl Report {
    pub fn add(&mut self, runs: Runs) {
        let same = |known: &&mut Runs| known.case == runs.case && known.name == runs.name;
        match self.runs.iter_mut().find(same) {
            Some(known) => known.seconds.extend(runs.seconds),
            None => self.runs.push(runs),
        }
    }

    pub fn limit(&mut self, gflops: f64) {
        self.limit = self.limit.max(gflops);
    }

    /// Name, case, floating-point operations, seconds of each run; tab-separated.
    pub fn raw(&self) -> String {
        self.runs.iter().fold(String::new(), |mut text, runs| {
            let seconds: Vec<String> = runs.seconds.iter().map(|s| format!("{s:.4e}")).collect();
            let (case, flops) = (runs.case.name, runs.case.flops());
            let _ = writeln!(text, "{}\t{case}\t{flops}\t{}", runs.name, seconds.join(","));
            text
        })
    }

    /// Ours, and the best of the others, at each setting.
    fn pairs(&self) -> impl Iterator<Item = (&Runs, &Runs)> {
        let ours = |runs: &&Runs| runs.name == "shapeproof";
        self.runs.iter().filter(ours).filter_map(move |mine| {
            let peers = self.runs.iter().filter(|runs| runs.case == mine.case && !ours(runs));
            let best = peers.min_by(|a, b| a.minimum().total_cmp(&b.minimum()))?;
            Some((mine, best))
        })
    }

    /// The table's head.
    pub fn head() -> &'static str {
        "| setting | who | runs | median ms | minimum ms | GFLOP/s | of the limit |\n\
         |---|---|---|---|---|---|---|"
    }

    /// The table's rows of one setting; GFLOP/s at the minimum.
    pub fn rows(&self, case: &Case) -> String {
        self.runs.iter().filter(|runs| runs.case == *case).fold(String::new(), |mut text, runs| {
            let (median, minimum) = (runs.median(), runs.minimum());
            let gflops = case.flops() / minimum / 1e9;
            let _ = writeln!(
                text,
                "| {case} | {} | {} | {:.4} | {:.4} | {gflops:.1} | {:.0} % |",
                runs.name,
                runs.seconds.len(),
                median * 1e3,
                minimum * 1e3,
                100.0 * gflops / self.limit
            );
            text
        })
    }
}

/// The limit, and for each setting our minimum over that of the best peer.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let threads = rayon::current_num_threads();
        writeln!(f, "limit: {:.1} GFLOP/s, {threads} threads of multiply-adds", self.limit)?;
        for (mine, best) in self.pairs() {
            let ratio = mine.minimum() / best.minimum();
            writeln!(f, "{} {ratio:.3} {}", mine.case.name, best.name)?;
        }
        Ok(())
    }
}
