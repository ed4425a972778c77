//! Finding the first step at which two implementations part: what a trace keeps, against the steps of a
//! PyTorch encoder, and what it says of numbers that are read in another way.

use crate::fixtures::shipped_dir;
use crate::io::Folder;
use crate::torch::tolerance;
use shapeproof::{
    Activation, AnyTensor, Batch, Bias, C, Checkpoint, Comparison, DecoderLayer, Embedding,
    Encoder, EncoderConfig, EncoderLayer, Float, FloatTensor, GatedFeedForward, Generator,
    GroupedAttention, HeadDim, Heads, Infer, KvHeads, Linear, Mode, Model, Module,
    MultiHeadAttention, NoMask, Outcome, RmsNorm, Seq, Source, Tensor, TensorFile, Tolerance,
    Trace, Vocab, WeightLayout, bf16, copy_parameters, f16, parameters, save_tensors,
};
use std::path::Path;

type TorchEncoder = Encoder<C<8>, C<2>, C<16>>;
type Input = Tensor<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>;

fn torch_encoder() -> (TorchEncoder, Input) {
    let layers = (0..2).map(|_| EncoderLayer::zeros(EncoderConfig::new(1e-5))).collect();
    let mut encoder = Encoder::new(layers);
    Checkpoint::new(WeightLayout::OutIn)
        .sources(|name| {
            let key = torch_name(name);
            let packed = |index| {
                let key = key.replace("q_proj.", "in_proj_").replace("k_proj.", "in_proj_");
                Source::key(key.replace("v_proj.", "in_proj_")).part(index, 3)
            };
            match name.rsplit('.').nth(1) {
                Some("q_proj") => packed(0),
                Some("k_proj") => packed(1),
                Some("v_proj") => packed(2),
                _ => Source::key(key),
            }
        })
        .load(&mut encoder, shipped_dir().join("trace/encoder.safetensors"))
        .unwrap();
    let x = TensorFile::open(shipped_dir().join("trace/input.safetensors")).unwrap().read("x");
    (encoder, x.unwrap().to().try_typed((Batch(C), Seq(C), Model(C))).unwrap())
}

fn torch_name(name: &str) -> String {
    [
        ("attention_norm", "norm1"),
        ("feed_forward_norm", "norm2"),
        ("feed_forward.up", "linear1"),
        ("feed_forward.down", "linear2"),
        ("attention.", "self_attn."),
    ]
    .iter()
    .fold(name.to_owned(), |name, (ours, theirs)| name.replace(ours, theirs))
}

/// The output of PyTorch's attention is the module's.
fn torch_step(name: &str) -> String {
    torch_name(name).replace("self_attn.out_proj", "self_attn")
}

/// Everything that a forward pass of the encoder of PyTorch gives.
fn traced() -> Trace {
    let (encoder, x) = torch_encoder();
    let mut trace = Trace::of(&encoder);
    encoder.forward(&x, NoMask, &mut trace);
    trace
}

fn steps_of(trace: &Trace) -> Vec<(String, FloatTensor)> {
    let all = trace.names().map(|name| (name.to_owned(), trace.find(name).unwrap().clone()));
    all.collect()
}

/// What a comparison says where the step `name` of the file is as `change` makes it.
fn with_changed(
    name: &str,
    change: impl Fn(Vec<usize>, Vec<f64>) -> (Vec<usize>, Vec<f64>),
) -> Comparison {
    let (folder, trace) = (Folder::new(), traced());
    let mut steps = steps_of(&trace);
    let step = &mut steps.iter_mut().find(|step| step.0 == name).unwrap().1;
    let (dims, data) = change(step.dims().to_vec(), step.to::<f64>().to_vec());
    *step = FloatTensor::new(AnyTensor::try_from_vec(&dims, data).unwrap());
    let path = folder.path("steps");
    save_tensors(&path, steps).unwrap();
    trace.compare(&path, str::to_owned, Tolerance::default()).unwrap()
}

fn readings(comparison: &Comparison) -> &[String] {
    &comparison.first_difference().unwrap().1.readings
}

#[test]
fn the_steps_of_an_encoder_agree_with_pytorchs() {
    let trace = traced();
    let file = shipped_dir().join("trace/steps.safetensors");
    let found = trace.compare(file, torch_step, Tolerance::default()).unwrap();
    assert_eq!(found.first_difference(), None, "{found}");
    let agree = found.steps().iter().filter(|step| matches!(step.outcome, Outcome::Agrees(_)));
    assert_eq!((agree.count(), found.steps().len()), (16, 16), "{found}");
    assert!(found.to_string().ends_with("no step differs"));
}

#[test]
fn the_steps_of_an_encoder_of_halves_are_near_pytorchs() {
    fn check<E: Float>() {
        let (encoder, x) = torch_encoder();
        let layers = (0..2).map(|_| EncoderLayer::zeros(EncoderConfig::new(1e-5))).collect();
        let mut half = Encoder::<C<8>, C<2>, C<16>, Bias, E>::new(layers);
        copy_parameters(&encoder, &mut half).unwrap();
        let mut trace = Trace::of(&half);
        half.forward(&x.to::<E>(), NoMask, &mut trace);
        let (relative, absolute) = tolerance::<E>();
        let file = shipped_dir().join("trace/steps.safetensors");
        let allowed = Tolerance { relative, absolute };
        let found = trace.compare(file, torch_step, allowed).unwrap();
        assert_eq!(found.first_difference(), None, "{found}");
        let agree = found.steps().iter().filter(|step| matches!(step.outcome, Outcome::Agrees(_)));
        assert_eq!(agree.count(), 16, "{found}");
    }
    check::<f16>();
    check::<bf16>();
}

#[test]
fn steps_come_in_the_order_in_which_they_are_computed() {
    let layer = ["attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.out_proj"];
    let rest = ["attention_norm", "feed_forward.up", "feed_forward.down", "feed_forward_norm"];
    let names: Vec<_> = (0..2)
        .flat_map(|at| layer.iter().chain(&rest).map(move |name| format!("layers.{at}.{name}")))
        .collect();
    assert_eq!(traced().names().collect::<Vec<_>>(), names);
}

#[test]
fn a_trace_gives_what_inference_gives() {
    let (encoder, x) = torch_encoder();
    let (traced, inferred) = (
        encoder.forward(&x, NoMask, &mut Trace::of(&encoder)),
        encoder.forward(&x, NoMask, &mut Infer),
    );
    let largest = traced.sub(&inferred).abs().to_vec().into_iter().fold(0.0, f32::max);
    assert!(largest < 1e-5, "{largest}");
}

#[test]
fn each_layer_with_a_weight_reports() {
    let mut generator = Generator::seeded(4);
    let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);

    let grouped = GroupedAttention::<C<8>, C<4>, C<3>, KvHeads<C<2>>>::xavier(&mut generator);
    let mut trace = Trace::of(&grouped);
    grouped.forward(&x, NoMask, &mut trace);
    assert_eq!(trace.names().collect::<Vec<_>>(), ["q_proj", "k_proj", "v_proj", "out_proj"]);
    assert_eq!(trace.find("k_proj").unwrap().dims(), [1, 3, 6]);

    let gated = GatedFeedForward::<C<8>, C<5>>::xavier(Activation::Silu, &mut generator);
    let mut trace = Trace::of(&gated);
    let y = gated.forward(&x, &mut trace);
    assert_eq!(trace.names().collect::<Vec<_>>(), ["gate", "up", "down"]);
    let (gate, up) = (trace.find("gate").unwrap(), trace.find("up").unwrap());
    let shape = (Batch(C::<1>), Seq(C::<3>), shapeproof::Hidden(C::<5>));
    let [gate, up] = [gate, up].map(|it| it.to::<f32>().try_typed(shape).unwrap());
    let by_steps = gated.down.forward(&gate.silu().mul(&up), &mut Infer);
    assert!(by_steps.sub(&y).abs().to_vec().into_iter().all(|apart| apart < 1e-6));

    let norm = RmsNorm::<Model<C<8>>>::new(1e-6);
    let mut trace = Trace::of(&norm);
    norm.forward(&x, &mut trace);
    assert_eq!(trace.names().collect::<Vec<_>>(), ["output"]);

    let words = Embedding::<Vocab<C<7>>, Model<C<8>>>::normal(1.0, &mut generator);
    let mut trace = Trace::of(&words);
    let tokens = Tensor::<(Seq<C<2>>,), usize>::from([6, 0]);
    words.try_forward(&tokens, &mut trace).unwrap();
    words.try_forward(&tokens, &mut trace).unwrap();
    words.unembed(&x, &mut trace);
    assert_eq!(trace.names().collect::<Vec<_>>(), ["output", "output#2", "output.unembed"]);
    assert_eq!(trace.find("output.unembed").unwrap().dims(), [1, 3, 7]);

    let cross = MultiHeadAttention::<C<8>, C<2>>::xavier(&mut generator);
    let mut trace = Trace::of(&cross);
    cross.cross(&x, &x, &x, NoMask, &mut trace);
    let (_, weights) = cross.forward_with_weights(&x, NoMask, &mut trace);
    trace.record("weights", &weights);
    assert_eq!(trace.names().count(), 9);
    assert_eq!(trace.names().last(), Some("weights"));
}

#[test]
fn a_decoder_reports_every_weight_that_its_forward_uses() {
    let mut generator = Generator::seeded(5);
    let config = shapeproof::DecoderConfig::new(1e-5);
    let layer = DecoderLayer::<C<8>, C<2>, C<16>>::xavier(config, &mut generator);
    let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
    let mut trace = Trace::of(&layer);
    layer.forward(&x, &x, NoMask, NoMask, &mut trace);
    let mut layers: Vec<_> = parameters(&layer)
        .into_iter()
        .map(|(name, _)| name.rsplit_once('.').unwrap().0.to_owned())
        .collect();
    layers.dedup();
    let mut names: Vec<_> = trace.names().map(str::to_owned).collect();
    layers.sort();
    names.sort();
    assert_eq!(names, layers);
}

#[test]
fn no_two_steps_have_one_name() {
    let mut generator = Generator::seeded(7);
    let layer = EncoderLayer::<C<8>, C<2>, C<16>>::xavier(EncoderConfig::new(1e-5), &mut generator);
    let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);

    // Two layers of the same parameters are one path, and run twice.
    let shared = Encoder::shared(layer, 2);
    let mut trace = Trace::of(&shared);
    shared.forward(&x, NoMask, &mut trace);
    let ups: Vec<_> = trace.names().filter(|name| name.contains(".up")).collect();
    assert_eq!(ups, ["layers.0.feed_forward.up", "layers.0.feed_forward.up#2"]);

    // Names by hand, also where they look like those with numbers.
    let mut trace = Trace::of(&shared);
    for name in ["x#2", "x", "x", "x#2", "x", "xy", "x#"] {
        trace.record(name, &x);
    }
    let names: Vec<_> = trace.names().collect();
    assert_eq!(names, ["x#2", "x", "x#3", "x#2#2", "x#4", "xy", "x#"]);
    trace.save(Folder::new().path("steps")).unwrap();
}

#[test]
fn the_layers_of_another_module_are_not_kept() {
    let mut generator = Generator::seeded(6);
    let [one, other] = [(); 2].map(|()| Linear::<Model<C<2>>, Model<C<3>>>::xavier(&mut generator));
    let mut trace = Trace::of(&one);
    other.forward(&Tensor::<(Batch<C<1>>, _)>::ones(), &mut trace);
    assert_eq!(trace.names().count(), 0);
    assert_eq!(Mode::read(&mut trace, &one.weight), Infer.read(&one.weight));
}

#[test]
fn what_is_saved_agrees_with_itself() {
    let (folder, trace) = (Folder::new(), traced());
    let path = folder.path("steps");
    trace.save(&path).unwrap();
    let exact = Tolerance { absolute: 0.0, relative: 0.0 };
    let found = trace.compare(&path, str::to_owned, exact).unwrap();
    assert!(found.steps().iter().all(|step| step.outcome == Outcome::Agrees(0.0)), "{found}");
}

#[test]
fn the_first_difference_is_told_by_how_much() {
    let found = with_changed("layers.1.attention_norm", |dims, mut data| {
        data[43] += 0.5;
        data[7] -= 0.25;
        (dims, data)
    });
    let (step, difference) = found.first_difference().unwrap();
    assert_eq!(step.name, "layers.1.attention_norm");
    let (count, largest, place) = difference.numbers.clone().unwrap();
    assert_eq!((count, place), (2, vec![1, 0, 3]));
    assert!((largest - 0.5).abs() < 1e-6);
    assert_eq!(readings(&found), [] as [&str; 0]);
    let text = found.to_string();
    assert!(text.contains("DIFFERS  layers.1.attention_norm"), "{text}");
    assert!(text.contains("no other reading of theirs agrees"), "{text}");
    assert!(text.ends_with("3 steps behind it"), "{text}");
}

#[test]
fn exchanged_axes_are_recognised() {
    let found = with_changed("layers.0.feed_forward.up", |dims, data| {
        let [b, s, f] = dims[..] else { panic!("{dims:?}") };
        let at = |i: usize| data[((i / f) % b) * s * f + (i / f / b) * f + i % f];
        (vec![s, b, f], (0..data.len()).map(at).collect())
    });
    assert_eq!(readings(&found), ["with axes 0 and 1 exchanged"]);
}

#[test]
fn heads_in_another_order_are_recognised() {
    let found = with_changed("layers.0.attention.q_proj", |dims, data| {
        (dims, data.chunks(8).flat_map(|row| [&row[4..], &row[..4]].concat()).collect())
    });
    assert!(readings(&found).contains(&"with the 2 heads of width 4 in the order [1, 0]".into()));
}

#[test]
fn interleaved_heads_are_recognised() {
    let found = with_changed("layers.0.attention.q_proj", |dims, data| {
        let row = |row: &[f64]| (0..8).map(|i| row[(i % 2) * 4 + i / 2]).collect::<Vec<_>>();
        (dims, data.chunks(8).flat_map(row).collect())
    });
    assert_eq!(readings(&found)[1..], ["read as 4 by 2 in the place of 2 by 4"]);
}

#[test]
fn a_shift_by_a_position_is_recognised() {
    let found = with_changed("layers.0.attention.out_proj", |dims, data| {
        let row = |at: usize, i: usize| match i {
            0 => vec![0.0; 8],
            i => data[(at * 5 + i - 1) * 8..][..8].to_vec(),
        };
        (dims, (0..2).flat_map(|at| (0..5).flat_map(move |i| row(at, i))).collect())
    });
    assert_eq!(readings(&found), ["shifted along axis 1: our entry i is their entry i +1"]);
}

#[test]
fn a_factor_and_a_reshape_are_recognised() {
    let scaled = with_changed("layers.0.attention.k_proj", |dims, data| {
        (dims, data.iter().map(|x| x * 2.0).collect())
    });
    assert_eq!(readings(&scaled), ["times 0.500000"]);
    let reshaped = with_changed("layers.0.attention.k_proj", |_, data| (vec![10, 8], data));
    assert_eq!(readings(&reshaped), ["number by number: [10, 8] is a reshape"]);
    let other = with_changed("layers.0.attention.k_proj", |_, data| (vec![8], data[..8].to_vec()));
    assert_eq!(readings(&other), [] as [&str; 0]);
    assert!(other.to_string().contains("ours has sizes [2, 5, 8], theirs [8]"), "{other}");
}

#[test]
fn nan_on_one_side_differs_and_on_both_agrees() {
    let found = with_changed("layers.0.attention.v_proj", |dims, mut data| {
        data[1] = f64::NAN;
        (dims, data)
    });
    let (_, difference) = found.first_difference().unwrap();
    assert_eq!(difference.numbers, Some((1, f64::INFINITY, vec![0, 0, 1])));

    let folder = Folder::new();
    let x = Tensor::<(Heads<C<1>>, HeadDim<C<2>>)>::from([[f32::NAN, 1.0]]);
    let mut trace = Trace::of(&RmsNorm::<Model<C<8>>>::new(1e-6) as &dyn Module);
    trace.record("x", &x);
    trace.save(folder.path("x")).unwrap();
    let found = trace.compare(folder.path("x"), str::to_owned, Tolerance::default()).unwrap();
    assert_eq!(found.first_difference(), None);
}

#[test]
fn a_file_without_any_of_the_steps_is_refused() {
    let file = shipped_dir().join("trace/steps.safetensors");
    let error = traced().compare(&file, str::to_owned, Tolerance::default()).unwrap_err();
    assert!(error.is_file());
    assert!(error.to_string().contains("the nearest are"), "{error}");
    let missing = traced().compare("nowhere", str::to_owned, Tolerance::default()).unwrap_err();
    assert!(missing.is_file());
}

#[test]
fn the_guide_has_the_script_that_made_the_steps() {
    let read = |name| std::fs::read_to_string(Path::new("docs").join(name)).unwrap();
    assert!(read("wrong_step.md").contains(&read("dump_steps.py")));
}
