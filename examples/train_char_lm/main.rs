//! Trains a small character model on a play, saves the run, draws its losses, and writes a text.
//!
//! ```text
//! cargo run --release --example train_char_lm -- --steps 600 --out run
//! ```

mod cli;
mod curve;
#[path = "../common/dtype.rs"]
mod dtype;
mod model;
mod sample;
mod text;
mod training;

use std::{
    fmt::Display,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use cli::{Command, Request};
use curve::Losses;
use dtype::with_dtype;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Characters;
use shapeproof::{Float, Generator, Static};
use text::Text;
use training::{CHARACTERS, Run};

/// The arguments are wrong.
const USAGE: u8 = 2;
/// Anything else failed.
const FAILURE: u8 = 1;
/// Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Steps between two losses on what is held out, and between two saves.
const ROUND: usize = 100;
/// Characters of the text at the end, and of those on the way.
const SAMPLE: usize = 400;
const SHORT_SAMPLE: usize = 60;
const BEGINNING: &str = "ROSALIND\t";

type Outcome<T> = Result<T, (u8, String)>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("train_char_lm: {message}");
            ExitCode::from(code)
        }
    }
}

fn run() -> Outcome<()> {
    let arguments = std::env::args_os().skip(1);
    let request = match cli::parse(arguments).map_err(|message| (USAGE, message))? {
        Command::Help => {
            print!("{}", cli::HELP);
            return Ok(());
        }
        Command::Train(request) => request,
    };
    with_dtype!(request.dtype, E => train::<E>(&request))
}

/// The run asked for.
fn train<E: Float>(request: &Request) -> Outcome<()> {
    let interrupted = interruption().map_err(failure)?;
    let text = Text::new(text::PLAY);
    if text.count() != Characters::N {
        let (found, compiled) = (text.count(), Characters::N);
        return Err(failure(format!("the text has {found} characters, compiled for {compiled}")));
    }
    let files = Files::of(request).map_err(failure)?;
    let (mut run, mut losses) = begin::<E>(request, &files).map_err(failure)?;

    let progress = Progress::new(&run, request);
    while run.step < request.steps {
        if interrupted.load(Ordering::Relaxed) {
            return Err(stopped(&run, &losses, &files, request));
        }
        if run.step.is_multiple_of(ROUND) {
            round(&run, &text, &mut losses, &files, &progress).map_err(failure)?;
        }
        let step = run.step + 1;
        let loss = run.step(&text).map_err(|error| failure(format!("step {step}: {error}")))?;
        losses.steps.push(loss);
        progress.after(step, loss);
    }
    progress.end();
    finish(&run, &text, losses, &files).map_err(failure)
}

fn failure(error: impl Display) -> (u8, String) {
    (FAILURE, error.to_string())
}

/// Set by the first Ctrl-C; the second ends the program.
fn interruption() -> Result<Arc<AtomicBool>, String> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let handler = move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    ctrlc::set_handler(handler).map_err(|error| format!("Ctrl-C cannot be handled: {error}"))?;
    Ok(flag)
}

/// The files of a run.
struct Files {
    run: PathBuf,
    table: PathBuf,
    curve: PathBuf,
}

impl Files {
    fn of(request: &Request) -> Result<Self, String> {
        let folder = &request.out;
        if !request.resume {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| format!("{}: cannot be made: {error}", folder.display()))?;
        }
        let [run, table, curve] =
            ["run.safetensors", "loss.csv", "loss.svg"].map(|name| folder.join(name));
        Ok(Files { run, table, curve })
    }

    fn save<E: Float>(&self, run: &Run<E>, losses: &Losses) -> Result<(), String> {
        // The table first: of a run that is saved, the losses are there.
        std::fs::write(&self.table, losses.to_csv()).map_err(|error| at(&self.table, &error))?;
        run.save(&self.run).map_err(|error| error.to_string())
    }
}

fn at(path: &Path, error: &dyn Display) -> String {
    format!("{}: {error}", path.display())
}

/// A new run, or the one in the folder.
fn begin<E: Float>(request: &Request, files: &Files) -> Result<(Run<E>, Losses), String> {
    if !request.resume {
        let run = Run::new(request.steps, request.seed).map_err(|error| error.to_string())?;
        // So that it is known now whether the folder can be written to.
        files.save(&run, &Losses::default())?;
        return Ok((run, Losses::default()));
    }
    let run = Run::resume(request.steps, &files.run).map_err(|error| error.to_string())?;
    let table = std::fs::read_to_string(&files.table).map_err(|error| at(&files.table, &error))?;
    let losses = Losses::from_csv(&table, run.step).map_err(|error| at(&files.table, &error))?;
    if run.step >= request.steps {
        eprintln!("train_char_lm: the run has its {} steps already", run.step);
    } else {
        eprintln!("train_char_lm: goes on behind step {}", run.step);
    }
    Ok((run, losses))
}

/// What is done between rounds of steps: the held-out loss, a save, a short text.
fn round<E: Float>(
    run: &Run<E>,
    text: &Text,
    losses: &mut Losses,
    files: &Files,
    progress: &Progress,
) -> Result<(), String> {
    measure(run, text, losses)?;
    files.save(run, losses)?;
    if run.step > 0 {
        let written = write(run, text, SHORT_SAMPLE)?;
        let held_out = losses.held_out.last().map_or(f64::NAN, |(_, loss)| *loss);
        progress.say(&format!("step {}: held-out loss {held_out:.3}, {written:?}", run.step));
    }
    Ok(())
}

/// The held-out loss, once for each number of steps.
fn measure<E: Float>(run: &Run<E>, text: &Text, losses: &mut Losses) -> Result<f64, String> {
    if let Some(&(_, loss)) = losses.held_out.last().filter(|(done, _)| *done == run.step) {
        return Ok(loss);
    }
    let loss = run.held_out(text).map_err(|error| error.to_string())?;
    losses.held_out.push((run.step, loss));
    Ok(loss)
}

/// A text that depends on the model alone.
fn write<E: Float>(run: &Run<E>, text: &Text, count: usize) -> Result<String, String> {
    let mut generator = Generator::seeded(run.step as u64);
    sample::sample(&run.model, text, BEGINNING, count, &mut generator)
        .map_err(|error| error.to_string())
}

/// Saves, and says how to go on.
fn stopped<E: Float>(
    run: &Run<E>,
    losses: &Losses,
    files: &Files,
    request: &Request,
) -> (u8, String) {
    if let Err(message) = files.save(run, losses) {
        return failure(message);
    }
    let (step, path) = (run.step, files.run.display());
    let arguments = cli::resuming(request);
    (INTERRUPTED, format!("stopped behind step {step}, saved to {path}; go on with {arguments}"))
}

/// Saves, draws and writes what the run has come to.
fn finish<E: Float>(
    run: &Run<E>,
    text: &Text,
    mut losses: Losses,
    files: &Files,
) -> Result<(), String> {
    let held_out = measure(run, text, &mut losses)?;
    files.save(run, &losses)?;
    losses.draw(&files.curve)?;
    eprintln!("train_char_lm: wrote {} and {}", files.run.display(), files.curve.display());
    let written = write(run, text, SAMPLE)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{BEGINNING}{written}\n\nheld-out loss: {held_out:.3}")
        .map_err(|error| format!("standard output: {error}"))
}

/// A bar on a terminal; elsewhere a line for each round.
struct Progress {
    bar: ProgressBar,
    terminal: bool,
    first: usize,
    start: Instant,
}

impl Progress {
    fn new<E: Float>(run: &Run<E>, request: &Request) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(request.steps as u64), target);
        let template = "{wide_bar} step {pos}/{len}  {msg}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_position(run.step as u64);
        bar.reset_eta();
        Progress { bar, terminal, first: run.step, start: Instant::now() }
    }

    fn after(&self, step: usize, loss: f64) {
        let seconds = self.start.elapsed().as_secs_f64();
        let tokens = u32::try_from((step - self.first) * CHARACTERS).map_or(f64::NAN, f64::from);
        let message = format!("loss {loss:.3}  {:.0} tokens/s", tokens / seconds);
        if !self.terminal && step.is_multiple_of(ROUND / 2) {
            eprintln!("step {step}: {message}");
        }
        self.bar.set_message(message);
        self.bar.set_position(step as u64);
    }

    /// A line that stays.
    fn say(&self, line: &str) {
        if self.terminal {
            self.bar.println(line);
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
