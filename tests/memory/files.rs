//! Files: a load takes the model and its largest tensor, a forged header nothing.

use shapeproof::{
    Bias, C, Checkpoint, Embedding, Float, Hidden, Linear, Model, Module, Parameter, Seq, Source,
    Tensor, TensorFile, Vocab, WeightLayout, parameters,
};
use std::fs::{self, File};
use std::path::Path;

use crate::{Turn, peak};

/// Buffers, names, error texts and the like.
const REST: usize = 512 << 10;

type Width = C<512>;

struct Net<E: Float> {
    table: Embedding<Vocab<C<2000>>, Model<Width>, E>,
    q: Linear<Model<Width>, Seq<Width>, Bias, E>,
    k: Linear<Model<Width>, Seq<Width>, Bias, E>,
    up: Linear<Model<Width>, Hidden<C<1024>>, Bias, E>,
    scale: Parameter<(), E>,
}

impl<E: Float> Module for Net<E> {
    shapeproof::parameters!(table, q, k, up, scale);
}

impl<E: Float> Net<E> {
    fn zeros() -> Self {
        Net {
            table: Embedding::zeros(),
            q: Linear::zeros(),
            k: Linear::zeros(),
            up: Linear::zeros(),
            scale: Parameter::zeros(),
        }
    }
}

/// The bytes of the largest parameter.
fn largest(module: &impl Module) -> usize {
    let bytes = parameters(module).into_iter().map(|(_, parameter)| {
        let width = if parameter.element() == "f64" { 8 } else { 4 };
        parameter.dims().iter().product::<usize>() * width
    });
    bytes.max().unwrap()
}

/// Loads twice, into a model that was just made and into the same one again.
fn loads_within_a_tensor<E: Float>(checkpoint: &Checkpoint, path: &Path) {
    let mut net = Net::<E>::zeros();
    let largest = largest(&net);
    for load in ["first", "second"] {
        let (loaded, peak) = peak(|| checkpoint.load(&mut net, path));
        loaded.unwrap();
        assert!(peak <= largest + REST, "{load} load: {peak} beside the model, {largest} allowed");
        assert!(peak >= largest / 2, "{load} load: {peak}, so the count is wrong");
    }
}

fn packed(name: &str) -> Source {
    let (map, rest) = name.split_once('.').unwrap_or((name, ""));
    match map {
        "q" => Source::key(format!("qk.{rest}")).part(0, 2),
        "k" => Source::key(format!("qk.{rest}")).part(1, 2),
        _ => Source::key(name),
    }
}

#[test]
fn loading_takes_the_model_and_its_largest_tensor() {
    let turn = Turn::new("load");
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        for packing in [false, true] {
            let checkpoint = Checkpoint::new(layout)
                .sources(move |name| if packing { packed(name) } else { Source::key(name) });
            checkpoint.save(&Net::<f32>::zeros(), turn.path("narrow")).unwrap();
            checkpoint.save(&Net::<f64>::zeros(), turn.path("wide")).unwrap();
            for path in [turn.path("narrow"), turn.path("wide")] {
                loads_within_a_tensor::<f32>(&checkpoint, &path);
                loads_within_a_tensor::<f64>(&checkpoint, &path);
            }
        }
    }
}

struct Pair(Linear<Model<Width>, Seq<Width>>, Linear<Model<Width>, Seq<Width>>);
impl Module for Pair {
    fn visit<'a>(&'a self, visitor: &mut dyn shapeproof::Visitor<'a>) {
        shapeproof::Field::visit_as(&self.0, "q", visitor);
        shapeproof::Field::visit_as(&self.1, "k", visitor);
    }
    fn visit_mut<'a>(&'a mut self, visitor: &mut dyn shapeproof::VisitorMut<'a>) {
        shapeproof::Field::visit_mut_as(&mut self.0, "q", visitor);
        shapeproof::Field::visit_mut_as(&mut self.1, "k", visitor);
    }
}

#[test]
fn a_packed_tensor_is_loaded_part_by_part() {
    let turn = Turn::new("packed");
    let mut pair = Pair(Linear::zeros(), Linear::zeros());
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let checkpoint = Checkpoint::new(layout).sources(packed);
        checkpoint.save(&pair, turn.path("pair")).unwrap();
        let (loaded, peak) = peak(|| checkpoint.load(&mut pair, turn.path("pair")));
        loaded.unwrap();
        let largest = largest(&pair);
        assert!(peak <= largest + REST, "{peak} beside the model, a part takes {largest}");
    }
}

#[test]
fn a_refused_load_takes_no_tensor() {
    let turn = Turn::new("refused");
    let checkpoint = Checkpoint::new(WeightLayout::OutIn);
    let mut net = Net::<f32>::zeros();
    net.scale.set(Tensor::scalar(f32::NAN));
    checkpoint.save(&net, turn.path("net")).unwrap();
    let (loaded, peak) = peak(|| checkpoint.load(&mut net, turn.path("net")));
    assert!(loaded.unwrap_err().to_string().contains("NaN"));
    assert!(peak <= REST, "{peak}");
}

#[test]
fn saving_takes_one_tensor_at_most() {
    let turn = Turn::new("save");
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let checkpoint = Checkpoint::new(layout).sources(packed);
        let net = Net::<f32>::zeros();
        let (saved, peak) = peak(|| checkpoint.save(&net, turn.path("net")));
        saved.unwrap();
        assert!(peak <= largest(&net) + REST, "{peak}");
    }
}

#[test]
fn reading_a_tensor_takes_that_tensor() {
    let turn = Turn::new("read");
    let net = Net::<f32>::zeros();
    Checkpoint::new(WeightLayout::OutIn).save(&net, turn.path("net")).unwrap();
    let mut file = TensorFile::open(turn.path("net")).unwrap();
    let (tensor, peak) = peak(|| file.read("table.weight").unwrap());
    assert_eq!(tensor.dims(), [2000, 512]);
    assert!(peak <= largest(&net) + REST, "{peak}");
}

/// Opens a file of this header, made `length` bytes long, and returns the most memory it took.
fn opening(turn: &Turn, claimed: u64, text: &str, length: u64) -> usize {
    let path = turn.path("forged");
    fs::write(&path, [&claimed.to_le_bytes(), text.as_bytes()].concat()).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
    let mut table = Embedding::<Vocab<C<2>>, Model<C<3>>>::zeros();
    let checkpoint = Checkpoint::new(WeightLayout::OutIn);
    let (loaded, peak) = peak(|| checkpoint.load(&mut table, &path));
    assert!(loaded.unwrap_err().is_file());
    peak
}

#[test]
fn a_forged_header_takes_no_memory() {
    let turn = Turn::new("forged");
    for claimed in [33, 1 << 20, 99_999_999, 100_000_001, u64::MAX - 7, u64::MAX] {
        let peak = opening(&turn, claimed, "{}", 32);
        assert!(peak <= REST, "{peak} for a header of {claimed}");
    }
    for claimed in [100_000_001, 1 << 32, u64::MAX] {
        let peak = opening(&turn, claimed, "{}", 1 << 33);
        assert!(peak <= REST, "{peak} for a header of {claimed} in a long file");
    }
    for shape in ["[4611686018427387904]", "[0,18446744073709551615,9]", "[1000000,1000000]"] {
        let text = format!(
            r#"{{"weight":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4000000000000]}}}}"#
        );
        let peak = opening(&turn, text.len() as u64, &text, 8 + text.len() as u64);
        assert!(peak <= REST, "{peak} for sizes {shape}");
    }
}

#[test]
fn a_long_key_is_not_compared_with_a_missing_one() {
    let turn = Turn::new("key");
    let key = "k".repeat(4 << 20);
    let text = format!(r#"{{"{key}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}}}"#);
    let peak = opening(&turn, text.len() as u64, &text, 8 + text.len() as u64);
    assert!(peak <= 8 * text.len(), "{peak} for a header of {}", text.len());
}
