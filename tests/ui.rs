//! Compile errors are a product of this crate: each program of `ui-tests/fail` breaks one rule and
//! must not compile, with the message recorded beside it; its twin in `ui-tests/pass` keeps the rule,
//! compiles and runs. `DESIGN.md` lists rules, messages and programs.
//!
//! `TRYBUILD=overwrite cargo test --test ui` records the messages anew; they are never edited.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler whose words are recorded. Others must refuse the same programs, in their own words.
const RECORDED: &str = "rustc 1.95.";

/// The longest message.
const LINES: usize = 20;

/// Programs whose message is rustc's own, and why it cannot be ours.
const RUSTC_S_OWN_WORDS: &[(&str, &str)] = &[
    ("run_time_sizes_of_two_turns_must_not_be_mixed", BORROW),
    ("run_time_sizes_must_not_be_returned", BORROW),
    ("run_time_sizes_must_not_outlive_their_scope", BORROW),
    (
        "size_must_be_a_type_and_not_a_number",
        "a number where a type stands is refused before traits",
    ),
    ("chunks_must_be_as_many_as_the_names", "the pattern of a caller's `let` is the caller's"),
    ("merged_heads_must_stand_before_the_positions", METHOD),
    ("heads_of_a_block_named_in_full_must_divide_the_model_width", HEADER),
    ("split_heads_must_come_from_a_width", METHOD),
    (
        "axis_of_ones_own_must_not_add_a_relation",
        "an impl that lacks an item is refused before traits",
    ),
    ("listed_parameters_must_be_fields", "rustc names the field and lists those there are"),
];
const HEADER: &str =
    "a bound in the header of the caller's impl makes rustc look for another function";
const METHOD: &str = "the method is for one shape; rustc shows it beside the shape that was found";
const BORROW: &str = "a run-time size that outlives its scope is a matter of the borrow checker";

#[test]
fn broken_rules_do_not_compile() {
    if recorded_compiler() {
        trybuild::TestCases::new().compile_fail("ui-tests/fail/*.rs");
    } else {
        let refused = refused_by_this_compiler();
        let compiled: Vec<_> = names("fail").difference(&refused).cloned().collect();
        assert!(compiled.is_empty(), "these compile: {compiled:?}");
    }
}

#[test]
fn kept_rules_compile_and_run() {
    // One program of all, each in a module of its own: linked once instead of once each.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui-tests/pass");
    let (mut modules, mut calls) = (String::new(), String::new());
    for name in names("pass") {
        let path = folder.join(format!("{name}.rs"));
        modules += &format!("mod {name} {{ include!({path:?}); pub fn run() {{ main() }} }}\n");
        calls += &format!("    {name}::run();\n");
    }
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept_rules.rs");
    fs::write(&all, format!("{modules}fn main() {{\n{calls}}}\n")).expect("the file is written");
    trybuild::TestCases::new().pass(all);
}

#[test]
fn each_broken_rule_has_a_twin_that_keeps_it() {
    let (fail, pass) = (names("fail"), names("pass"));
    assert!(fail.is_subset(&pass), "no twin: {:?}", fail.difference(&pass));
    for name in &pass {
        assert!(name.matches('_').count() >= 3, "{name} is no sentence");
    }
}

#[test]
fn programs_import_by_name() {
    for file in files("fail", "rs").into_iter().chain(files("pass", "rs")) {
        // A glob import makes rustc print `shapeproof::C<512>` for `C<512>`.
        assert!(!read(&file).contains("::*"), "{} imports by glob", file.display());
    }
}

#[test]
fn messages_are_short_and_name_the_rule() {
    let rules = rules();
    let mut faults = Vec::new();
    for file in files("fail", "stderr") {
        let (name, text) = (name(&file), read(&file));
        let errors = text.lines().filter(|line| line.starts_with("error")).count();
        let lines = text.lines().count();
        let headline = text.lines().find(|line| line.starts_with("error")).unwrap_or_default();
        let labels = text.lines().filter(|line| line.contains('^'));
        let two_sides = |line: &str| line.contains("expected ") && line.contains(", found ");
        let ours = rules.iter().any(|rule| follows(headline, rule))
            || two_sides(headline)
            || labels.clone().any(two_sides);
        let exempt = RUSTC_S_OWN_WORDS.iter().any(|(program, _)| *program == name);
        let checks = [
            (errors == 1, format!("{errors} errors")),
            (lines <= LINES, format!("{lines} lines")),
            (!text.contains("UInt<"), "shows typenum".into()),
            (!text.contains("warning"), "has a warning".into()),
            (ours != exempt, format!("exempt: {exempt}, but in our words: {ours}")),
        ];
        faults.extend(checks.into_iter().filter(|(ok, _)| !ok).map(|(_, why)| (name.clone(), why)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_design_lists_each_message_with_its_programs() {
    let (programs, rules) = (names("fail"), rules());
    let mut listed = BTreeSet::new();
    let mut faults = Vec::new();
    for [rule, messages, row] in rows_of_the_design() {
        let quotes: Vec<_> = quoted(&messages);
        let (known, unknown): (Vec<_>, Vec<_>) =
            quoted(&row).into_iter().partition(|name| programs.contains(*name));
        faults.extend(unknown.iter().map(|name| format!("{rule}: no program {name}")));
        let said: Vec<_> = known.iter().map(|name| said(name)).collect();
        for quote in &quotes {
            let one_says_it = said.iter().any(|said| says(said, quote));
            faults.extend((!one_says_it).then(|| format!("{rule}: rustc does not say {quote:?}")));
        }
        for (name, said) in known.iter().zip(&said) {
            let agrees = quotes.iter().any(|quote| says_the_like(said, quote, &rules));
            faults.extend((!agrees).then(|| format!("{rule}: of {name} rustc says {said:#?}")));
            let is_new = listed.insert((*name).to_owned());
            faults.extend((!is_new).then(|| format!("{name} is listed twice")));
        }
    }
    faults.extend(programs.difference(&listed).map(|name| format!("{name} is not listed")));
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn messages_name_traits_that_the_documentation_has() {
    let mut sources = Vec::new();
    sources_below(Path::new("src"), &mut sources);
    let sources: String = sources.iter().map(|file| read(file)).collect();
    for file in files("fail", "stderr") {
        let text = read(&file);
        let named =
            text.split("the trait `").skip(1).filter_map(|rest| rest.split(['<', '`']).next());
        for name in named.filter_map(|path| path.rsplit("::").next()) {
            let found = sources.split_once(&format!("pub trait {name}"));
            let (before, _) = found.unwrap_or_else(|| panic!("no trait {name}"));
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            let shown = attributes.contains("///") && !attributes.contains("doc(hidden)");
            assert!(shown, "{}: {name} is not documented", file.display());
        }
    }
}

#[test]
fn the_readme_quotes_the_compiler() {
    let readme = read(Path::new("README.md"));
    let quoted = readme.split("```text").nth(1).and_then(|rest| rest.split("```").next());
    let recorded = read(Path::new("ui-tests/fail/heads_must_divide_the_model_width.stderr"));
    for line in quoted.expect("an error is quoted").lines() {
        // The headline, and the label behind the carets.
        let words =
            if line.starts_with("error") { line } else { line.split('^').next_back().unwrap() };
        let is_words = line.starts_with("error") || line.contains('^');
        assert!(!is_words || recorded.contains(words), "rustc does not say {words:?}");
    }
}

#[test]
fn documented_programs_exist() {
    let programs = names("fail");
    let mut sources = Vec::new();
    sources_below(Path::new("src"), &mut sources);
    for file in sources {
        let text = read(&file);
        for section in text.split("# Compile errors").skip(1) {
            let section: Vec<_> = section
                .lines()
                .skip(1)
                .map(str::trim_start)
                .take_while(|line| line.starts_with("///") && !line.starts_with("/// # "))
                .collect();
            for word in section.join("\n").split('`').filter(|word| word.matches('_').count() > 2) {
                assert!(programs.contains(word), "{}: no program {word}", file.display());
            }
        }
    }
}

/// The rows of the tables of messages: the rule, what rustc says, the programs.
fn rows_of_the_design() -> Vec<[String; 3]> {
    let design = read(Path::new("DESIGN.md"));
    let (_, section) = design.split_once("\n## Compile errors").expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.map(|row| row.split(" | ").map(String::from).collect::<Vec<_>>());
    let rows = rows.map(|cells| <[String; 3]>::try_from(cells).expect("a row has three cells"));
    rows.filter(|[rule, ..]| rule != "rule").collect()
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What rustc says of a program, without backticks: the headline, then what stands at the carets.
fn said(program: &str) -> Vec<String> {
    let text = read(&Path::new("ui-tests/fail").join(program).with_extension("stderr"));
    let headline = text.lines().find_map(|line| line.strip_prefix("error")?.split_once(": "));
    let labels = text.lines().filter(|line| line.contains('^'));
    let labels = labels.filter_map(|line| line.rsplit('^').next()).map(str::trim);
    let headline = headline.map(|(_, words)| words);
    headline.into_iter().chain(labels).map(|words| words.replace('`', "")).collect()
}

/// Whether this is the headline, or stands at a caret.
fn says(said: &[String], quote: &str) -> bool {
    said[0] == quote || said[1..].iter().any(|label| label.contains(quote))
}

/// Whether what is said is the quote, or the same message of other types.
fn says_the_like(said: &[String], quote: &str, rules: &[Vec<String>]) -> bool {
    let two_sides = |words: &str| words.contains("expected ") && words.contains(", found ");
    let bare = |rule: &[String]| rule.iter().map(|it| it.replace('`', "")).collect::<Vec<_>>();
    says(said, quote)
        || (two_sides(quote) && said.iter().any(|words| two_sides(words)))
        || rules
            .iter()
            .map(|rule| bare(rule))
            .any(|it| follows(quote, &it) && follows(&said[0], &it))
}

/// The messages that this crate gives, each as the pieces between its type parameters.
fn rules() -> Vec<Vec<String>> {
    let mut sources = Vec::new();
    sources_below(Path::new("src"), &mut sources);
    let mut rules = Vec::new();
    for text in sources.iter().map(|file| read(file)) {
        for message in text.split("message = \"").skip(1).filter_map(|rest| rest.split('"').next())
        {
            let pieces = message.split('{').map(|part| part.split_once('}').map_or(part, |p| p.1));
            rules.push(pieces.map(String::from).collect());
        }
    }
    rules
}

/// Whether `text` has the pieces in this order.
fn follows(text: &str, pieces: &[String]) -> bool {
    let rest = pieces.iter().try_fold(text, |rest, piece| Some(rest.split_once(piece.as_str())?.1));
    rest.is_some()
}

/// Whether the recorded words are those of this compiler.
fn recorded_compiler() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs");
    String::from_utf8_lossy(&version.stdout).starts_with(RECORDED)
}

/// The failing programs that this compiler finds an error in, checked as binaries of one package.
fn refused_by_this_compiler() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    fs::create_dir_all(&package).expect("the target directory can be written");
    let mut manifest = format!(
        "[workspace]\n[package]\nname = \"ui\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\nshapeproof = {{ path = {root:?} }}\n"
    );
    for file in files("fail", "rs") {
        let path = root.join(&file);
        manifest += &format!("[[bin]]\nname = \"{}\"\npath = {path:?}\n", name(&file));
    }
    fs::write(package.join("Cargo.toml"), manifest).expect("the manifest can be written");
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).expect("there is a lock file");
    let cargo = Command::new(env!("CARGO"))
        .args(["check", "--bins", "--keep-going", "--offline", "--message-format=json"])
        .current_dir(package)
        .output()
        .expect("cargo runs");
    let messages = String::from_utf8(cargo.stdout).expect("cargo writes UTF-8");
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &serde_json::Value| message["message"]["level"] == "error")
        .filter_map(|message| message["target"]["name"].as_str().map(String::from))
        .collect()
}

fn names(kind: &str) -> BTreeSet<String> {
    files(kind, "rs").iter().map(|file| name(file)).collect()
}

fn name(file: &Path) -> String {
    file.file_stem().expect("a file has a name").to_string_lossy().into_owned()
}

/// The files of `ui-tests/fail` or `ui-tests/pass` with this extension.
fn files(kind: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new("ui-tests").join(kind)).expect("the programs are there");
    let paths = entries.map(|entry| entry.expect("the entry can be read").path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("the entry can be read").path();
        if path.is_dir() {
            sources_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
