//! Thousands of damaged files: each is loaded or refused, and a refusal changes nothing.

use super::{Folder, bits, fill, in_out, out_in};
use shapeproof::{C, Checkpoint, Encoder, EncoderConfig, EncoderLayer, Linear, Model, Source};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        // What a header is made of is likelier to get past the first check.
        let likely = b"\"{}[]:,0123456789-FBI\\ \x00\xff";
        match self.below(3) {
            0 => self.next().to_le_bytes()[0],
            _ => likely[self.below(likely.len())],
        }
    }

    /// The file with a few bytes changed, inserted, removed, repeated or exchanged.
    pub(crate) fn damaged(&mut self, content: &[u8], at: usize) -> Vec<u8> {
        let mut content = content.to_vec();
        let mut at = at;
        for _ in 0..=self.below(3) {
            let len = self.below(9).min(content.len() - at);
            match self.below(6) {
                0 => content[at] ^= 1 << self.below(8),
                1 => content[at] = self.byte(),
                2 => content.insert(at, self.byte()),
                3 => drop(content.drain(at..at + len)),
                4 => {
                    let copy = content[at..at + len].to_vec();
                    content.splice(at..at, copy);
                }
                _ => content.truncate(at),
            }
            if content.is_empty() {
                break;
            }
            at = self.below(content.len());
        }
        content
    }
}

/// Cutting a file to nothing first would wait for the disk each time.
fn overwrite(path: &Path, content: &[u8]) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.write_all(content).unwrap();
    file.set_len(content.len() as u64).unwrap();
}

/// Damages the file at `damaged` at every byte, several times, and opens it or its index.
fn damage<M: shapeproof::Module>(
    checkpoint: &Checkpoint,
    module: &mut M,
    opened: &Path,
    damaged: &Path,
    times: usize,
) {
    let whole = fs::read(damaged).unwrap();
    let mut numbers = Numbers(7);
    let mut refusals = 0;
    fill(module, 9);
    let mut before = bits(module);
    for at in (0..whole.len()).flat_map(|at| std::iter::repeat_n(at, times)) {
        let content = numbers.damaged(&whole, at);
        overwrite(damaged, &content);
        match checkpoint.load(module, opened) {
            Ok(_) => before = bits(module),
            Err(error) => {
                refusals += 1;
                assert!(error.is_file(), "{error}");
                assert_eq!(before, bits(module), "changed by {error}, from {content:?}");
            }
        }
    }
    fs::write(damaged, whole).unwrap();
    checkpoint.load(module, opened).unwrap();
    assert!(refusals > times, "{refusals}");
}

#[test]
fn a_damaged_file_is_loaded_or_refused() {
    let folder = Folder::new();
    let path = folder.path("model");
    let packed = |name: &str| match name {
        "weight" => Source::key("packed").part(1, 2),
        name => Source::key(name),
    };
    let numbers = [0.5; 24];
    let tensors =
        [("packed", super::tensor(&[3, 8], &numbers)), ("bias", super::tensor(&[4], &[1.0; 4]))];
    shapeproof::save_tensors(&path, tensors).unwrap();
    let mut map = Linear::<Model<C<3>>, Model<C<4>>>::zeros();
    let checkpoint = in_out().sources(packed).allow_extra(|key| key == "packed");
    damage(&checkpoint, &mut map, &path, &path, 12);
}

#[test]
fn a_damaged_model_is_loaded_or_refused() {
    let folder = Folder::new();
    let path = folder.path("model");
    let layer = || EncoderLayer::<C<2>, C<1>, C<2>>::zeros(EncoderConfig::new(1e-5));
    let mut encoder = Encoder::shared(layer(), 2);
    out_in().save(&encoder, &path).unwrap();
    damage(&out_in().allow_missing(|_| true).allow_extra(|_| true), &mut encoder, &path, &path, 2);
    damage(&out_in(), &mut encoder, &path, &path, 1);
}

#[test]
fn a_damaged_index_is_loaded_or_refused() {
    let folder = Folder::new();
    fs::copy(
        crate::fixtures::shipped_dir().join("io/model-00001-of-00002.safetensors"),
        folder.path("a"),
    )
    .unwrap();
    fs::copy(
        crate::fixtures::shipped_dir().join("io/model-00002-of-00002.safetensors"),
        folder.path("b"),
    )
    .unwrap();
    let index = r#"{"metadata":{"total_size":36},"weight_map":{"weight":"a","bias":"b"}}"#;
    let path = folder.write("model.index.json", index);
    let mut map = Linear::<Model<C<2>>, Model<C<3>>>::zeros();
    damage(&out_in(), &mut map, &path, &path, 40);
    damage(&out_in(), &mut map, &path, &folder.path("a"), 10);
}
