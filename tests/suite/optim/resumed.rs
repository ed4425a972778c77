//! Training runs in files: a run that is interrupted goes on as one that is not, and what does not fit is
//! refused and changes nothing.

use super::{Pair, Small};
use crate::io::Folder;
use crate::modules::bits;
use shapeproof::{
    Adam, AdamW, AnyTensor, C, Float, FloatTensor, Generator, Mode, Module, Optimizer, Schedule,
    Sgd, Tensor, TensorFile, Train, UpdateRule, load_training, save_tensors, save_training,
};
use std::collections::BTreeMap;
use std::path::Path;

/// A run's model, optimizer and generator.
struct Run<R, E> {
    pair: Small<E>,
    optimizer: Optimizer<R>,
    generator: Generator,
}

impl<R: UpdateRule + Default, E: Float> Run<R, E> {
    /// The bias is a group of its own, with other settings and so with another number of slots.
    fn new(rule: R, start: f64) -> Self {
        let optimizer = Optimizer::try_new(rule).unwrap();
        let optimizer = optimizer.try_group(|name| name == "bias", R::default()).unwrap();
        Run { pair: Small::new(start), optimizer, generator: Generator::seeded(9) }
    }

    /// Without the parameter of this name.
    fn freezing(self, frozen: &'static str) -> Self {
        let optimizer = self.optimizer.freeze(move |name| name == frozen);
        Run { optimizer, ..self }
    }

    /// Steps whose gradients are drawn.
    fn train(&mut self, steps: std::ops::Range<usize>) {
        let schedule = Schedule::cosine(0.1, 12).warm_up(3);
        for step in steps {
            let shape = self.pair.weight.shape();
            let noise = Tensor::normal_in(shape, 0.0, 1.0, &mut self.generator);
            let mut train = Train::seeded(self.generator.bits());
            let weight = train.read(&self.pair.weight);
            let loss = weight.mul(&noise).exp().sum_all();
            // The bias is updated every other time: its count is another.
            let loss = match step % 2 {
                0 => loss,
                _ => loss.add(&train.read(&self.pair.bias).exp().sum_all()),
            };
            let gradients = train.backward(&loss);
            drop((weight, loss));
            self.optimizer.step(&mut self.pair, &gradients, schedule.rate(step)).unwrap();
        }
    }

    fn save(&self, path: &Path, step: usize) {
        save_training(path, &self.pair, &self.optimizer, step, &self.generator).unwrap();
    }

    fn load(&mut self, path: &Path) -> shapeproof::Result<usize> {
        load_training(path, &mut self.pair, &mut self.optimizer, &mut self.generator)
    }
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_bits() {
    fn check<R: UpdateRule + Copy + Default, E: Float>(rule: R) {
        let folder = Folder::new();
        let path = folder.path("run.safetensors");
        for frozen in ["", "bias", "norm.weight"] {
            let run = |start| Run::<R, E>::new(rule, start).freezing(frozen);
            let mut whole = run(0.25);
            let before = bits(&whole.pair);
            whole.train(0..10);
            for (before, after) in before.into_iter().zip(bits(&whole.pair)) {
                assert_eq!(before == after, before.0 == frozen, "{}", before.0);
            }
            for stop in [0, 1, 5, 10] {
                let mut first = run(0.25);
                first.train(0..stop);
                first.save(&path, stop);
                // Of another beginning, and used already.
                let mut second = run(7.0);
                second.generator = Generator::seeded(1);
                second.train(0..3);
                assert_eq!(second.load(&path).unwrap(), stop);
                second.train(stop..10);
                assert_eq!(bits(&second.pair), bits(&whole.pair), "{rule:?} {frozen} {stop}");
                assert_eq!(second.generator.clone().bits(), whole.generator.clone().bits());
            }
        }
    }
    check::<_, f32>(AdamW { amsgrad: true, ..AdamW::default() });
    check::<_, f64>(AdamW::default());
    check::<_, f32>(Adam::default());
    check::<_, f64>(Sgd { momentum: 0.9, dampening: 0.5, ..Sgd::default() });
    check::<_, f32>(Sgd::default());
}

#[test]
fn every_position_of_a_generator_is_kept() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    let mut run = Run::<_, f32>::new(Sgd::default(), 1.0);
    for draws in 0..70 {
        run.generator = Generator::seeded(u64::MAX - draws);
        for _ in 0..draws {
            run.generator.bits();
            if draws % 3 == 0 {
                run.generator.normal();
            }
        }
        run.save(&path, 0);
        let mut after = Run::<_, f32>::new(Sgd::default(), 1.0);
        after.load(&path).unwrap();
        for _ in 0..40 {
            assert_eq!(after.generator.bits(), run.generator.bits(), "{draws}");
        }
    }
}

/// The message of a load that is refused; the run must be as it was, and go on as if nothing had been.
fn refusal<R: UpdateRule + Copy + Default, E: Float>(rule: R, path: &Path) -> String {
    let mut run = Run::<R, E>::new(rule, 0.5);
    run.train(0..4);
    let before = bits(&run.pair);
    let error = run.load(path).unwrap_err();
    assert!(error.is_file(), "{error}");
    assert_eq!(bits(&run.pair), before, "{error}");
    let mut twin = Run::<R, E>::new(rule, 0.5);
    twin.train(0..8);
    run.train(4..8);
    assert_eq!(bits(&run.pair), bits(&twin.pair), "{error}");
    let message = error.to_string();
    assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");
    message
}

/// The tensors of a saved run, changed.
fn changed(path: &Path, change: impl FnOnce(&mut BTreeMap<String, FloatTensor>)) {
    let mut run = Run::<_, f32>::new(AdamW::default(), 3.0);
    run.train(0..2);
    run.save(path, 2);
    let mut file = TensorFile::open(path).unwrap();
    let keys: Vec<_> = file.keys().map(str::to_owned).collect();
    let mut tensors: BTreeMap<_, _> =
        keys.into_iter().map(|key| (key.clone(), file.read(&key).unwrap())).collect();
    change(&mut tensors);
    save_tensors(path, tensors).unwrap();
}

fn tensor(dims: &[usize], numbers: &[f64]) -> FloatTensor {
    FloatTensor::new(AnyTensor::try_from_vec(dims, numbers.to_vec()).unwrap())
}

#[test]
fn a_run_has_the_keys_that_are_documented() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    changed(&path, |tensors| {
        let keys: Vec<_> = tensors.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "adamw.mean.bias",
                "adamw.mean.norm.weight",
                "adamw.square.bias",
                "adamw.square.norm.weight",
                "adamw.updates.bias",
                "adamw.updates.norm.weight",
                "generator",
                "model.bias",
                "model.norm.weight",
                "step",
            ]
        );
        assert_eq!(tensors["adamw.updates.bias"].to::<f64>().to_vec(), [1.0]);
        assert_eq!(tensors["step"].to::<f64>().to_vec(), [2.0]);
    });
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    type Tensors = BTreeMap<String, FloatTensor>;
    let cases: [(&str, Box<dyn Fn(&mut Tensors)>); 14] = [
        ("no key \"step\"", Box::new(|it| drop(it.remove("step")))),
        ("no key \"generator\"", Box::new(|it| drop(it.remove("generator")))),
        ("no key \"model.bias\"", Box::new(|it| drop(it.remove("model.bias")))),
        ("no key \"adamw.mean.bias\"", Box::new(|it| drop(it.remove("adamw.mean.bias")))),
        (
            "key \"adamw.mean.bias\": belongs to no parameter's state",
            Box::new(|it| drop(it.remove("adamw.updates.bias"))),
        ),
        (
            "key \"model.other\": belongs to no parameter",
            Box::new(|it| _ = it.insert("model.other".into(), tensor(&[1], &[1.0]))),
        ),
        (
            "key \"other\": belongs to no parameter's state by the rule \"adamw\"",
            Box::new(|it| _ = it.insert("other".into(), tensor(&[1], &[1.0]))),
        ),
        (
            "key \"adamw.square.bias\": expected sizes [2] as the parameter has, found [1, 2]",
            Box::new(|it| _ = it.insert("adamw.square.bias".into(), tensor(&[1, 2], &[1.0, 2.0]))),
        ),
        (
            "key \"adamw.square.bias\": expected finite f32 numbers",
            Box::new(|it| {
                _ = it.insert("adamw.square.bias".into(), tensor(&[2], &[1.0, f64::NAN]))
            }),
        ),
        (
            "key \"model.bias\": expected finite f32 numbers",
            Box::new(|it| _ = it.insert("model.bias".into(), tensor(&[2], &[1.0, f64::INFINITY]))),
        ),
        (
            "key \"adamw.updates.bias\": expected one whole number, found [1.5]",
            Box::new(|it| _ = it.insert("adamw.updates.bias".into(), tensor(&[], &[1.5]))),
        ),
        (
            "key \"step\": expected one whole number, found [-1.0]",
            Box::new(|it| _ = it.insert("step".into(), tensor(&[1], &[-1.0]))),
        ),
        (
            "key \"generator\": no state of a generator: [1.0, 2.0]",
            Box::new(|it| _ = it.insert("generator".into(), tensor(&[2], &[1.0, 2.0]))),
        ),
        (
            "key \"generator\": expected at most 16 numbers, found sizes [17]",
            Box::new(|it| _ = it.insert("generator".into(), tensor(&[17], &[0.0; 17]))),
        ),
    ];
    for (words, change) in &cases {
        changed(&path, change);
        let message = refusal::<_, f32>(AdamW::default(), &path);
        assert!(message.contains(words), "no {words:?} in {message:?}");
    }
    changed(&path, |_| {});
    let message = refusal::<_, f32>(Adam::default(), &path);
    assert!(message.contains("belongs to no parameter's state by the rule \"adam\""), "{message}");
    let message = refusal::<_, f32>(AdamW { amsgrad: true, ..AdamW::default() }, &path);
    assert!(message.contains("no key \"adamw.largest_square."), "{message}");
}

#[test]
fn a_generator_that_cannot_be_so_far_is_refused() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    for (at, number) in [(0, -1.0), (3, 0.5), (7, 4_294_967_296.0), (10, 16.0), (9, f64::NAN)] {
        changed(&path, |tensors| {
            let mut numbers = tensors["generator"].to::<f64>().to_vec();
            numbers[at] = number;
            _ = tensors.insert("generator".into(), tensor(&[11], &numbers));
        });
        let message = refusal::<_, f32>(AdamW::default(), &path);
        assert!(message.contains("no state of a generator"), "{message}");
    }
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    changed(&path, |_| {});
    let bytes = std::fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(97) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        refusal::<_, f32>(AdamW::default(), &path);
    }
}

#[test]
fn what_could_not_be_loaded_is_not_saved_and_the_older_file_stays() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    changed(&path, |_| {});
    let before = std::fs::read(&path).unwrap();
    let mut run = Run::<_, f32>::new(AdamW::default(), 1.0);
    run.train(0..2);
    run.pair.bias.set(Tensor::from([1.0, f32::NAN]));
    let save =
        |run: &Run<_, f32>| save_training(&path, &run.pair, &run.optimizer, 2, &run.generator);
    let error = save(&run).unwrap_err();
    assert!(error.to_string().contains("key \"model.bias\": expected finite numbers"), "{error}");
    // State of a parameter that is not there.
    let other = Other { pair: Small::new(1.0) };
    let error = save_training(&path, &other, &run.optimizer, 2, &run.generator).unwrap_err();
    assert!(error.to_string().contains("which is no parameter"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

struct Other {
    pair: Pair<C<3>, C<2>>,
}

impl Module for Other {
    shapeproof::parameters!(pair);
}
