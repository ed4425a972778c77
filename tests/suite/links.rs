//! Links between the pages: each leads to a file that is there, and each of README.md has another end in
//! rustdoc, where its files are not.

use std::fs;
use std::path::Path;

#[test]
fn links_lead_to_files() {
    for name in ["README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        let page = page(name);
        let found: Vec<_> = targets(&page).filter(|link| !link.contains("://")).collect();
        assert!(!found.is_empty(), "{name}");
        for link in found {
            let place = link.split('#').next().unwrap();
            assert!(root().join(place).exists(), "{name} has a link to {link}");
        }
    }
}

#[test]
fn each_link_of_the_readme_leads_somewhere_in_rustdoc_too() {
    let (readme, crate_page) = (page("README.md"), page("src/lib.rs"));
    assert!(!readme.contains("]("), "a link beside its text has one end for all places");
    let labels = |page: &str, before: &str| -> Vec<String> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(before)?.split_once("]: "));
        lines.map(|(label, _)| label.to_owned()).collect()
    };
    let wanted = labels(&readme, "[");
    assert!(!wanted.is_empty());
    assert_eq!(labels(&crate_page, "//! ["), wanted);
}

/// What `[text](target)` and `[text]: target` lead to, outside of code.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    let text = page.split("```").step_by(2).flat_map(str::lines);
    text.flat_map(|line| {
        let beside = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let below = line.strip_prefix('[').and_then(|line| line.split_once("]: "));
        beside.chain(below.map(|(_, target)| target))
    })
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
