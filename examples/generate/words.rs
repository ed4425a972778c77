//! Text to tokens and back: byte-pair encoding, as the model's file describes it.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokenizers::{NormalizedString, Normalizer, Tokenizer};

/// A text is cut into lines and words with the spaces before them; merges stay inside.
const PIECES: &str = r"\n|▁*[^▁\n]+|▁+";
const UNKNOWN: &str = "<unk>";

/// The model's tokenizer.
pub(crate) struct Words {
    tokenizer: Tokenizer,
    /// By id; the first are not text.
    texts: Vec<String>,
    specials: usize,
    end: Option<usize>,
}

impl Words {
    /// Reads `tokenizer` of the model's JSON. The `Err` is one line.
    pub(crate) fn from_json(model: &Value) -> Result<Self, String> {
        let json = &model["tokenizer"];
        let specials = texts(json, "specials")?;
        let alphabet = texts(json, "alphabet")?;
        let space = json["space"].as_str().ok_or("no text `space` in `tokenizer`")?;
        let merges: Vec<(String, String)> = serde_json::from_value(json["merges"].clone())
            .map_err(|error| format!("`merges` in `tokenizer`: {error}"))?;

        let merged = merges.iter().map(|(left, right)| format!("{left}{right}"));
        let all: Vec<String> = specials.iter().chain(&alphabet).cloned().chain(merged).collect();
        let ids: HashMap<&str, usize> =
            all.iter().enumerate().map(|(id, text)| (text.as_str(), id)).collect();
        if ids.len() != all.len() {
            return Err("`tokenizer` has a token twice".into());
        }
        let settings = json!({
            "version": "1.0",
            "added_tokens": [],
            "normalizer": { "type": "Sequence", "normalizers": [
                { "type": "NFC" },
                { "type": "Replace", "pattern": { "String": " " }, "content": space },
            ] },
            "pre_tokenizer": {
                "type": "Split",
                "pattern": { "Regex": PIECES },
                "behavior": "Isolated",
                "invert": false,
            },
            "model": { "type": "BPE", "unk_token": UNKNOWN, "vocab": ids, "merges": merges },
        });
        let tokenizer = Tokenizer::from_bytes(settings.to_string())
            .map_err(|error| error.to_string().replace('\n', " "))?;
        let end = specials.iter().position(|text| text == "<eos>");
        let texts = all.iter().map(|text| text.replace(space, " ")).collect();
        Ok(Words { tokenizer, texts, specials: specials.len(), end })
    }

    /// How many tokens there are.
    pub(crate) fn count(&self) -> usize {
        self.texts.len()
    }

    /// The token behind the end of a text.
    pub(crate) fn end(&self) -> Option<usize> {
        self.end
    }

    /// Whether a token stands for text, or for its end: the model may choose it.
    pub(crate) fn is_text_or_end(&self, token: usize) -> bool {
        token >= self.specials || Some(token) == self.end
    }

    /// The tokens of a text. The `Err` names what the model has no token for.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<usize>, String> {
        let encoding = self.tokenizer.encode(text, false).map_err(|error| error.to_string())?;
        let unknown = self.tokenizer.token_to_id(UNKNOWN);
        if encoding.get_ids().iter().any(|id| Some(*id) == unknown) {
            return Err(format!("the model has no token for {}", self.unknown(text)?));
        }
        let id = |id: &u32| usize::try_from(*id).expect("an id of 32 bits");
        Ok(encoding.get_ids().iter().map(id).collect())
    }

    /// What a token reads like.
    pub(crate) fn text(&self, token: usize) -> &str {
        self.texts.get(token).map_or("", String::as_str)
    }

    /// The characters that are no tokens, each once.
    fn unknown(&self, text: &str) -> Result<String, String> {
        let mut normal = NormalizedString::from(text);
        if let Some(normalizer) = self.tokenizer.get_normalizer() {
            normalizer.normalize(&mut normal).map_err(|error| error.to_string())?;
        }
        let mut named: Vec<String> = Vec::new();
        for letter in normal.get().chars() {
            let name = format!("{letter:?} (U+{:04X})", u32::from(letter));
            if self.tokenizer.token_to_id(&letter.to_string()).is_none() && !named.contains(&name) {
                named.push(name);
            }
        }
        Ok(named.join(", "))
    }
}

fn texts(json: &Value, key: &str) -> Result<Vec<String>, String> {
    serde_json::from_value(json[key].clone())
        .map_err(|error| format!("`{key}` in `tokenizer`: {error}"))
}
