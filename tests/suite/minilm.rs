//! The model of the example `sentence_similarity` against reference values. The model is not part
//! of the repository: `SHAPEPROOF_MINILM` names its folder, and without it the tests say that they
//! are skipped.

#[path = "../../examples/sentence_similarity/model.rs"]
pub(crate) mod model;

use std::path::{Path, PathBuf};

use shapeproof::{Batch, C, Infer, Key, NoMask, Seq, Tensor, dyn_size};

use self::model::{Bert, Config, encode, mean_of_tokens};
use crate::{
    fixtures::{Tensors, assert_close, reference},
    sentence_similarity::{
        model_folder,
        words::{self, TokenBatch},
    },
};

type MiniLm = Bert<C<384>, C<12>, C<1536>, C<30522>, C<512>>;

fn minilm(folder: &Path) -> MiniLm {
    let config = Config::read(&folder.join("config.json")).unwrap();
    MiniLm::load(&config, &folder.join("model.safetensors")).unwrap()
}

/// The reference's padded batch.
pub(crate) fn batch(reference: &Tensors) -> TokenBatch {
    let [batch, length] = *reference.dims("input_ids") else { panic!("two axes") };
    TokenBatch {
        ids: reference.usize("input_ids"),
        keep: reference.i64("attention_mask").iter().map(|it| *it == 1).collect(),
        batch,
        length,
        notices: Vec::new(),
    }
}

/// One sentence of the batch, without its padding.
fn single(all: &TokenBatch, at: usize) -> TokenBatch {
    let row = at * all.length..(at + 1) * all.length;
    let length = all.keep[row.clone()].iter().filter(|keep| **keep).count();
    let ids = all.ids[row][..length].to_vec();
    TokenBatch { ids, keep: vec![true; length], batch: 1, length, notices: Vec::new() }
}

/// Hidden states of the last layer, attention output of the first, and sentence vectors; the first
/// two at real tokens alone, one row each, as the reference has them.
fn run(model: &MiniLm, of: &TokenBatch) -> [Vec<f32>; 3] {
    dyn_size!(batch = of.batch, length = of.length);
    let shape = (Batch(batch), Seq(length));
    let tokens = Tensor::try_from_vec(shape, of.ids.clone()).unwrap();
    let keep = Tensor::try_from_vec(shape, of.keep.clone()).unwrap();
    let hidden = model.forward(&tokens, &keep).unwrap();
    let first = &model.encoder.iter().next().unwrap().attention;
    let mask = keep.rename(Seq, Key);
    let attention = first.forward(&model.embed(&tokens).unwrap(), mask, &mut Infer);
    let real = |states: Vec<f32>| -> Vec<f32> {
        let rows = states.chunks(384).zip(&of.keep).filter(|(_, keep)| **keep);
        rows.flat_map(|(row, _)| row.iter().copied()).collect()
    };
    let vectors = mean_of_tokens(&hidden, &keep).to_vec();
    [real(hidden.to_vec()), real(attention.to_vec()), vectors]
}

#[test]
fn hidden_states_and_sentence_vectors_are_those_of_the_reference() {
    let Some(folder) = model_folder("batch") else { return };
    let (_, reference) = reference("minilm");
    let [hidden, attention, vectors] = run(&minilm(&folder), &batch(&reference));
    let check = |name: &str, found: &[f32], atol: f64| {
        assert_close(name, found, &reference.f64(name), 0.0, atol);
    };
    check("last_hidden", &hidden, 2e-5);
    check("layer0.attention", &attention, 2e-5);
    check("sentence", &vectors, 1e-5);
}

#[test]
fn a_padded_batch_gives_what_each_sentence_gives_alone() {
    let Some(folder) = model_folder("batched against single") else { return };
    let ((_, reference), model) = (reference("minilm"), minilm(&folder));
    let all = batch(&reference);
    let [hidden, _, vectors] = run(&model, &all);
    let mut start = 0;
    for at in 0..all.batch {
        let one = single(&all, at);
        let [own, _, vector] = run(&model, &one);
        let wide =
            |values: &[f32]| -> Vec<f64> { values.iter().map(|it| f64::from(*it)).collect() };
        let mine = &hidden[start..][..own.len()];
        assert_close(&format!("hidden {at}"), mine, &wide(&own), 0.0, 1e-5);
        let mine = &vectors[at * 384..][..384];
        assert_close(&format!("vector {at}"), mine, &wide(&vector), 0.0, 1e-6);
        let name = format!("single.{at}.sentence");
        assert_close(&name, &vector, &reference.f64(&name), 0.0, 1e-5);
        let name = format!("single.{at}.last_hidden");
        if reference.has(&name) {
            assert_close(&name, &own, &reference.f64(&name), 0.0, 2e-5);
        }
        start += own.len();
    }
}

#[test]
fn the_first_layer_is_that_of_the_reference_step_by_step() {
    let Some(folder) = model_folder("first layer") else { return };
    let ((_, reference), model) = (reference("minilm"), minilm(&folder));
    let one = single(&batch(&reference), 5);
    dyn_size!(length = one.length);
    let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), one.ids).unwrap();
    let x = model.embed(&tokens).unwrap();
    let layer = model.encoder.iter().next().unwrap();
    let (y, weights) = layer.attention.forward_with_weights(&x, NoMask, &mut Infer);
    let normed = layer.attention_norm.forward(&x.add(&y), &mut Infer);
    for (name, found) in [
        ("embeddings.sentence5", x.to_vec()),
        ("layer0.probabilities.sentence5", weights.to_vec()),
        ("layer0.attention_norm.sentence5", normed.to_vec()),
    ] {
        assert_close(name, &found, &reference.f64(name), 0.0, 2e-5);
    }
}

/// A `config.json` of its own with one value changed, and where it is.
fn changed(key: &str, value: serde_json::Value) -> PathBuf {
    let mut config = serde_json::json!({
        "model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute",
        "type_vocab_size": 2, "hidden_size": 384, "num_attention_heads": 12,
        "intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512,
        "num_hidden_layers": 6, "layer_norm_eps": 1e-12
    });
    config[key] = value;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("config-{key}.json"));
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

#[test]
fn a_file_that_is_no_config_is_refused_in_one_line() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-config");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.json");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 24\n";
    let deep = "[".repeat(100_000);
    for bytes in [&b""[..], pointer, b"\xff\xfe", b"{\"model_type\":", b"null", deep.as_bytes()] {
        std::fs::write(&file, bytes).unwrap();
        let message = Config::read(&file).unwrap_err();
        assert!(message.starts_with(&format!("{}: ", file.display())), "{message}");
        assert!(!message.contains('\n') && message.len() < 500, "{message}");
    }
    for path in [&folder, &folder.join("absent.json")] {
        assert!(Config::read(path).unwrap_err().starts_with(&path.display().to_string()));
    }
}

#[test]
fn a_config_that_the_example_was_not_compiled_for_is_refused_in_one_line() {
    for (key, value, wanted) in [
        ("model_type", "gpt2".into(), "`model_type` is \"gpt2\", expected \"bert\""),
        ("hidden_act", "relu".into(), "`hidden_act` is \"relu\", expected \"gelu\""),
        ("type_vocab_size", 1.into(), "`type_vocab_size` is 1, expected 2"),
        ("hidden_size", (-384).into(), "`hidden_size` is -384, expected a size"),
        ("vocab_size", 1e30.into(), "`vocab_size` is 1e+30, expected a size"),
        ("layer_norm_eps", "1e-12".into(), "no `layer_norm_eps`"),
        (
            "num_hidden_layers",
            u64::MAX.into(),
            "`num_hidden_layers` is 18446744073709551615, expected a number from 0 to 1000",
        ),
    ] {
        let file = changed(key, value);
        let message = Config::read(&file).unwrap_err();
        assert_eq!(message, format!("{}: {wanted}", file.display()));
    }
    let batch =
        TokenBatch { ids: vec![101], keep: vec![true], batch: 1, length: 1, notices: Vec::new() };
    let config = Config::read(&changed("num_attention_heads", 6.into())).unwrap();
    let message = encode::<f32>(Path::new("folder"), &config, &batch).unwrap_err();
    assert!(message.starts_with(&Path::new("folder").join("config.json").display().to_string()));
    assert!(
        message.contains(
            "(width, heads, inner, words, positions) = (384, 6, 1536, 30522, 512) is not among \
             the compiled sizes [(384, 12, 1536, 30522, 512)]"
        ),
        "{message}"
    );
}
