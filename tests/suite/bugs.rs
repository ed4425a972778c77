//! `BUGS.md` is made of `docs/bugs.md`, where `{{program}}` stands for a program of `ui-tests/fail`: the
//! program, the words of rustc that are recorded beside it, and what its twin has instead.
//!
//! `BUGS=overwrite cargo test --test suite bugs` makes it anew.

use std::fs;
use std::path::Path;

#[test]
fn the_page_of_bugs_is_made_of_programs_and_recorded_errors() {
    let (page, made) = (root().join("BUGS.md"), page());
    if std::env::var_os("BUGS").is_some_and(|value| value == "overwrite") {
        fs::write(&page, made).expect("BUGS.md can be written");
    } else {
        let same = read(&page) == made;
        assert!(same, "BUGS.md is out of date: BUGS=overwrite cargo test --test suite bugs");
    }
}

#[test]
fn twenty_bugs_are_numbered_and_each_has_a_program_and_a_source() {
    let template = read(&root().join("docs/bugs.md"));
    let bugs: Vec<_> = template.split("\n### ").skip(1).collect();
    assert_eq!(bugs.len(), 20);
    let mut programs = Vec::new();
    for (at, bug) in bugs.iter().enumerate() {
        assert!(bug.starts_with(&format!("{}. ", at + 1)), "{bug}");
        assert!(bug.contains("](https://"), "no source: {bug}");
        programs.extend(bug.lines().filter_map(program));
        assert_eq!(programs.len(), at + 1, "{bug}");
    }
    programs.sort_unstable();
    programs.dedup();
    assert_eq!(programs.len(), 20, "a program is shown twice");
}

/// The template with each program in its place.
fn page() -> String {
    let mut page =
        "<!-- Made of docs/bugs.md and ui-tests; see tests/suite/bugs.rs. -->\n\n".to_owned();
    for line in read(&root().join("docs/bugs.md")).lines() {
        page += &program(line).map_or_else(|| line.to_owned(), shown);
        page.push('\n');
    }
    page
}

/// The program that a line stands for.
fn program(line: &str) -> Option<&str> {
    line.strip_prefix("{{")?.strip_suffix("}}")
}

fn shown(name: &str) -> String {
    let file = |folder: &str, extension: &str| {
        read(&root().join("ui-tests").join(folder).join(name).with_extension(extension))
    };
    let (program, twin) = (file("fail", "rs"), file("pass", "rs"));
    let error = file("fail", "stderr");
    format!(
        "```rust,compile_fail\n{}\n```\n\n```text\n{}\n```\n\nInstead:\n\n```rust,ignore\n{}\n```",
        program.trim_end(),
        error.trim_end(),
        differing(&program, &twin).join("\n")
    )
}

/// The lines of the twin that the program does not have, without what the imports need.
fn differing<'t>(program: &str, twin: &'t str) -> Vec<&'t str> {
    let body = twin.split_once("fn main()").map_or(twin, |(imports, _)| &twin[imports.len()..]);
    let new = body.lines().filter(|line| !program.lines().any(|other| other == *line));
    new.map(str::trim).filter(|line| !line.starts_with("assert")).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
