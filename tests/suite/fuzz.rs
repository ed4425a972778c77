//! The targets of `fuzz/` on a stable compiler: valid inputs, damaged at random, from a fixed seed. Each
//! target gets a number of inputs, or, with `SHAPEPROOF_FUZZ_SECONDS`, as many as fit into that time.

use crate::generate::words;
use crate::io::damage::Numbers;
use crate::map_atoms::smiles;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[allow(unreachable_pub, reason = "public in the crate of cargo-fuzz")]
mod targets;

#[test]
fn safetensors_files() {
    let whole = ["io/model-00001-of-00002.safetensors", "trace/steps.safetensors"];
    run(targets::safetensors, 3_000, &whole.map(fixture));
}

#[test]
fn indices_of_shards() {
    let index = br#"{"metadata":{"total_size":36},"weight_map":{"weight":"a","bias":"b"}}"#;
    run(targets::shard_index, 3_000, &[index.to_vec()]);
}

#[test]
fn models_in_json() {
    let vocabulary =
        br#"{"smiles_regex":"(\\[[^\\]]+]|Br?|C|>>?|\\.)","vocab":["[CLS]","[SEP]","[UNK]","C"],
        "config":{"max_position_embeddings":512}}"#;
    let words = r#"{"tokenizer":{"specials":["<unk>","<eos>"],"alphabet":["a","b","▁"],"space":"▁",
        "merges":[["a","b"],["▁","ab"]]}}"#;
    run(targets::model_json, 2_000, &[vocabulary.to_vec(), words.as_bytes().to_vec()]);
}

#[test]
fn reactions() {
    let reactions = ["CCO.CC(=O)O>>CC(=O)OCC", "C[NH2+].O>[Pd]>CNBr", "c1ccccc1%12>>Cl.[13CH3-]"];
    run(targets::reaction, 5_000, &reactions.map(|it| it.as_bytes().to_vec()));
}

#[test]
fn texts() {
    let texts = ["Alice was beginning to", "  two\n\nlines ▁ and\u{301} 9", "\u{0}\u{feff}é😀"];
    run(targets::words, 2_000, &texts.map(|it| it.as_bytes().to_vec()));
}

/// Runs a target on inputs that are made of `seeds` by a few random changes each.
fn run(target: fn(&[u8]), inputs: usize, seeds: &[Vec<u8>]) {
    let seconds = std::env::var("SHAPEPROOF_FUZZ_SECONDS").ok().and_then(|it| it.parse().ok());
    let (begin, mut numbers) = (Instant::now(), Numbers(11));
    seeds.iter().for_each(|seed| target(seed));
    target(&[]);
    for count in 0.. {
        let goes_on = match seconds {
            Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
            None => count < inputs,
        };
        if !goes_on {
            if seconds.is_some() {
                println!("{count} inputs");
            }
            break;
        }
        let seed = &seeds[numbers.below(seeds.len())];
        let at = numbers.below(seed.len());
        target(&numbers.damaged(seed, at));
    }
}

fn fixture(name: &str) -> Vec<u8> {
    let path = crate::fixtures::shipped_dir().join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", Path::display(&path)))
}
