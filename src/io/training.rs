//! A training run in a file: parameters, the optimizer's state, the step and the random numbers to come.

use super::{Checkpoint, Source, TensorFile, WeightLayout, quoted, save_tensors};
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::nn::{AnyParameter, Module, parameters};
use crate::optim::{LossScale, Optimizer, Slots, State, UpdateRule};
use crate::tensor::{AnyTensor, FloatTensor, Generator};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the keys of parameters begin with.
const MODEL: &str = "model.";
/// The key of the step.
const STEP: &str = "step";
/// The key of the generator.
const GENERATOR: &str = "generator";
/// The key of how losses are scaled.
const LOSS_SCALE: &str = "loss_scale";
/// What stands before a parameter's name in the key that counts its updates.
const UPDATES: &str = "updates";

/// Writes a training run to a safetensors file: the parameters of `module`, the optimizer's state, how many
/// steps are done, and the state of the generator.
///
/// A schedule is a function of the step, and so is saved with it. The settings of the optimizer are not:
/// they are the program's. The file appears as a whole or not at all; an interrupted save leaves what was
/// there before.
///
/// | key | what |
/// |---|---|
/// | `model.NAME` | the parameter, a weight over (in, out); of a half type, what it is rounded from |
/// | `adamw.mean.NAME`, … | the optimizer's state of a parameter, after the rule's name |
/// | `adamw.updates.NAME` | how often the parameter has been updated |
/// | `step` | the steps that are done |
/// | `loss_scale` | where losses are scaled: the factor, good steps in a row, skipped steps |
/// | `generator` | its seed in eight numbers, and how far it is in three, the lowest first |
///
/// # Errors
/// Where the file cannot be written; a number is NaN or infinite, so that the run could not be resumed; or
/// the optimizer has state of a parameter that the module does not have. An older file stays.
///
/// # Examples
/// ```
/// use shapeproof::{
///     AdamW, Generator, Linear, Model, Optimizer, Vocab, C, load_training, save_training,
/// };
///
/// let path = std::env::temp_dir().join("shapeproof-training-example.safetensors");
/// let mut generator = Generator::seeded(7);
/// let head = Linear::<Model<C<4>>, Vocab<C<6>>>::xavier(&mut generator);
/// let optimizer = Optimizer::try_new(AdamW::default())?;
/// save_training(&path, &head, &optimizer, 100, &generator)?;
///
/// let mut resumed = Linear::<Model<C<4>>, Vocab<C<6>>>::zeros();
/// let mut optimizer = Optimizer::try_new(AdamW::default())?;
/// let mut next = Generator::seeded(0);
/// assert_eq!(load_training(&path, &mut resumed, &mut optimizer, &mut next)?, 100);
/// assert_eq!(resumed.weight.value(), head.weight.value());
/// assert_eq!(next.bits(), generator.bits());
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub fn save_training<M: Module + ?Sized, R: UpdateRule>(
    path: impl AsRef<Path>,
    module: &M,
    optimizer: &Optimizer<R>,
    step: usize,
    generator: &Generator,
) -> Result<()> {
    let path = path.as_ref();
    let mut tensors = Vec::new();
    let mut names = BTreeSet::new();
    for (name, parameter) in parameters(module) {
        tensors.push((format!("{MODEL}{name}"), parameter.exact()));
        names.insert(name);
    }
    for (name, state) in optimizer.state() {
        if !names.contains(name) {
            let message = format!("the optimizer has state of {name:?}, which is no parameter");
            return Err(Error::file(path, message));
        }
        let slots = optimizer.slots_of(name).iter().zip(state.tensors());
        tensors.extend(slots.map(|(slot, tensor)| (key::<R>(slot, name), tensor)));
        tensors.push((key::<R>(UPDATES, name), count(path, state.updates)?));
    }
    for (key, tensor) in &tensors {
        if !tensor.is_finite() {
            let message =
                format!("key {}: expected finite numbers alone, to be loaded", quoted(key));
            return Err(Error::file(path, message));
        }
    }
    if let Some(scale) = optimizer.loss_scale() {
        tensors.push((LOSS_SCALE.into(), numbers(&scale.to_numbers())));
    }
    tensors.push((STEP.into(), count(path, step as u64)?));
    tensors.push((GENERATOR.into(), numbers(&generator.to_numbers().map(f64::from))));
    save_tensors(path, tensors)
}

/// Reads a training run that [`save_training`] wrote, into a module and an optimizer like those that were
/// saved, and a generator; gives the steps that were done. The run goes on bit for bit as if it had not been
/// interrupted.
///
/// Parameters without state in the file have none afterwards, whatever the optimizer had of them.
///
/// # Errors
/// Where the file is not what it claims ([`TensorFile`]); it is of another rule, or has a parameter or state
/// too many or too few, or of other sizes; or a number is not finite or not what it stands for. Module,
/// optimizer and generator are as they were.
///
/// # Examples
/// As [`save_training`], and of what is refused:
/// ```
/// use shapeproof::{
///     Adam, AdamW, Generator, Linear, Model, Optimizer, C, load_training, save_training,
/// };
///
/// let path = std::env::temp_dir().join("shapeproof-training-refusal.safetensors");
/// let mut layer = Linear::<Model<C<4>>, Model<C<4>>>::zeros();
/// let adamw = Optimizer::try_new(AdamW::default())?;
/// let mut generator = Generator::seeded(7);
/// save_training(&path, &layer, &adamw, 100, &generator)?;
///
/// let mut wider = Linear::<Model<C<6>>, Model<C<4>>>::zeros();
/// let mut adam = Optimizer::try_new(Adam::default())?;
/// let error = load_training(&path, &mut wider, &mut adam, &mut generator).unwrap_err();
/// assert!(error.to_string().contains("expected sizes [6, 4]"));
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub fn load_training<M: Module + ?Sized, R: UpdateRule>(
    path: impl AsRef<Path>,
    module: &mut M,
    optimizer: &mut Optimizer<R>,
    generator: &mut Generator,
) -> Result<usize> {
    let file = TensorFile::open(path)?;
    if file.dims(STEP).is_none() {
        let message = "no key \"step\", which files of `save_training` have";
        return Err(Error::file(file.path(), message));
    }
    let step = read_count(&file, STEP)?;
    let step = usize::try_from(step)
        .map_err(|_| file.refused(STEP, format!("{step} steps are more than can be counted")))?;
    let saved = read_generator(&file)?;
    let scale = optimizer.loss_scale().map(|_| read_loss_scale(&file)).transpose()?;
    let state = read_state(&file, &*module, optimizer)?;
    Checkpoint::new(WeightLayout::InOut)
        .sources(|name| Source::key(format!("{MODEL}{name}")))
        // Those of the optimizer, all of which have been used.
        .allow_extra(|key| !key.starts_with(MODEL))
        .exactly()
        .load_from(module, &file)?;
    optimizer.set_state(state);
    scale.into_iter().for_each(|scale| optimizer.set_loss_scale(scale));
    *generator = saved;
    Ok(step)
}

/// The key of what the rule keeps of a parameter.
fn key<R: UpdateRule>(slot: &str, name: &str) -> String {
    format!("{}.{slot}.{name}", R::NAME)
}

/// The state of every parameter that has any in the file. Refuses keys that are nothing's.
fn read_state<M: Module + ?Sized, R: UpdateRule>(
    file: &TensorFile,
    module: &M,
    optimizer: &Optimizer<R>,
) -> Result<BTreeMap<String, State>> {
    let mut used = BTreeSet::from([STEP.to_owned(), GENERATOR.to_owned()]);
    used.extend(optimizer.loss_scale().map(|_| LOSS_SCALE.to_owned()));
    let mut all = BTreeMap::new();
    for (name, parameter) in parameters(module) {
        let updates = key::<R>(UPDATES, &name);
        if file.dims(&updates).is_none() {
            continue;
        }
        let keys: Vec<_> = optimizer.slots_of(&name).iter().map(|it| key::<R>(it, &name)).collect();
        let slots = if parameter.wide_element() == f64::NAME {
            Slots::F64(read_slots(file, &keys, parameter)?)
        } else {
            Slots::F32(read_slots(file, &keys, parameter)?)
        };
        all.insert(name, State { updates: read_count(file, &updates)?, slots });
        used.extend(keys.into_iter().chain([updates]));
    }
    let stray = file.keys().find(|key| !key.starts_with(MODEL) && !used.contains(*key));
    match stray {
        None => Ok(all),
        Some(key) => {
            let message = format!("belongs to no parameter's state by the rule {:?}", R::NAME);
            Err(file.refused(key, message))
        }
    }
}

fn read_slots<E: Float>(
    file: &TensorFile,
    keys: &[String],
    parameter: &dyn AnyParameter,
) -> Result<Vec<AnyTensor<E>>> {
    let read = |key: &String| {
        let (expected, found) =
            (parameter.dims(), file.dims(key).ok_or_else(|| file.missing(key))?);
        if *found != *expected {
            let message =
                format!("expected sizes {expected:?} as the parameter has, found {found:?}");
            return Err(file.refused(key, message));
        }
        file.check_finite::<E>(key, None)?;
        file.read_as(key, None)
    };
    keys.iter().map(read).collect()
}

fn read_loss_scale(file: &TensorFile) -> Result<LossScale> {
    let found = read_numbers(file, LOSS_SCALE)?;
    let numbers = <[f64; 3]>::try_from(found.as_slice()).ok();
    numbers
        .and_then(LossScale::from_numbers)
        .ok_or_else(|| file.refused(LOSS_SCALE, format!("no scale of losses: {found:?}")))
}

fn read_generator(file: &TensorFile) -> Result<Generator> {
    let found = read_numbers(file, GENERATOR)?;
    let whole = |&number: &f64| {
        let fits = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        fits.then_some(number as u32)
    };
    let numbers: Option<Vec<u32>> = found.iter().map(whole).collect();
    numbers
        .and_then(|numbers| Generator::from_numbers(numbers.try_into().ok()?))
        .ok_or_else(|| file.refused(GENERATOR, format!("no state of a generator: {found:?}")))
}

fn read_count(file: &TensorFile, key: &str) -> Result<u64> {
    let found = read_numbers(file, key)?;
    match found[..] {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        [count] if (0.0..=EXACT).contains(&count) && count.fract() == 0.0 => Ok(count as u64),
        _ => Err(file.refused(key, format!("expected one whole number, found {found:?}"))),
    }
}

/// A few numbers; of a tensor that is longer, an error.
fn read_numbers(file: &TensorFile, key: &str) -> Result<Vec<f64>> {
    const MOST: usize = 16;
    let dims = file.dims(key).ok_or_else(|| file.missing(key))?;
    match crate::kernel::layout::checked_count(dims) {
        Some(count) if count <= MOST => Ok(file.read_as::<f64>(key, None)?.to_vec()),
        _ => {
            Err(file.refused(key, format!("expected at most {MOST} numbers, found sizes {dims:?}")))
        }
    }
}

/// Whole numbers up to this one are themselves as f64.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn count(path: &Path, count: u64) -> Result<FloatTensor> {
    #[allow(clippy::cast_precision_loss, reason = "checked")]
    let number = count as f64;
    if number > EXACT {
        return Err(Error::file(path, format!("cannot hold a count of {count}")));
    }
    Ok(FloatTensor::F64(AnyTensor::from_packed(&[], vec![number])))
}

fn numbers(numbers: &[f64]) -> FloatTensor {
    FloatTensor::F64(AnyTensor::from_packed(&[numbers.len()], numbers.to_vec()))
}

impl State {
    fn tensors(&self) -> Vec<FloatTensor> {
        match &self.slots {
            Slots::F32(slots) => slots.iter().cloned().map(FloatTensor::F32).collect(),
            Slots::F64(slots) => slots.iter().cloned().map(FloatTensor::F64).collect(),
        }
    }
}
