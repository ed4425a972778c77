//! Tensors of the wrong type, numbers that are not finite, tensors that are missing or too many.

use super::{Folder, assert_says, bits, bytes, fill, one, out_in, refusal, tensor};
use shapeproof::{
    C, Embedding, Hidden, Linear, Model, NoBias, Source, TensorFile, Vocab, save_tensors,
};

type Table<E = f32> = Embedding<Vocab<C<2>>, Model<C<3>>, E>;
type Map = Linear<Model<C<2>>, Hidden<C<3>>>;

fn refused(content: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let path = folder.write("model.safetensors", content);
    refusal(&out_in(), &mut Table::<f32>::zeros(), &path)
}

#[test]
fn integers_and_booleans_are_no_weights() {
    for (dtype, size) in [("I64", 8), ("I32", 4), ("U8", 1), ("BOOL", 1), ("F8_E4M3", 1)] {
        let message = refused(one("weight", dtype, &[2, 3], &vec![0; 6 * size]));
        let found = format!("found {dtype} ");
        assert_says(&message, &["key \"weight\": expected F64, F32, F16 or BF16", &found, "(for"]);
    }
}

#[test]
fn integers_of_every_width_are_read() {
    let most = u32::MAX.to_le_bytes();
    for (dtype, data, expected) in [
        ("I64", [i64::MIN, 7].map(i64::to_le_bytes).concat(), [i64::MIN, 7]),
        ("I32", [i32::MIN, 7].map(i32::to_le_bytes).concat(), [i32::MIN.into(), 7]),
        ("I16", [i16::MIN, 7].map(i16::to_le_bytes).concat(), [i16::MIN.into(), 7]),
        ("I8", vec![128, 7], [-128, 7]),
        ("U32", [most, most].concat(), [u32::MAX.into(); 2]),
        ("U16", vec![255, 255, 7, 0], [65535, 7]),
        ("U8", vec![255, 7], [255, 7]),
    ] {
        let folder = Folder::new();
        let path = folder.write("ids.safetensors", one("ids", dtype, &[1, 2], &data));
        let ids = TensorFile::open(path).unwrap().read_integers("ids").unwrap();
        assert_eq!((ids.dims(), ids.to_vec()), (&[1, 2][..], expected.to_vec()), "{dtype}");
    }
    for (dtype, size) in [("U64", 8), ("F32", 4), ("F8_E4M3", 1)] {
        let folder = Folder::new();
        let path = folder.write("ids.safetensors", one("ids", dtype, &[2], &vec![0; 2 * size]));
        let error = TensorFile::open(path).unwrap().read_integers("ids").unwrap_err();
        assert_says(&error.to_string(), &["expected I64, I32,", &format!("found {dtype}")]);
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for (bad, text) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let message =
            refused(one("weight", "F32", &[2, 3], &bytes(&[0.0, 1.0, 2.0, 3.0, bad, 5.0])));
        assert_eq!(
            message,
            format!(
                "key \"weight\": expected finite f32 numbers, found {text} at 4 (for parameter \
                 \"weight\")"
            )
        );
    }
    let infinity = [0u8, 0x7c].repeat(6);
    assert_says(&refused(one("weight", "F16", &[2, 3], &infinity)), &["found inf at 0"]);
    let infinity = [0x80u8, 0x7f].repeat(6);
    assert_says(&refused(one("weight", "BF16", &[2, 3], &infinity)), &["found inf at 0"]);
}

#[test]
fn a_number_beyond_the_models_type_is_refused() {
    let data: Vec<u8> = [0.0, 1e39, 0.0, 0.0, 0.0, 0.0f64].map(f64::to_le_bytes).concat();
    let file = one("weight", "F64", &[2, 3], &data);
    assert_says(&refused(&file), &["expected finite f32 numbers, found inf at 1"]);
    let folder = Folder::new();
    let path = folder.write("wide", file);
    let mut wide = Table::<f64>::zeros();
    out_in().load(&mut wide, path).unwrap();
    assert_eq!(wide.weight.value().to_vec()[1], 1e39);
}

#[test]
fn the_last_of_many_numbers_is_looked_at() {
    let folder = Folder::new();
    let mut numbers = vec![0.5; 300 * 300];
    numbers[300 * 300 - 1] = f32::NAN;
    let path = folder.write("model", one("weight", "F32", &[300, 300], &bytes(&numbers)));
    let mut map = Linear::<Model<C<300>>, Hidden<C<300>>, NoBias>::zeros();
    assert_says(&refusal(&out_in(), &mut map, &path), &["found NaN at 89999"]);
}

#[test]
fn a_refusal_of_the_last_tensor_leaves_the_first_as_it_was() {
    let folder = Folder::new();
    let path = folder.path("model");
    let weight = ("weight", tensor(&[3, 2], &[1.0; 6]));
    let bias = ("bias", tensor(&[3], &[1.0, f32::NAN, 1.0]));
    save_tensors(&path, [weight, bias]).unwrap();
    let mut map = Map::zeros();
    fill(&mut map, 1);
    assert_says(&refusal(&out_in(), &mut map, &path), &["key \"bias\"", "found NaN at 1"]);
}

#[test]
fn only_the_part_that_is_read_must_be_finite() {
    let folder = Folder::new();
    let path = folder.path("model");
    let numbers = [[1.0; 6], [f32::NAN; 6]].concat();
    save_tensors(&path, [("weight", tensor(&[4, 3], &numbers))]).unwrap();
    let part = |index| {
        out_in().sources(move |_| Source::key("weight").part(index, 2)).allow_extra(|_| true)
    };
    let mut table = Table::<f32>::zeros();
    part(0).load(&mut table, &path).unwrap();
    assert_eq!(table.weight.value().to_vec(), [1.0; 6]);
    assert_says(&refusal(&part(1), &mut table, &path), &["found NaN at 0"]);
}

#[test]
fn a_missing_key_is_named_with_the_nearest() {
    let folder = Folder::new();
    let path = folder.path("model");
    let one = || tensor(&[1], &[1.0]);
    save_tensors(&path, [("wieght", one()), ("bias", one()), ("other", one())]).unwrap();
    let message = refusal(&out_in(), &mut Map::zeros(), &path);
    assert_says(
        &message,
        &["no key \"weight\"; the nearest are \"wieght\", ", "(for parameter \"weight\")"],
    );
}

#[test]
fn the_nearest_of_a_key_is_the_one_with_another_prefix() {
    let folder = Folder::new();
    let path = folder.path("model");
    let one = || tensor(&[1], &[1.0]);
    let keys = ["model.encoder.layers.0.weight", "height", "bias"];
    save_tensors(&path, keys.map(|key| (key, one()))).unwrap();
    let message = refusal(&out_in(), &mut Map::zeros(), &path);
    assert_says(&message, &["the nearest are \"model.encoder.layers.0.weight\", \"height\""]);
    let prefixed = out_in().sources(|name| Source::key(format!("transformer.{name}")));
    let message = refusal(&prefixed, &mut Map::zeros(), &path);
    assert_says(&message, &["no key \"transformer.weight\"", "(for parameter \"weight\")"]);
}

#[test]
fn a_file_without_tensors_has_no_nearest() {
    let folder = Folder::new();
    let path = folder.path("model");
    save_tensors(&path, Vec::<(String, _)>::new()).unwrap();
    assert_eq!(TensorFile::open(&path).unwrap().keys().count(), 0);
    let message = refusal(&out_in(), &mut Map::zeros(), &path);
    assert_says(&message, &["no key \"weight\"; the nearest are none at all"]);
}

#[test]
fn parameters_may_be_missing_where_that_is_allowed() {
    let folder = Folder::new();
    let path = folder.path("model");
    save_tensors(&path, [("weight", tensor(&[3, 2], &[1.0; 6]))]).unwrap();
    let mut map = Map::zeros();
    fill(&mut map, 1);
    let before = map.bias.value();
    let loaded = out_in().allow_missing(|name| name == "bias").load(&mut map, &path).unwrap();
    assert_eq!((loaded.missing, loaded.extra), (vec!["bias".to_owned()], vec![]));
    assert_eq!(map.bias.value(), before);
    assert_eq!(map.weight.value().to_vec(), [1.0; 6]);
    let message = refusal(&out_in().allow_missing(|name| name == "weight"), &mut map, &path);
    assert_says(&message, &["no key \"bias\""]);
}

#[test]
fn tensors_may_be_too_many_where_that_is_allowed() {
    let folder = Folder::new();
    let path = folder.path("model");
    let one = || tensor(&[1], &[1.0]);
    let weight = ("weight", tensor(&[2, 3], &[1.0; 6]));
    save_tensors(&path, [weight, ("position_ids", one()), ("head", one())]).unwrap();
    let mut table = Table::<f32>::zeros();
    let message = refusal(&out_in(), &mut table, &path);
    assert_eq!(message, "key \"head\": belongs to no parameter; `allow_extra` lets a key be");
    let checkpoint = out_in().allow_extra(|key| key == "position_ids");
    assert_eq!(refusal(&checkpoint, &mut table, &path), message);
    let loaded = out_in().allow_extra(|_| true).load(&mut table, &path).unwrap();
    assert_eq!(loaded.extra, ["head", "position_ids"]);
}

#[test]
fn a_tensor_nobody_reads_may_hold_anything() {
    let folder = Folder::new();
    let path = folder.write("model", one("ids", "I64", &[1, 1, 1, 1, 1, 1, 1, 1], &[255; 8]));
    let mut table = Table::<f32>::zeros();
    let before = bits(&table);
    let checkpoint = out_in().allow_extra(|_| true).allow_missing(|_| true);
    assert_eq!(checkpoint.load(&mut table, &path).unwrap().missing, ["weight"]);
    assert_eq!(before, bits(&table));
}
