//! Reactions written as SMILES, cut into the tokens that the model was trained on.
//!
//! `REACTANTS>>PRODUCT`, molecules joined by dots. Where reagents stand between the
//! arrows (`REACTANTS>REAGENTS>PRODUCT`) they join the reactants, as in training.

use std::{collections::HashMap, fmt::Write};

use regex::Regex;
use serde_json::Value;

use super::element::element;

/// The model's pattern and vocabulary.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    pattern: Regex,
    ids: HashMap<String, usize>,
    unknown: usize,
    max_tokens: usize,
}

/// A reaction as the model sees it. All lists are as long as `tokens`.
#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    /// What was tokenised.
    pub(crate) text: String,
    /// From `[CLS]` to `[SEP]`.
    pub(crate) tokens: Vec<String>,
    pub(crate) ids: Vec<usize>,
    /// The element, in small letters, where the token is an atom.
    pub(crate) elements: Vec<Option<String>>,
    /// The position of `>>`: reactants before it, product after.
    pub(crate) arrow: usize,
    /// Tokens that the model never saw; it reads `[UNK]` in their place.
    pub(crate) unknown: Vec<String>,
}

impl Vocabulary {
    /// From the JSON that stands beside the model's weights.
    pub(crate) fn from_json(json: &Value) -> Result<Self, String> {
        let pattern = json["smiles_regex"].as_str().ok_or("no `smiles_regex`")?;
        let pattern = Regex::new(pattern).map_err(|error| {
            // regex shows the place of the fault over several lines.
            let words: Vec<_> = error.to_string().split_whitespace().map(str::to_owned).collect();
            format!("smiles_regex: {}", words.join(" "))
        })?;
        let vocab = json["vocab"].as_array().ok_or("no `vocab`")?;
        let ids: HashMap<String, usize> = vocab
            .iter()
            .enumerate()
            .filter_map(|(id, token)| Some((token.as_str()?.to_owned(), id)))
            .collect();
        let max_tokens = json["config"]["max_position_embeddings"].as_u64();
        let max_tokens = max_tokens.and_then(|count| usize::try_from(count).ok());
        let special = |token| ids.get(token).copied().ok_or(format!("no `{token}` in `vocab`"));
        special("[CLS]")?;
        special("[SEP]")?;
        Ok(Self {
            unknown: special("[UNK]")?,
            pattern,
            max_tokens: max_tokens.ok_or("no `max_position_embeddings`")?,
            ids,
        })
    }

    /// Reads a reaction, or says in one line why the text is none.
    pub(crate) fn parse(&self, text: &str) -> Result<Reaction, String> {
        let text = text.trim();
        self.read(text)
            .map_err(|why| format!("not a reaction that can be mapped: {why}: {}", excerpt(text)))
    }

    fn read(&self, text: &str) -> Result<Reaction, String> {
        let (precursors, product) = split_sides(&self.cut(text)?)?;
        for (side, name) in [(&precursors, "before"), (&product, "after")] {
            if side.is_empty() {
                return Err(format!("nothing {name} the arrow"));
            }
            check_molecules(side)?;
            if !side.iter().any(|token| element(token).is_some()) {
                return Err(format!("no atom {name} the arrow"));
            }
        }

        let arrow = precursors.len() + 1;
        let text = format!("{}>>{}", precursors.concat(), product.concat());
        let inner = [precursors, vec![">>"], product].concat();
        let tokens: Vec<String> =
            [vec!["[CLS]"], inner, vec!["[SEP]"]].concat().into_iter().map(str::to_owned).collect();
        if tokens.len() > self.max_tokens {
            let (have, most) = (tokens.len(), self.max_tokens);
            return Err(format!("{have} tokens, and the model has positions for {most}"));
        }
        let elements = tokens.iter().map(|token| element(token)).collect();
        let mut unknown: Vec<String> =
            tokens.iter().filter(|token| !self.ids.contains_key(*token)).cloned().collect();
        unknown.sort();
        unknown.dedup();
        let id = |token: &String| self.ids.get(token).copied().unwrap_or(self.unknown);
        let ids = tokens.iter().map(id).collect();
        Ok(Reaction { text, tokens, ids, elements, arrow, unknown })
    }

    /// Cuts the text by the pattern, which must leave nothing over.
    fn cut<'text>(&self, text: &'text str) -> Result<Vec<&'text str>, String> {
        if text.is_empty() {
            return Err("an empty text".into());
        }
        let mut tokens = Vec::new();
        let mut end = 0;
        for token in self.pattern.find_iter(text) {
            if token.start() > end {
                break;
            }
            tokens.push(token.as_str());
            end = token.end();
        }
        match text[end..].chars().next() {
            None => Ok(tokens),
            Some(stray) => {
                let at = text[..end].chars().count() + 1;
                Err(format!("{stray:?} at character {at} is not SMILES"))
            }
        }
    }
}

/// Reactants with reagents, and product, around the arrow.
fn split_sides<'text>(tokens: &[&'text str]) -> Result<(Vec<&'text str>, Vec<&'text str>), String> {
    let arrows: Vec<usize> =
        (0..tokens.len()).filter(|&at| matches!(tokens[at], ">" | ">>")).collect();
    match arrows[..] {
        [] => Err("no `>>`".into()),
        [at] if tokens[at] == ">>" => Ok((tokens[..at].to_vec(), tokens[at + 1..].to_vec())),
        [_] => Err("one `>`, which should be `>>`".into()),
        [first, second] if tokens[first] == ">" && tokens[second] == ">" => {
            let (mut precursors, reagents) = (tokens[..first].to_vec(), &tokens[first + 1..second]);
            if !precursors.is_empty() && !reagents.is_empty() {
                precursors.push(".");
            }
            precursors.extend_from_slice(reagents);
            Ok((precursors, tokens[second + 1..].to_vec()))
        }
        _ => Err("more than one arrow".into()),
    }
}

/// What can be told without chemistry: brackets hold atoms, parentheses and ring
/// numbers come in pairs, no molecule is empty.
fn check_molecules(side: &[&str]) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut rings: Vec<&str> = Vec::new();
    for &token in side {
        match token {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1).ok_or("`)` without `(`")?,
            // A star stands for any atom: legal, but of no element.
            _ if token.starts_with('[') && element(token).is_none() && !token.contains('*') => {
                return Err(format!("{} is no atom", excerpt(token)));
            }
            _ if token.starts_with(|it: char| it == '%' || it.is_ascii_digit()) => {
                let number = token.trim_start_matches(['%', '0']);
                match rings.iter().position(|ring| *ring == number) {
                    Some(at) => drop(rings.swap_remove(at)),
                    None => rings.push(number),
                }
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("`(` without `)`".into());
    }
    if let Some(ring) = rings.first() {
        return Err(format!("ring {} is not closed", if ring.is_empty() { "0" } else { ring }));
    }
    if side.split(|token| *token == ".").any(<[&str]>::is_empty) {
        return Err("an empty molecule beside a dot".into());
    }
    Ok(())
}

/// At most a line's worth of the text, its odd characters escaped.
fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    let mut short = String::from('"');
    for (count, letter) in text.chars().enumerate() {
        if count == MOST {
            short.push('…');
            break;
        }
        let _ = write!(short, "{}", letter.escape_debug());
    }
    short + "\""
}
