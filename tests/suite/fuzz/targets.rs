//! A function for each thing that reads data from outside: whatever the bytes are, it returns, and a refusal is
//! one line for a person to read.

use super::smiles::Vocabulary;
use super::words::Words;
use shapeproof::{C, Checkpoint, Linear, Model, TensorFile, WeightLayout};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A safetensors file.
pub fn safetensors(bytes: &[u8]) {
    let scratch = Scratch::of("safetensors", bytes);
    match TensorFile::open(&scratch.0) {
        Err(error) => one_line(&error.to_string()),
        Ok(mut file) => {
            let keys: Vec<String> = file.keys().map(str::to_owned).collect();
            for key in keys {
                if let Err(error) = file.read(&key) {
                    one_line(&error.to_string());
                }
                if let Err(error) = file.read_integers(&key) {
                    one_line(&error.to_string());
                }
            }
        }
    }
    load(&scratch.0);
}

/// The index of a sharded file; its shards are not there.
pub fn shard_index(bytes: &[u8]) {
    let scratch = Scratch::of("index.json", bytes);
    if let Err(error) = TensorFile::open(&scratch.0) {
        one_line(&error.to_string());
    }
    load(&scratch.0);
}

/// What stands in JSON beside the weights of the models of the examples.
pub fn model_json(bytes: &[u8]) {
    if let Ok(json) = serde_json::from_slice(bytes) {
        if let Err(error) = Vocabulary::from_json(&json) {
            one_line(&error);
        }
        if let Err(error) = Words::from_json(&json) {
            one_line(&error);
        }
    }
}

/// A reaction in SMILES.
pub fn reaction(bytes: &[u8]) {
    static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
        Vocabulary::from_json(&model("rxnmapper_albert")).expect("the model's own file")
    });
    match VOCABULARY.parse(&String::from_utf8_lossy(bytes)) {
        Err(error) => one_line(&error),
        Ok(reaction) => {
            let lengths = [reaction.ids.len(), reaction.elements.len()];
            assert_eq!(lengths, [reaction.tokens.len(); 2], "{:?}", reaction.text);
            assert!(reaction.arrow < reaction.tokens.len());
        }
    }
}

/// A text for the language model; what its tokens read like has the same tokens.
pub fn words(bytes: &[u8]) {
    static WORDS: LazyLock<Words> =
        LazyLock::new(|| Words::from_json(&model("glassllm_en")).expect("the model's own file"));
    match WORDS.encode(&String::from_utf8_lossy(bytes)) {
        Err(error) => one_line(&error),
        Ok(tokens) => {
            for &token in &tokens {
                assert!(token < WORDS.count());
                assert!(WORDS.is_text_or_end(token), "{:?}", WORDS.text(token));
            }
            let text: String = tokens.iter().map(|&token| WORDS.text(token)).collect();
            assert_eq!(WORDS.encode(&text), Ok(tokens), "{text:?}");
        }
    }
}

/// A load that is refused leaves the model as it was.
fn load(path: &Path) {
    let mut layer = Linear::<Model<C<2>>, Model<C<3>>>::zeros();
    if let Err(error) = Checkpoint::new(WeightLayout::OutIn).load(&mut layer, path) {
        one_line(&error.to_string());
        assert!(layer.weight.value().to_vec().iter().all(|&x| x == 0.0), "changed by: {error}");
    }
}

fn one_line(error: &str) {
    assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    assert!(error.chars().count() < 2_000, "{error:?}");
}

/// A file of one call's own, gone when the call ends.
struct Scratch(PathBuf);

impl Scratch {
    fn of(extension: &str, bytes: &[u8]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("shapeproof-fuzz-{process}-{count}.{extension}");
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).expect("scratch can be written");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn model(name: &str) -> serde_json::Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The crate of cargo-fuzz stands one folder below.
    let root = [folder, &folder.join("..")].map(|it| it.join("examples/models")).into_iter();
    let file = root.map(|it| it.join(name).with_extension("json")).find(|it| it.is_file());
    let text = fs::read(file.expect("the repository has the models")).expect("it can be read");
    serde_json::from_slice(&text).expect("it is JSON")
}
