//! The run: steps, the loss on what is held out, saving and resuming.

use std::path::Path;

use shapeproof::{
    AdamW, Batch, C, Float, Generator, Infer, LossScale, Optimizer, Result, Schedule, Static,
    Train, dyn_size, load_training, save_training, try_cross_entropy,
};

use super::{
    model::{CharLm, Context},
    text::Text,
};

/// Windows of one step.
pub(crate) type BatchSize = C<16>;
/// Characters of one step.
pub(crate) const CHARACTERS: usize = BatchSize::N * Context::N;

const PEAK: f64 = 3e-3;
const WARM_UP: usize = 50;
const LONGEST_GRADIENT: f64 = 1.0;

/// A run between two steps.
pub(crate) struct Run<E = f32> {
    pub(crate) model: CharLm<E>,
    optimizer: Optimizer<AdamW>,
    generator: Generator,
    schedule: Schedule,
    /// How many steps are done.
    pub(crate) step: usize,
}

impl<E: Float> Run<E> {
    /// A run of so many steps that has not begun.
    pub(crate) fn new(steps: usize, seed: u64) -> Result<Self> {
        let mut generator = Generator::seeded(seed);
        let rule = AdamW { betas: (0.9, 0.99), weight_decay: 0.01, ..AdamW::default() };
        let mut optimizer = Optimizer::try_new(rule)?;
        if E::NAME == "f16" {
            optimizer = optimizer.scaling_losses(LossScale::default());
        }
        Ok(Run {
            model: CharLm::new(&mut generator),
            optimizer,
            generator,
            schedule: Schedule::cosine(PEAK, steps).floor(PEAK / 10.0).warm_up(WARM_UP),
            step: 0,
        })
    }

    /// The run in a file, to be continued to so many steps.
    pub(crate) fn resume(steps: usize, path: &Path) -> Result<Self> {
        let mut run = Self::new(steps, 0)?;
        run.step = load_training(path, &mut run.model, &mut run.optimizer, &mut run.generator)?;
        Ok(run)
    }

    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        save_training(path, &self.model, &self.optimizer, self.step, &self.generator)
    }

    /// One step; the loss before it, in nats a character.
    ///
    /// # Errors
    /// Where the loss is no longer finite.
    pub(crate) fn step(&mut self, text: &Text) -> Result<f64> {
        let (tokens, targets) = text.draw(Batch(BatchSize::default()), &mut self.generator)?;
        // Nothing is dropped, so nothing depends on this seed.
        let mut train = Train::seeded(0);
        // The loss is taken in f32, whatever the model computes in.
        let logits = self.model.forward(&tokens, &mut train)?.to::<f32>();
        let loss = try_cross_entropy(&logits, &targets)?;
        let gradients = self.optimizer.backward(&train, &loss);
        let value = f64::from(loss.value());
        // What was recorded holds the parameters, which could not be updated in place.
        drop((logits, loss));
        if let Some(mut gradients) = gradients {
            gradients.try_clip_norm(LONGEST_GRADIENT)?;
            self.optimizer.step(&mut self.model, &gradients, self.schedule.rate(self.step))?;
        }
        self.step += 1;
        Ok(value)
    }

    /// The loss on what is held out, in nats a character.
    pub(crate) fn held_out(&self, text: &Text) -> Result<f64> {
        let starts = text.held_out();
        let mut sum = 0.0;
        for starts in starts.chunks(BatchSize::N) {
            dyn_size!(batch = starts.len());
            let (tokens, targets) = text.windows(Batch(batch), starts)?;
            let logits = self.model.forward(&tokens, &mut Infer)?.to::<f32>();
            let loss = f64::from(try_cross_entropy(&logits, &targets)?.value());
            sum += loss * as_f64(starts.len());
        }
        Ok(sum / as_f64(starts.len()))
    }
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
