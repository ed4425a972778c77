//! Sentences to token ids, padded to one length.

use std::path::Path;

use tokenizers::Tokenizer;

/// The model's tokenizer, without the truncation and the padding that its file asks
/// for: those cut at 128 tokens and fill up to 128, where the model has 512 positions
/// and a batch needs its own longest sentence only.
pub(crate) struct Words {
    tokenizer: Tokenizer,
    padding: usize,
    max_tokens: usize,
}

/// A batch of sentences, row by row, each filled up to the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenBatch {
    pub(crate) ids: Vec<usize>,
    /// `true` at a token, `false` at padding.
    pub(crate) keep: Vec<bool>,
    pub(crate) batch: usize,
    pub(crate) length: usize,
    /// One line for each sentence that was cut.
    pub(crate) notices: Vec<String>,
}

impl Words {
    /// Reads `tokenizer.json`. The `Err` is one line.
    pub(crate) fn load(file: &Path, max_tokens: usize) -> Result<Self, String> {
        let one_line = |error: tokenizers::Error| {
            let error = error.to_string().replace('\n', " ");
            format!("{}: {error}", file.display())
        };
        let mut tokenizer = Tokenizer::from_file(file).map_err(one_line)?;
        tokenizer.with_truncation(None).map_err(one_line)?;
        tokenizer.with_padding(None);
        let padding = tokenizer.token_to_id("[PAD]");
        let padding = padding.ok_or_else(|| format!("{}: no [PAD] token", file.display()))?;
        Ok(Self { tokenizer, padding: index(padding), max_tokens })
    }

    /// One sentence's tokens and ids, from `[CLS]` to `[SEP]`, however many.
    pub(crate) fn encode(&self, sentence: &str) -> Result<(Vec<String>, Vec<usize>), String> {
        let encoding = self.tokenizer.encode(sentence, true).map_err(|error| error.to_string())?;
        let ids = encoding.get_ids().iter().copied().map(index).collect();
        Ok((encoding.get_tokens().to_vec(), ids))
    }

    /// All sentences as one batch. A sentence longer than the model's positions keeps
    /// its beginning and the closing `[SEP]`, and is named in the notices.
    pub(crate) fn batch<S: AsRef<str>>(&self, sentences: &[S]) -> Result<TokenBatch, String> {
        let mut rows = Vec::with_capacity(sentences.len());
        let mut notices = Vec::new();
        for (at, sentence) in sentences.iter().enumerate() {
            let (_, mut ids) = self.encode(sentence.as_ref())?;
            if ids.len() > self.max_tokens {
                notices.push(format!(
                    "sentence {} has {} tokens, and is cut to the {} that the model has positions for",
                    at + 1,
                    ids.len(),
                    self.max_tokens
                ));
                ids.drain(self.max_tokens - 1..ids.len() - 1);
            }
            rows.push(ids);
        }
        let (batch, length) = (rows.len(), rows.iter().map(Vec::len).max().unwrap_or(0));
        let (mut ids, mut keep) = (Vec::new(), Vec::new());
        for row in &rows {
            let padding = length - row.len();
            ids.extend(row.iter().copied().chain(std::iter::repeat_n(self.padding, padding)));
            keep.extend((0..length).map(|at| at < row.len()));
        }
        Ok(TokenBatch { ids, keep, batch, length, notices })
    }
}

fn index(id: u32) -> usize {
    usize::try_from(id).expect("an id of 32 bits")
}
