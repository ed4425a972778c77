//! A program that does not compile, and what rustc says about it.
//!
//! ```text
//! cargo run --example 02_an_error_on_purpose
//! ```

const PROGRAM: &str = include_str!("../ui-tests/fail/heads_must_divide_the_model_width.rs");
const ERROR: &str = include_str!("../ui-tests/fail/heads_must_divide_the_model_width.stderr");
const TWIN: &str = include_str!("../ui-tests/pass/heads_must_divide_the_model_width.rs");

fn main() {
    println!("Shows: a width of 512 that 7 heads do not divide is an error of the compiler.\n");
    println!("This program:\n\n{}", indented(PROGRAM));
    println!("does not compile. rustc says:\n\n{}", indented(ERROR));
    println!("With 8 heads it compiles and runs:\n\n{}", indented(TWIN));
    println!("DESIGN.md lists every rule with its message; BUGS.md has twenty bugs like this.");
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
