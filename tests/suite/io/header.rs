//! Files that are not what they claim: refused by their header, whatever it says.

use super::{Folder, assert_says, bytes, one, out_in, raw, refusal};
use shapeproof::{C, Embedding, Model, Vocab};
use std::fs::{self, File};

type Table = Embedding<Vocab<C<2>>, Model<C<3>>>;

/// The refusal of a file of these bytes.
fn refused(content: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let path = folder.write("model.safetensors", content);
    refusal(&out_in(), &mut Table::zeros(), &path)
}

/// The refusal of a file of this header, with the data of six numbers.
fn header(text: &str) -> String {
    refused(raw(text, &[0; 24]))
}

/// A header's entry.
fn entry(key: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{key}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

#[test]
fn the_file_that_all_these_are_made_from_loads() {
    let folder = Folder::new();
    let path = folder.write("model", one("weight", "F32", &[2, 3], &[0; 24]));
    out_in().load(&mut Table::zeros(), &path).unwrap();
    let padded = format!("{{{}}}   ", entry("weight", "F32", "[2,3]", "[0,24]"));
    let path = folder.write("padded", raw(&padded, &[0; 24]));
    out_in().load(&mut Table::zeros(), &path).unwrap();
}

#[test]
fn no_file() {
    let folder = Folder::new();
    let message = refusal(&out_in(), &mut Table::zeros(), &folder.path("absent"));
    assert_says(&message, &["cannot be opened: "]);
    let path = folder.path("absent.index.json");
    assert_says(&refusal(&out_in(), &mut Table::zeros(), &path), &["cannot be opened: "]);
}

#[test]
fn a_directory() {
    let folder = Folder::new();
    for name in ["model.safetensors", "model.index.json"] {
        fs::create_dir(folder.path(name)).unwrap();
        let message = refusal(&out_in(), &mut Table::zeros(), &folder.path(name));
        assert_says(&message, &["directory"]);
    }
}

#[cfg(unix)]
#[test]
fn a_path_that_is_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let path = folder.0.join(OsStr::from_bytes(b"mod\xffel.safetensors"));
    assert_says(&refusal(&out_in(), &mut Table::zeros(), &path), &["cannot be opened: "]);
    fs::write(&path, one("weight", "F32", &[2, 3], &bytes(&[1.0; 6]))).unwrap();
    let mut table = Table::zeros();
    out_in().load(&mut table, &path).unwrap();
    assert_eq!(table.weight.value().to_vec(), [1.0; 6]);
    out_in().save(&table, &path).unwrap();
    fs::write(&path, "").unwrap();
    assert_says(&refusal(&out_in(), &mut table, &path), &["found 0"]);
}

#[test]
fn too_few_bytes_for_a_header() {
    assert_says(&refused([]), &["expected at least the 8 bytes", "found 0"]);
    assert_says(&refused([0; 7]), &["expected at least the 8 bytes", "found 7"]);
    assert_says(&refused([0; 8]), &["the header is no table of tensors"]);
}

#[test]
fn a_header_longer_than_the_file() {
    for claimed in [25, 1 << 20, 100_000_000, 100_000_001, u64::MAX - 8, u64::MAX] {
        let content = [&claimed.to_le_bytes()[..], &[b'{'; 24]].concat();
        let found = format!("found one of {claimed}");
        assert_says(&refused(content), &["at most 24 bytes in a file of 32", &found]);
    }
}

#[test]
fn a_header_beyond_the_formats_limit_in_a_file_that_has_it() {
    let folder = Folder::new();
    let path = folder.write("model", 100_000_001u64.to_le_bytes());
    File::options().write(true).open(&path).unwrap().set_len(200_000_000).unwrap();
    let message = refusal(&out_in(), &mut Table::zeros(), &path);
    assert_says(&message, &["at most 100000000 bytes", "found one of 100000001"]);
}

#[test]
fn a_header_that_is_no_table() {
    let says = |text: &str, word: &str| {
        assert_says(&header(text), &["the header is no table of tensors: ", word]);
    };
    says("", "EOF");
    says("not JSON", "expected");
    says("[1,2]", "expected an object of tensors by name");
    says("null", "expected an object of tensors by name");
    says("{} {}", "trailing characters");
    says("{\"weight\":{", "EOF");
    says("{\"weight\":3}", "key \"weight\": invalid type: integer `3`");
    says("{\"weight\":{}}", "key \"weight\": missing field");
    says("{3:{}}", "key must be a string");
    let not_utf8 = [&3u64.to_le_bytes()[..], b"{\"\xff\":1}"].concat();
    assert_says(&refused(not_utf8), &["the header is no table of tensors"]);
}

#[test]
fn a_header_nested_beyond_reason() {
    let deep = "[".repeat(100_000);
    for text in [
        deep.clone(),
        format!("{{\"weight\":{deep}"),
        format!("{{\"__metadata__\":{deep}"),
        "{\"a\":".repeat(100_000),
    ] {
        assert_says(&header(&text), &["the header is no table of tensors"]);
    }
}

#[test]
fn data_that_does_not_end_with_the_file() {
    let whole = one("weight", "F32", &[2, 3], &bytes(&[1.0; 6]));
    let short = refused(&whole[..whole.len() - 1]);
    assert_says(&short, &["expected 24 bytes of data behind the header, found 23"]);
    let long = refused([&whole[..], &[0]].concat());
    assert_says(&long, &["expected 24 bytes of data behind the header, found 25"]);
    for length in 0..whole.len() {
        refused(&whole[..length]);
    }
}

#[test]
fn offsets_that_contradict_each_other() {
    let says = |a: [&str; 2], b: [&str; 2], words: &[&str]| {
        let (a, b) = (entry("a", "F32", a[0], a[1]), entry("b", "F32", b[0], b[1]));
        assert_says(&header(&format!("{{{a},{b}}}")), words);
    };
    let begin = |at: usize| format!("expected its data to begin at byte {at}");
    says(["[3]", "[0,12]"], ["[4]", "[8,24]"], &["key \"b\"", &begin(12), "found 8"]);
    says(["[2]", "[0,8]"], ["[3]", "[12,24]"], &["key \"b\"", &begin(8), "found 12"]);
    says(["[3]", "[4,16]"], ["[2]", "[16,24]"], &["key \"a\"", &begin(0), "found 4"]);
    says(["[3]", "[0,12]"], ["[3]", "[24,12]"], &["key \"b\"", &begin(12), "found 24"]);
    says(["[3]", "[0,12]"], ["[3]", "[0,12]"], &["key \"b\"", &begin(12), "found 0"]);
}

#[test]
fn offsets_that_do_not_fit_the_sizes() {
    let says = |shape: &str, offsets: &str, words: &[&str]| {
        assert_says(&header(&format!("{{{}}}", entry("weight", "F32", shape, offsets))), words);
    };
    says(
        "[2,3]",
        "[0,20]",
        &["key \"weight\": expected 24 bytes for F32 of sizes [2, 3]", "to 20"],
    );
    says("[2,3]", "[0,0]", &["expected 24 bytes", "found offsets 0 to 0"]);
    says("[]", "[0,24]", &["expected 4 bytes for F32 of sizes []"]);
    says("[0]", "[0,24]", &["expected 0 bytes for F32 of sizes [0]"]);
    says("[4294967296,4294967296]", "[0,24]", &["no whole number of bytes"]);
    says("[18446744073709551615]", "[0,24]", &["no whole number of bytes"]);
    says("[18446744073709551616]", "[0,24]", &["key \"weight\": invalid"]);
    says("[2,3]", "[0,18446744073709551615]", &["found offsets 0 to 18446744073709551615"]);
    says("[-2,3]", "[0,24]", &["key \"weight\": invalid value: integer `-2`"]);
    says("[2,3]", "[-1,24]", &["key \"weight\": invalid value: integer `-1`"]);
    says("[2.5]", "[0,24]", &["key \"weight\": invalid type: floating point"]);
    says("\"2,3\"", "[0,24]", &["key \"weight\": invalid type: string"]);
    says("[2,3]", "[0,24,48]", &["key \"weight\": "]);
}

#[test]
fn many_axes_are_not_all_printed() {
    let shape = format!("{:?}", vec![1; 100_000]);
    let message = header(&format!("{{{}}}", entry("weight", "F32", &shape, "[0,24]")));
    assert_says(&message, &["expected 4 bytes", "and 99984 more"]);
    assert!(message.len() < 500, "{message}");
}

#[test]
fn half_a_byte_is_no_tensor() {
    let text = format!("{{{}}}", entry("weight", "F4", "[3]", "[0,24]"));
    assert_says(&header(&text), &["key \"weight\": F4 of sizes [3] are no whole number of bytes"]);
}

#[test]
fn a_type_that_the_format_does_not_have() {
    let text = format!("{{{}}}", entry("weight", "F31", "[2,3]", "[0,24]"));
    assert_says(&header(&text), &["key \"weight\": unknown variant `F31`", "`F32`"]);
}

#[test]
fn a_name_given_twice() {
    let weight = entry("weight", "F32", "[2,3]", "[0,24]");
    let twice = "the name \"weight\" is given twice";
    assert_says(&header(&format!("{{{weight},{weight}}}")), &[twice]);
    // The same name, spelled otherwise.
    let escaped = weight.replace("weight", "w\\u0065ight");
    assert_says(&header(&format!("{{{weight},{escaped}}}")), &[twice]);
    assert_says(&header("{\"__metadata__\":{},\"__metadata__\":{}}"), &["is given twice"]);
    let field = weight.replace("\"F32\"", "\"F32\",\"dtype\":\"F32\"");
    assert_says(&header(&format!("{{{field}}}")), &["duplicate field `dtype`"]);
}

#[test]
fn a_git_lfs_pointer() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 24\n";
    assert_says(&refused(pointer), &["a text pointer", "Git LFS", "fetch the file itself"]);
    let folder = Folder::new();
    let path = folder.write("model.safetensors.index.json", pointer);
    assert_says(&refusal(&out_in(), &mut Table::zeros(), &path), &["Git LFS"]);
}

#[test]
fn formats_that_people_take_for_this_one() {
    for content in [&b"PK\x03\x04 a zip, as torch.save writes it"[..], b"\x80\x02}q\x00. pickle"] {
        assert_says(&refused(content), &["not a safetensors file, or a truncated one"]);
    }
}
