//! Files that the Python library wrote.

use super::{assert_says, bits, in_out, message, out_in, tensor};
use crate::fixtures::shipped_dir;
use shapeproof::{Batch, C, Hidden, Infer, Linear, Model, Tensor, TensorFile};
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    shipped_dir().join("io").join(name)
}

#[test]
fn every_float_type_is_read() {
    let mut file = TensorFile::open(path("dtypes.safetensors")).unwrap();
    let mut read = |key: &str| {
        let value = file.read(key).unwrap();
        (value.element(), value.dims().to_vec(), value.to::<f64>().to_vec())
    };
    let count = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let halves = [-0.5, -0.25, 0.0, 0.25, 0.5, 0.75];
    assert_eq!(read("f16"), ("f16", vec![2, 3], halves.to_vec()));
    let thirds = count.map(|i: f64| i / 3.0);
    assert_eq!(read("f64"), ("f64", vec![2, 3], thirds.to_vec()));
    #[allow(clippy::cast_possible_truncation, reason = "as numpy rounds it")]
    let rounded = thirds.map(|third| f64::from(third as f32));
    assert_eq!(read("f32"), ("f32", vec![2, 3], rounded.to_vec()));
    assert_eq!(read("scalar"), ("f32", vec![], vec![2.5]));
    assert_eq!(read("empty"), ("f32", vec![2, 0, 3], vec![]));
    assert_eq!(read("rank_6"), ("f32", vec![1, 2, 1, 1, 2, 1], count[..4].to_vec()));
    assert_eq!(read("ключ \"→\""), ("f32", vec![1], vec![1.0]));
}

#[test]
fn bfloat16_is_read() {
    let mut file = TensorFile::open(path("bf16.safetensors")).unwrap();
    let value = file.read("bf16").unwrap();
    let largest = f32::from_bits(0x7f61_0000);
    assert_eq!(value.element(), "bf16");
    assert_eq!(value.to::<f32>().to_vec(), [1.0, -2.5, 0.0, largest]);
}

#[test]
fn integers_and_booleans_are_read() {
    let mut file = TensorFile::open(path("dtypes.safetensors")).unwrap();
    let mut read = |key: &str| {
        let value = file.read_integers(key).unwrap();
        (value.dims().to_vec(), value.to_vec())
    };
    assert_eq!(read("i64"), (vec![2, 3], vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(read("bool"), (vec![2, 3], vec![0, 0, 0, 1, 1, 1]));
}

#[test]
fn what_no_tensor_of_floats_can_hold_is_refused_by_key_and_listed_all_the_same() {
    let path = path("dtypes.safetensors");
    let mut file = TensorFile::open(&path).unwrap();
    assert_eq!(file.keys().count(), 10);
    assert_eq!(file.dims("rank_7"), Some(&[1; 7][..]));
    let mut refused = |key: &str| message(&file.read(key).unwrap_err(), &path);
    let floats = "expected F64, F32, F16 or BF16 numbers";
    assert_eq!(refused("i64"), format!("key \"i64\": {floats}, found I64"));
    assert_eq!(refused("bool"), format!("key \"bool\": {floats}, found BOOL"));
    assert_eq!(refused("rank_7"), "key \"rank_7\": expected at most 6 axes, found 7");
    assert_says(&refused("f15"), &["no key \"f15\"; the nearest are \"f16\""]);
}

type Map = Linear<Model<C<2>>, Hidden<C<3>>>;

#[test]
fn a_linear_map_is_read_in_both_orders_and_in_shards() {
    let x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[1.0, 10.0]]);
    for (checkpoint, name) in [
        (out_in(), "out_in.safetensors"),
        (in_out(), "in_out.safetensors"),
        (out_in(), "model.safetensors.index.json"),
    ] {
        let mut map = Map::zeros();
        checkpoint.load(&mut map, path(name)).unwrap();
        assert_eq!(map.forward(&x, &mut Infer).to_vec(), [31.0, 63.0, 95.0], "{name}");
    }
}

#[test]
fn what_we_save_is_what_it_would() {
    let folder = super::Folder::new();
    let mut map = Map::zeros();
    out_in().load(&mut map, path("out_in.safetensors")).unwrap();
    out_in().save(&map, folder.path("map")).unwrap();
    let ours = std::fs::read(folder.path("map")).unwrap();
    assert_eq!(ours, std::fs::read(path("out_in.safetensors")).unwrap());

    let mut other = Map::zeros();
    in_out().save(&map, folder.path("map")).unwrap();
    in_out().load(&mut other, folder.path("map")).unwrap();
    assert_eq!(bits(&map), bits(&other));
}

#[test]
fn the_formats_own_library_reads_what_we_save() {
    let folder = super::Folder::new();
    let wide = shapeproof::AnyTensor::try_from_vec(&[1], vec![0.1f64]).unwrap();
    let tensors = [
        ("b \"quoted\" \\ → \u{1}", tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])),
        ("a", tensor(&[], &[5.0])),
        ("empty", tensor(&[0, 7], &[])),
        ("wide", shapeproof::FloatTensor::new(wide)),
    ];
    shapeproof::save_tensors(folder.path("file"), tensors).unwrap();
    let bytes = std::fs::read(folder.path("file")).unwrap();
    let read = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names = read.names();
    names.sort_unstable();
    assert_eq!(names, ["a", "b \"quoted\" \\ → \u{1}", "empty", "wide"]);
    assert_eq!(read.tensor(names[1]).unwrap().data(), super::bytes(&[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(read.tensor("a").unwrap().shape(), [0usize; 0]);
    assert_eq!(read.tensor("wide").unwrap().data(), 0.1f64.to_le_bytes());
    assert_eq!(u64::from_le_bytes(bytes[..8].try_into().unwrap()) % 8, 0);
}
