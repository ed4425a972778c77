//! Models in several files, and indexes that are not what they claim.

use super::{Folder, assert_says, out_in, refusal, tensor};
use shapeproof::{C, Hidden, Linear, Model, TensorFile, save_tensors};
use std::fs;

type Map = Linear<Model<C<2>>, Hidden<C<3>>>;

/// Two shards that together have a map's parameters.
fn shards() -> Folder {
    let folder = Folder::new();
    save_tensors(folder.path("a"), [("weight", tensor(&[3, 2], &[1.0; 6]))]).unwrap();
    save_tensors(folder.path("b"), [("bias", tensor(&[3], &[2.0; 3]))]).unwrap();
    folder
}

/// The refusal of an index of this text beside the shards.
fn refused_in(folder: &Folder, text: impl AsRef<[u8]>) -> String {
    let path = folder.write("model.safetensors.index.json", text);
    refusal(&out_in(), &mut Map::zeros(), &path)
}

fn refused(text: impl AsRef<[u8]>) -> String {
    refused_in(&shards(), text)
}

fn index(map: &str) -> String {
    format!(r#"{{"metadata":{{"total_size":36}},"weight_map":{{{map}}}}}"#)
}

#[test]
fn a_model_is_loaded_from_its_shards() {
    let folder = shards();
    let path = folder.write("model.index.json", index(r#""weight":"a","bias":"b""#));
    let mut map = Map::zeros();
    out_in().load(&mut map, &path).unwrap();
    assert_eq!(map.weight.value().to_vec(), [1.0; 6]);
    assert_eq!(map.bias.value().to_vec(), [2.0; 3]);
    let file = TensorFile::open(&path).unwrap();
    assert_eq!(file.keys().collect::<Vec<_>>(), ["bias", "weight"]);
    assert_eq!(file.path(), path);
}

#[test]
fn a_missing_shard_is_named() {
    let folder = shards();
    fs::remove_file(folder.path("b")).unwrap();
    let path = folder.write("model.index.json", index(r#""weight":"a","bias":"b""#));
    let mut map = Map::zeros();
    let error = out_in().load(&mut map, &path).unwrap_err();
    assert_says(&super::message(&error, &folder.path("b")), &["cannot be opened"]);
    assert_eq!(map.weight.value().to_vec(), [0.0; 6]);
}

#[test]
fn a_fault_in_a_shard_is_told_with_the_shards_path() {
    let folder = shards();
    let path = folder.write("model.index.json", index(r#""weight":"a","bias":"b""#));
    for (bias, word) in [
        (tensor(&[3], &[f32::NAN; 3]), "found NaN at 0"),
        (tensor(&[4], &[1.0; 4]), "expected sizes [3] for (Hidden 3), found [4]"),
    ] {
        save_tensors(folder.path("b"), [("bias", bias)]).unwrap();
        let error = out_in().load(&mut Map::zeros(), &path).unwrap_err();
        assert_says(&super::message(&error, &folder.path("b")), &["key \"bias\"", word]);
    }
}

#[test]
fn a_key_that_is_not_in_its_shard_is_named() {
    let words = ["key \"bias\": expected in \"a\", which does not have it"];
    assert_says(&refused(index(r#""weight":"a","bias":"a""#)), &words);
    let swapped = refused(index(r#""weight":"b","bias":"a""#));
    assert_says(&swapped, &["key \"weight\": expected in \"b\", which does not have it"]);
}

#[test]
fn a_key_in_two_shards_is_named() {
    let folder = shards();
    let tensors = [("bias", tensor(&[3], &[2.0; 3])), ("weight", tensor(&[3, 2], &[9.0; 6]))];
    save_tensors(folder.path("b"), tensors).unwrap();
    let path = folder.write("model.index.json", index(r#""weight":"a","bias":"b""#));
    let error = out_in().load(&mut Map::zeros(), &path).unwrap_err();
    let other = format!("{} has it too", folder.path("a").display());
    assert_says(&super::message(&error, &folder.path("b")), &["key \"weight\": ", &other]);
    let message = refused(index(r#""weight":"a","bias":"b","weight":"b""#));
    assert_says(&message, &["the name \"weight\" is given twice"]);
}

#[test]
fn a_tensor_that_the_index_leaves_out_is_extra() {
    let folder = shards();
    let tensors = [("bias", tensor(&[3], &[2.0; 3])), ("more", tensor(&[1], &[9.0]))];
    save_tensors(folder.path("b"), tensors).unwrap();
    let path = folder.write("model.index.json", index(r#""weight":"a","bias":"b""#));
    let error = out_in().load(&mut Map::zeros(), &path).unwrap_err();
    let message = super::message(&error, &folder.path("b"));
    assert_eq!(message, "key \"more\": belongs to no parameter; `allow_extra` lets a key be");
    let loaded = out_in().allow_extra(|_| true).load(&mut Map::zeros(), &path).unwrap();
    assert_eq!(loaded.extra, ["more"]);
}

#[test]
fn a_shard_is_a_file_beside_the_index() {
    let outside = shards();
    let absolute = outside.path("a").to_str().unwrap().to_owned();
    let name = outside.0.file_name().unwrap().to_str().unwrap();
    let beside = format!("../{name}/a");
    for shard in ["../a", "..", ".", "", "/", "x/a", "./a", "a/", "a/.", &absolute, &beside] {
        let message = refused(index(&format!(r#""weight":"{shard}""#)));
        let found = format!("found {shard:?}");
        assert_says(&message, &["key \"weight\": expected the name of a file beside", &found]);
    }
    let long = "a".repeat(256);
    let message = refused(index(&format!(r#""weight":"{long}""#)));
    assert_says(
        &message,
        &["expected the name of a file beside the index, found \"aaa", "(256 bytes)"],
    );
    let folder = shards();
    let path = folder.write("model.index.json", index(r#""weight":"a\u0000""#));
    assert!(out_in().load(&mut Map::zeros(), path).unwrap_err().is_file());
}

/// As a log reads them.
#[test]
fn what_a_file_says_stays_in_one_line_of_no_great_length() {
    let folder = shards();
    let path = folder.write("model.safetensors.index.json", index(r#""weight":"a\nb""#));
    let error = out_in().load(&mut Map::zeros(), path).unwrap_err().to_string();
    assert!(error.contains(r"a\nb: cannot be opened") && !error.contains('\n'), "{error}");
    let long = "a".repeat(100_000);
    let error = refused(format!(r#"{{"weight_map": "{long}"}}"#));
    assert!(error.ends_with("aaa…") && error.len() < 2_000, "{error}");
}

#[test]
fn an_index_that_is_no_index() {
    for (text, word) in [
        (&b"not JSON"[..], "not an index of shards: expected"),
        (b"", "not an index of shards: EOF"),
        (b"[]", "expected an object with a \"weight_map\""),
        (b"{}", "no \"weight_map\""),
        (b"{\"weight_map\":[]}", "expected an object of files' names by key"),
        (b"{\"weight_map\":{\"weight\":3}}", "key \"weight\": invalid type: integer `3`"),
        (b"{\"weight_map\":{},\"weight_map\":{}}", "given twice"),
        (b"{\"weight_map\":{\"\xff\":\"a\"}}", "not an index of shards"),
        (b"{\"weight_map\":{}}", "no key \"weight\"; the nearest are none at all"),
    ] {
        assert_says(&refused(text), &[word]);
    }
    assert_says(&refused("[".repeat(100_000)), &["not an index of shards"]);
    assert_says(&refused(r#"{"a":"#.repeat(100_000)), &["not an index of shards"]);
}

#[test]
fn an_index_that_names_itself_is_no_shard() {
    let message = refused(index(r#""weight":"model.safetensors.index.json""#));
    assert_says(&message, &["not a safetensors file"]);
}
