//! Losses: kept as a table, drawn as a curve.

use std::{fmt::Write, path::Path};

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// The losses of a run so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Losses {
    /// The loss before each step.
    pub(crate) steps: Vec<f64>,
    /// How many steps were done, and the loss on what is held out.
    pub(crate) held_out: Vec<(usize, f64)>,
}

const HEADER: &str = "steps done,loss of the step,held-out loss";

impl Losses {
    /// A line for each step, and before it one for a held-out loss.
    pub(crate) fn to_csv(&self) -> String {
        let mut csv = format!("{HEADER}\n");
        let mut held_out = self.held_out.iter().peekable();
        for done in 0..=self.steps.len() {
            while let Some((_, loss)) = held_out.next_if(|(at, _)| *at == done) {
                let _ = writeln!(csv, "{done},,{loss}");
            }
            if let Some(loss) = self.steps.get(done) {
                let _ = writeln!(csv, "{},{loss},", done + 1);
            }
        }
        csv
    }

    /// The losses of the first `steps` steps. The `Err` is one line.
    pub(crate) fn from_csv(csv: &str, steps: usize) -> Result<Self, String> {
        let mut losses = Losses::default();
        let mut lines = csv.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != HEADER) {
            return Err(format!("expected the first line `{HEADER}`"));
        }
        for (at, line) in lines {
            let refused = || format!("line {}: expected `STEPS,LOSS,` or `STEPS,,LOSS`", at + 1);
            let mut fields = line.split(',');
            let [Some(done), Some(loss), Some(held_out), None] = [0; 4].map(|_| fields.next())
            else {
                return Err(refused());
            };
            let done: usize = done.parse().map_err(|_| refused())?;
            let number = |text: &str| text.parse::<f64>().ok().filter(|loss| loss.is_finite());
            match (loss, held_out) {
                _ if done > steps => break,
                ("", loss) => losses.held_out.push((done, number(loss).ok_or_else(refused)?)),
                (loss, "") => losses.steps.push(number(loss).ok_or_else(refused)?),
                _ => return Err(refused()),
            }
        }
        match losses.steps.len() {
            found if found == steps => Ok(losses),
            found => Err(format!("expected the losses of {steps} steps, found {found}")),
        }
    }

    /// Writes the picture as SVG. The `Err` is one line.
    pub(crate) fn draw(&self, path: &Path) -> Result<(), String> {
        let refuse = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let svg = self.svg().map_err(|error| refuse(&error))?;
        std::fs::write(path, svg).map_err(|error| refuse(&error))
    }

    fn svg(&self) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            area.fill(&WHITE)?;
            let scale = Scale::of(self);
            scale.axes(&area)?;
            let steps = self.steps.iter().enumerate().map(|(done, &loss)| (done, loss));
            let line = steps.map(|(done, loss)| scale.point(done, loss));
            area.draw(&PathElement::new(line.collect::<Vec<_>>(), TRAINING.stroke_width(1)))?;
            let line: Vec<_> =
                self.held_out.iter().map(|&(done, loss)| scale.point(done, loss)).collect();
            area.draw(&PathElement::new(line.clone(), HELD_OUT.stroke_width(2)))?;
            for point in line {
                area.draw(&Circle::new(point, 3, HELD_OUT.filled()))?;
            }
            legend(&area)?;
            area.present()?;
        }
        Ok(svg)
    }
}

type Area<'svg> = DrawingArea<SVGBackend<'svg>, plotters::coord::Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

const WIDTH: u32 = 760;
const HEIGHT: u32 = 420;
/// Upper left and lower right corner of the curve, in pixels.
const CORNERS: [(i32, i32); 2] = [(64, 28), (730, 360)];
const TRAINING: RGBColor = RGBColor(107, 174, 214);
const HELD_OUT: RGBColor = RGBColor(214, 39, 40);
const RULE: RGBColor = RGBColor(225, 225, 225);

/// Where a step and a loss lie.
struct Scale {
    steps: f64,
    /// In whole tenths, so that the rules have short names.
    low: f64,
    high: f64,
}

impl Scale {
    fn of(losses: &Losses) -> Self {
        let held_out = losses.held_out.iter().map(|(_, loss)| loss);
        let all = losses.steps.iter().chain(held_out);
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &loss| {
            (low.min(loss), high.max(loss))
        });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let (low, high) = ((low * 2.0).floor() / 2.0, (high * 2.0).ceil() / 2.0);
        let high = if high > low { high } else { low + 0.5 };
        let last = losses.held_out.last().map_or(0, |(done, _)| *done);
        Scale { steps: as_f64(losses.steps.len().max(last).max(1)), low, high }
    }

    fn point(&self, done: usize, loss: f64) -> (i32, i32) {
        let [(left, top), (right, bottom)] = CORNERS;
        let x = f64::from(right - left) * as_f64(done) / self.steps;
        let y = f64::from(bottom - top) * (loss - self.low) / (self.high - self.low);
        (left + pixels(x), bottom - pixels(y))
    }

    fn axes(&self, area: &Area<'_>) -> Drawn {
        let [(left, _), (right, bottom)] = CORNERS;
        let beside = text("sans-serif", 12).pos(Pos::new(HPos::Right, VPos::Center));
        let below = text("sans-serif", 12).pos(Pos::new(HPos::Center, VPos::Top));
        let rules = pixels((self.high - self.low) * 2.0);
        for rule in 0..=rules {
            let loss = self.low + f64::from(rule) / 2.0;
            let (_, y) = self.point(0, loss);
            area.draw(&PathElement::new([(left, y), (right, y)], RULE))?;
            area.draw(&Text::new(format!("{loss:.1}"), (left - 8, y), beside.clone()))?;
        }
        for quarter in 0..=4 {
            let x = left + (right - left) * quarter / 4;
            let done = self.steps * f64::from(quarter) / 4.0;
            area.draw(&Text::new(format!("{done:.0}"), (x, bottom + 8), below.clone()))?;
        }
        area.draw(&Text::new("steps", ((left + right) / 2, bottom + 28), below))?;
        let middle = text("sans-serif", 12).pos(Pos::new(HPos::Center, VPos::Center));
        let up = middle.transform(FontTransform::Rotate270);
        area.draw(&Text::new("loss, nats a character", (16, bottom / 2 + 20), up))
    }
}

fn legend(area: &Area<'_>) -> Drawn {
    let style = text("sans-serif", 13).pos(Pos::new(HPos::Left, VPos::Center));
    for (name, color, x) in [("of each step", TRAINING, 480), ("held out", HELD_OUT, 620)] {
        area.draw(&PathElement::new([(x, 14), (x + 20, 14)], color.stroke_width(3)))?;
        area.draw(&Text::new(name, (x + 28, 14), style.clone()))?;
    }
    Ok(())
}

fn text(family: &str, size: i32) -> TextStyle<'_> {
    (family, size).into_text_style(&(WIDTH, HEIGHT)).color(&BLACK)
}

#[allow(clippy::cast_possible_truncation, reason = "saturates, and a picture is small")]
fn pixels(length: f64) -> i32 {
    length.round() as i32
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
