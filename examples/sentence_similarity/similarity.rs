//! The cosine of every two sentence vectors, and how it prints.

/// Cosines of all pairs of rows, row by row. A vector of zeros is similar to nothing.
pub(crate) fn cosines(vectors: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let dot = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let lengths: Vec<f32> = vectors.iter().map(|vector| dot(vector, vector).sqrt()).collect();
    let cosine = |a: usize, b: usize| {
        let product = lengths[a] * lengths[b];
        if product > 0.0 { dot(&vectors[a], &vectors[b]) / product } else { 0.0 }
    };
    let all = 0..vectors.len();
    all.clone().map(|a| all.clone().map(|b| cosine(a, b)).collect()).collect()
}

/// A table with the sentences as rows and their numbers as columns.
pub(crate) fn table<S: AsRef<str>>(sentences: &[S], cosines: &[Vec<f32>]) -> String {
    let names: Vec<String> = sentences
        .iter()
        .enumerate()
        .map(|(at, sentence)| format!("{:>2}  {}", at + 1, short(sentence.as_ref())))
        .collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let heads: String = (1..=cosines.len()).map(|at| format!("{at:>8}")).collect();
    let mut table = format!("{:width$}{heads}\n", "");
    for (name, row) in names.iter().zip(cosines) {
        let row: String = row.iter().map(|cosine| format!("{cosine:>8.4}")).collect();
        table += &format!("{name:width$}{row}\n");
    }
    table
}

/// At most forty characters on one line.
fn short(sentence: &str) -> String {
    const MOST: usize = 40;
    let words = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= MOST {
        return words;
    }
    words.chars().take(MOST - 1).chain(['…']).collect()
}
