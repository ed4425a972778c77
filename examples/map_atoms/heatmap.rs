//! Attention weights as a heat map, tokens on both axes.

use std::path::Path;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// What is drawn. A row is a query, a column a key.
#[derive(Debug)]
pub(crate) struct HeatMap<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    /// Named by position and text, as in `19 C`.
    pub(crate) tokens: &'a [String],
    /// As many rows and columns as there are tokens.
    pub(crate) weights: &'a [f32],
    /// Lines are drawn around this token's row and column.
    pub(crate) divider: usize,
    /// Cells (row, column) with a box around them.
    pub(crate) boxed: &'a [(usize, usize)],
}

type Area<'svg> = DrawingArea<SVGBackend<'svg>, plotters::coord::Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// From nothing to the strongest weight. White, so that the many small weights of
/// a sharp head stay background.
const RAMP: [RGBColor; 5] = [
    RGBColor(255, 255, 255),
    RGBColor(198, 219, 239),
    RGBColor(107, 174, 214),
    RGBColor(33, 113, 181),
    RGBColor(8, 48, 107),
];
const BOX: RGBColor = RGBColor(214, 39, 40);
const FRAME: RGBColor = RGBColor(120, 120, 120);

/// Sizes in pixels, all from the number of tokens and their longest name.
struct Layout {
    cell: i32,
    font: i32,
    /// Upper left corner of the cells, and the length of their side.
    left: i32,
    top: i32,
    side: i32,
    label: i32,
}

impl HeatMap<'_> {
    /// Writes the picture as SVG. The `Err` is one line.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let refuse = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let svg = self.svg().map_err(|error| refuse(&error))?;
        std::fs::write(path, svg).map_err(|error| refuse(&error))
    }

    fn svg(&self) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
        let layout = self.layout();
        let width = layout.left + layout.side + 110;
        let height = layout.top + layout.side + layout.label + 46;
        let mut svg = String::new();
        {
            let size = (width.unsigned_abs(), height.unsigned_abs());
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            area.fill(&WHITE)?;
            self.titles(&area, &layout, width)?;
            self.cells(&area, &layout)?;
            self.labels(&area, &layout)?;
            self.scale(&area, &layout)?;
            area.present()?;
        }
        Ok(svg)
    }

    fn layout(&self) -> Layout {
        let count = pixels(self.tokens.len()).max(1);
        let longest = self.tokens.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        // Names stay legible, and a small picture has room for its titles.
        let cell = (960 / count).clamp(10, (400 / count).max(20));
        let font = (cell - 1).min(13);
        let label = pixels(longest) * font * 62 / 100 + 8;
        Layout { cell, font, left: label + 34, top: 62, side: cell * count, label }
    }

    fn titles(&self, area: &Area<'_>, layout: &Layout, width: i32) -> Drawn {
        let fits = usize::try_from((width - 24) * 10 / 84).unwrap_or(0);
        let mut title: String = self.title.chars().take(fits).collect();
        if title.len() < self.title.len() {
            title.push('…');
        }
        let style = text("monospace", 14).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(title, (12, 10), style))?;
        let style = text("sans-serif", 13).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(self.subtitle, (12, 32), style))?;

        let middle = Pos::new(HPos::Center, VPos::Center);
        let style = text("sans-serif", 14).pos(middle);
        let below = (layout.left + layout.side / 2, layout.top + layout.side + layout.label + 22);
        area.draw(&Text::new("key: the token looked at", below, style.clone()))?;
        let style = style.transform(FontTransform::Rotate270);
        let beside = (16, layout.top + layout.side / 2);
        area.draw(&Text::new("query: the token that looks", beside, style))
    }

    fn cells(&self, area: &Area<'_>, layout: &Layout) -> Drawn {
        let Layout { cell, left, top, side, .. } = *layout;
        let count = self.tokens.len();
        let most = self.most();
        for (at, &weight) in self.weights.iter().enumerate() {
            let color = ramp(weight / most);
            if color == RAMP[0] {
                continue;
            }
            let (x, y) = (left + pixels(at % count) * cell, top + pixels(at / count) * cell);
            area.draw(&Rectangle::new([(x, y), (x + cell, y + cell)], color.filled()))?;
        }
        // A faint rule every fifth token leads the eye from a cell to its names.
        for at in (0..=count).step_by(5).map(|at| pixels(at) * cell) {
            for line in [
                [(left + at, top), (left + at, top + side)],
                [(left, top + at), (left + side, top + at)],
            ] {
                area.draw(&PathElement::new(line, BLACK.mix(0.13)))?;
            }
        }
        for at in [self.divider, self.divider + 1].map(|at| pixels(at) * cell) {
            for line in [
                [(left + at, top), (left + at, top + side)],
                [(left, top + at), (left + side, top + at)],
            ] {
                area.draw(&PathElement::new(line, BLACK.mix(0.6)))?;
            }
        }
        for &(row, column) in self.boxed {
            let (x, y) = (left + pixels(column) * cell, top + pixels(row) * cell);
            let corners = [(x, y), (x + cell, y + cell)];
            area.draw(&Rectangle::new(corners, BOX.stroke_width(2)))?;
        }
        let corners = [(left, top), (left + side, top + side)];
        area.draw(&Rectangle::new(corners, FRAME))
    }

    fn labels(&self, area: &Area<'_>, layout: &Layout) -> Drawn {
        let Layout { cell, font, left, top, side, .. } = *layout;
        let style = text("monospace", font).pos(Pos::new(HPos::Right, VPos::Center));
        let turned = style.clone().transform(FontTransform::Rotate270);
        for (at, name) in self.tokens.iter().enumerate() {
            let middle = pixels(at) * cell + cell / 2;
            area.draw(&Text::new(name.as_str(), (left - 4, top + middle), style.clone()))?;
            let below = (left + middle, top + side + 4);
            area.draw(&Text::new(name.as_str(), below, turned.clone()))?;
        }
        Ok(())
    }

    /// The colours' legend, right of the cells.
    fn scale(&self, area: &Area<'_>, layout: &Layout) -> Drawn {
        const STEPS: i32 = 64;
        const TICKS: i32 = 4;
        let (left, top) = (layout.left + layout.side + 20, layout.top);
        let step = (layout.side / STEPS).clamp(2, 5);
        let height = step * STEPS;
        for at in 0..STEPS {
            let y = top + height - at * step;
            let color = ramp(share(at, STEPS - 1));
            area.draw(&Rectangle::new([(left, y - step), (left + 16, y)], color.filled()))?;
        }
        area.draw(&Rectangle::new([(left, top), (left + 16, top + height)], FRAME))?;
        let style = text("sans-serif", 12).pos(Pos::new(HPos::Left, VPos::Center));
        for tick in 0..=TICKS {
            let y = top + height - height * tick / TICKS;
            let value = format!("{:.3}", self.most() * share(tick, TICKS));
            area.draw(&PathElement::new([(left + 16, y), (left + 20, y)], FRAME))?;
            area.draw(&Text::new(value, (left + 23, y), style.clone()))?;
        }
        let style =
            style.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new("attention weight", (left + 72, top + height / 2), style))
    }

    /// The strongest weight: the end of the scale.
    fn most(&self) -> f32 {
        let most = self.weights.iter().copied().fold(0.0, f32::max);
        if most > 0.0 { most } else { 1.0 }
    }
}

/// Text of a height in pixels; the SVG backend divides what it is given by 1.24.
fn text(family: &'static str, size: i32) -> TextStyle<'static> {
    (family, f64::from(size) * 1.24).into_text_style(&(1, 1)).color(&BLACK)
}

fn pixels(count: usize) -> i32 {
    i32::try_from(count).expect("a picture of fewer pixels")
}

#[expect(clippy::cast_precision_loss, reason = "both are small")]
fn share(part: i32, whole: i32) -> f32 {
    part as f32 / whole as f32
}

/// The colour at a place from 0 to 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both casts take numbers from 0 to 255"
)]
fn ramp(place: f32) -> RGBColor {
    let place = place.clamp(0.0, 1.0) * 4.0;
    let from = if place >= 3.0 { 3 } else { place as usize };
    let part = place - [0.0, 1.0, 2.0, 3.0][from];
    let mix = |low: u8, high: u8| {
        (f32::from(low) + (f32::from(high) - f32::from(low)) * part).round() as u8
    };
    let (low, high) = (RAMP[from], RAMP[from + 1]);
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}
