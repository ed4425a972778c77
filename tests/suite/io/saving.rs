//! A file appears as a whole or not at all.

use super::{Folder, assert_says, bits, fill, message, out_in, tensor};
use shapeproof::{C, Embedding, Model, TensorFile, Vocab, save_tensors};
use std::fs::{self, File};
use std::path::Path;

type Table = Embedding<Vocab<C<50>>, Model<C<20>>>;

fn table(seed: u32) -> Table {
    let mut table = Table::zeros();
    fill(&mut table, seed);
    table
}

#[test]
fn an_older_file_is_replaced() {
    let folder = Folder::new();
    let path = folder.write("model", "an older file, and longer".repeat(1000));
    out_in().save(&table(1), &path).unwrap();
    let mut loaded = Table::zeros();
    out_in().load(&mut loaded, &path).unwrap();
    assert_eq!(bits(&loaded), bits(&table(1)));
    assert_eq!(folder.names(), ["model"]);
}

#[test]
fn a_file_that_is_being_read_stays_what_it_was() {
    let folder = Folder::new();
    let path = folder.path("model");
    out_in().save(&table(1), &path).unwrap();
    let mut open = TensorFile::open(&path).unwrap();
    out_in().save(&table(2), &path).unwrap();
    let read = open.read("weight").unwrap().to::<f32>();
    assert_eq!(read.to_vec(), table(1).weight.value().to_vec());
}

#[test]
fn a_directory_that_is_missing_is_an_error() {
    let folder = Folder::new();
    let path = folder.path("missing/model");
    let error = out_in().save(&table(1), &path).unwrap_err();
    assert!(error.is_file());
    assert_says(&message(&error, &path), &["cannot be written: "]);
    assert!(folder.names().is_empty());
}

#[test]
fn a_target_that_is_a_directory_stays_one() {
    let folder = Folder::new();
    let path = folder.path("model");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "kept").unwrap();
    let error = out_in().save(&table(1), &path).unwrap_err();
    assert_says(&message(&error, &path), &["cannot be written: "]);
    assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
    assert_eq!(folder.names(), ["model"]);
}

#[test]
fn a_path_without_a_name_is_refused() {
    for path in ["", "..", "/"] {
        let error = out_in().save(&table(1), path).unwrap_err();
        assert_eq!(message(&error, Path::new(path)), "not the name of a file");
    }
}

#[cfg(unix)]
#[test]
fn a_directory_that_is_read_only_keeps_its_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.write("model", "kept");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o555)).unwrap();
    // Some users may write everywhere.
    if File::create_new(folder.path("probe")).is_err() {
        let error = out_in().save(&table(1), &path).unwrap_err();
        assert_says(&message(&error, &path), &["cannot be written: "]);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        assert_eq!(folder.names(), ["model"]);
    }
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn the_file_has_the_permissions_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    out_in().save(&table(1), folder.path("ours")).unwrap();
    assert_eq!(mode(&folder.path("ours")), mode(&folder.write("any", "")));
}

#[test]
fn a_name_as_long_as_names_can_be_is_saved() {
    let folder = Folder::new();
    let path = folder.path(&"m".repeat(255));
    out_in().save(&table(1), &path).unwrap();
    out_in().load(&mut Table::zeros(), &path).unwrap();
}

#[test]
fn what_another_process_left_unfinished_is_not_touched() {
    let folder = Folder::new();
    let left: Vec<_> = (0..600)
        .map(|count| format!(".{}.{count}.part", std::process::id()))
        .inspect(|name| drop(folder.write(name, "another's")))
        .collect();
    out_in().save(&table(1), folder.path("model")).unwrap();
    for name in &left {
        assert_eq!(fs::read(folder.path(name)).unwrap(), b"another's");
    }
    assert_eq!(folder.names().len(), left.len() + 1);
}

#[test]
fn saving_to_one_path_at_once_leaves_one_of_the_models() {
    let folder = Folder::new();
    let path = folder.path("model");
    out_in().save(&table(0), &path).unwrap();
    let models: Vec<_> = (0..8).map(|seed| bits(&table(seed))).collect();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..3 {
                    out_in().save(&table(seed), path).unwrap();
                }
            });
        }
        for _ in 0..40 {
            let mut loaded = Table::zeros();
            out_in().load(&mut loaded, &path).unwrap();
            assert!(models.contains(&bits(&loaded)));
        }
    });
    assert_eq!(folder.names(), ["model"]);
}

#[test]
fn a_relative_path_is_saved_where_it_points() {
    let name = format!("shapeproof-relative-{}.safetensors", std::process::id());
    out_in().save(&table(1), &name).unwrap();
    out_in().load(&mut Table::zeros(), &name).unwrap();
    fs::remove_file(&name).unwrap();
}

#[test]
fn a_key_given_twice_or_of_the_format_is_refused() {
    let folder = Folder::new();
    let path = folder.path("model");
    let one = || tensor(&[1], &[1.0]);
    let error = save_tensors(&path, [("a", one()), ("a", one())]).unwrap_err();
    assert_eq!(message(&error, &path), "key \"a\": given twice");
    let error = save_tensors(&path, [("__metadata__", one())]).unwrap_err();
    assert_says(&message(&error, &path), &["key \"__metadata__\"", "the format"]);
    assert!(folder.names().is_empty());
}
