//! Rates as functions of the update.

use std::f64::consts::PI;

/// The rate of each update: a plain function of the update's number, counted from 0.
///
/// A warm-up of w updates rises to the peak in w equal steps, and the first of them is one already:
/// peak/w, 2·peak/w, …, peak. No update is wasted on a rate of 0. Without a warm-up the first update has
/// the peak. A linear or cosine schedule falls from there to its floor, which the last of its updates has,
/// and all after it.
///
/// # Numerics
/// In f64. For a finite peak no rate is infinite or NaN, whatever the numbers of updates.
///
/// # Examples
/// ```
/// use shapeproof::Schedule;
///
/// let schedule = Schedule::cosine(1e-3, 100).floor(1e-4).warm_up(4);
/// let rates: Vec<f64> = (0..5).map(|update| schedule.rate(update)).collect();
/// assert_eq!(rates[..4], [2.5e-4, 5e-4, 7.5e-4, 1e-3]);
/// assert!(rates[4] < 1e-3);
/// assert_eq!(schedule.rate(99), 1e-4);
/// ```
///
/// # References
/// Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.2, for the warm-up; Loshchilov and
/// Hutter, "SGDR", 2017, equation 5, for the cosine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    peak: f64,
    floor: f64,
    warm_up: usize,
    decay: Decay,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Decay {
    None,
    /// Over so many updates, with the warm-up.
    Linear(usize),
    Cosine(usize),
    /// The peak is the rate of update 1 that a root without warm-up would have.
    Root,
}

impl Schedule {
    /// The same rate for every update, behind the warm-up.
    pub fn constant(rate: f64) -> Self {
        Self::of(rate, Decay::None)
    }

    /// Falls by equal steps, from the peak to the floor, which the last of `updates` has.
    pub fn linear(peak: f64, updates: usize) -> Self {
        Self::of(peak, Decay::Linear(updates))
    }

    /// floor + (peak − floor) · (1 + cos πt) / 2, where t goes from 0 behind the warm-up to 1 at the last
    /// of `updates`.
    pub fn cosine(peak: f64, updates: usize) -> Self {
        Self::of(peak, Decay::Cosine(updates))
    }

    /// width^−½ · min(s^−½, s · w^−³ᐟ²) for the update s, counted from 1, and a warm-up of w: falls with the
    /// root of the update's number, without an end.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::Schedule;
    ///
    /// let schedule = Schedule::noam(512).warm_up(4000);
    /// let peak = schedule.rate(3999);
    /// assert!((peak - (512.0f64 * 4000.0).powf(-0.5)).abs() < 1e-12);
    /// assert!((schedule.rate(15999) - peak / 2.0).abs() < 1e-12);
    /// ```
    ///
    /// # References
    /// Vaswani et al., "Attention Is All You Need", 2017, equation 3; the width is its d_model, w its
    /// warmup_steps. Named after Noam Shazeer.
    pub fn noam(width: usize) -> Self {
        Self::of(as_f64(width.max(1)).powf(-0.5), Decay::Root)
    }

    fn of(peak: f64, decay: Decay) -> Self {
        Schedule { peak, floor: 0.0, warm_up: 0, decay }
    }

    /// With so many updates to the peak, the last of which has it.
    pub fn warm_up(self, updates: usize) -> Self {
        Schedule { warm_up: updates, ..self }
    }

    /// With this rate at the end of a linear or cosine schedule; 0 without.
    pub fn floor(self, rate: f64) -> Self {
        Schedule { floor: rate, ..self }
    }

    /// With all rates multiplied by a number.
    pub fn scaled(self, factor: f64) -> Self {
        Schedule { peak: self.peak * factor, floor: self.floor * factor, ..self }
    }

    /// The rate of an update, the first of which is 0.
    pub fn rate(&self, update: usize) -> f64 {
        let peak = self.peak();
        if update < self.warm_up {
            // The quotient first: it is 1 in the last of the warm-up, which so has the peak itself.
            return peak * ((as_f64(update) + 1.0) / as_f64(self.warm_up));
        }
        let fallen = |updates| self.progress(update, updates);
        match self.decay {
            Decay::None => peak,
            Decay::Linear(updates) => self.between(1.0 - fallen(updates)),
            Decay::Cosine(updates) => self.between(0.5 * (1.0 + (PI * fallen(updates)).cos())),
            Decay::Root => self.peak * (as_f64(update) + 1.0).powf(-0.5),
        }
    }

    /// The rate at the end of the warm-up.
    fn peak(&self) -> f64 {
        match self.decay {
            Decay::Root => self.peak * as_f64(self.warm_up.max(1)).powf(-0.5),
            _ => self.peak,
        }
    }

    /// The share of the way from the peak's update, 0, to the last of `updates`, 1.
    fn progress(&self, update: usize, updates: usize) -> f64 {
        let peak = self.warm_up.saturating_sub(1);
        let last = updates.saturating_sub(1);
        if update <= peak {
            0.0
        } else if update >= last {
            1.0
        } else {
            as_f64(update - peak) / as_f64(last - peak)
        }
    }

    fn between(&self, share: f64) -> f64 {
        // Exact at both ends.
        if share >= 1.0 { self.peak } else { self.floor + (self.peak - self.floor) * share }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
fn as_f64(number: usize) -> f64 {
    number as f64
}
