//! The example `generate`: its tokens, its model with and without a cache, its choices
//! and its text, against the reference.

#[path = "../../examples/generate/cli.rs"]
mod cli;
#[path = "../../examples/generate/model.rs"]
pub(crate) mod model;
#[path = "../../examples/generate/sampling.rs"]
mod sampling;
#[path = "../../examples/generate/text.rs"]
mod text;
#[path = "../../examples/generate/words.rs"]
pub(crate) mod words;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use shapeproof::{
    Attention, Batch, C, Causal, Infer, Key, Query, Seq, Size, Tensor, count_parameters, dyn_size,
};

use self::{
    cli::{Command, Request, Sampling},
    model::{Cache, Glass, Hidden},
    sampling::Sampler,
    text::{End, Failure},
    words::Words,
};
use crate::dtype::Dtype;
use crate::fixtures::{Config, assert_close, read_json, reference};

/// What the reference allows on logits of size 18.
const LOGITS: f64 = 1e-4;
/// Of weights, and of what comes out of a layer of attention, which is at most 3.
const WEIGHTS: f64 = 5e-6;
const OUTPUT: f64 = 2e-5;

static LOADED: LazyLock<(Glass, Words)> = LazyLock::new(|| {
    let (weights, json) = glass_files();
    (Glass::load(&weights, &json["config"]).unwrap(), Words::from_json(&json).unwrap())
});

/// The model's weights, and what the JSON beside them has.
pub(crate) fn glass_files() -> (PathBuf, serde_json::Value) {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models");
    (models.join("glassllm_en.safetensors"), read_json(&models.join("glassllm_en.json")))
}

/// The logits of all positions, the tokens fed in steps of these lengths.
fn logits(ids: &[usize], steps: &[usize]) -> Vec<f32> {
    let model = &LOADED.0;
    let mut cache = model.cache(Batch(C::<1>)).unwrap();
    let (mut all, mut start) = (Vec::new(), 0);
    for count in steps {
        dyn_size!(new = *count);
        let tokens = ids[start..start + count].to_vec();
        let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(new)), tokens).unwrap();
        all.extend(model.logits(&model.forward(&tokens, &mut cache).unwrap()).to_vec());
        start += count;
    }
    assert_eq!(start, ids.len());
    all
}

fn prompts() -> Vec<Config> {
    let prompts = reference("glassllm").0.objects("prompts");
    assert_eq!(prompts.len(), 2);
    prompts
}

#[test]
fn tokens_of_the_prompts_are_those_of_the_reference() {
    let words = &LOADED.1;
    assert_eq!(words.count(), 1024);
    for prompt in prompts() {
        let ids = words.encode(prompt.text("prompt")).unwrap();
        assert_eq!(ids, prompt.usizes("ids"));
        let texts: Vec<_> = prompt.texts("tokens").iter().map(|it| it.replace('▁', " ")).collect();
        assert_eq!(ids.iter().map(|id| words.text(*id)).collect::<Vec<_>>(), texts);
    }
}

#[test]
fn texts_come_back_from_their_tokens() {
    let words = &LOADED.1;
    for text in ["  two  spaces ", "a\n\n b\n", " ", "\n", "\u{f9}", "don\u{2019}t\u{2014}[x]"] {
        let ids = words.encode(text).unwrap();
        assert_eq!(ids.iter().map(|id| words.text(*id)).collect::<String>(), text);
    }
    // Composed first: u and a grave accent are the letter ù, which is a token.
    assert_eq!(words.encode("u\u{300}").unwrap(), words.encode("\u{f9}").unwrap());
    assert_eq!(words.encode("").unwrap(), [0; 0]);
}

#[test]
fn characters_without_a_token_are_named() {
    let words = &LOADED.1;
    let error = words.encode("naïve café, naïve").unwrap_err();
    assert_eq!(error, "the model has no token for 'ï' (U+00EF), 'é' (U+00E9)");
    assert!(words.encode("<eos>").unwrap_err().contains("'<' (U+003C)"));
    assert!(words.encode("\u{0}").is_err());
}

#[test]
fn logits_are_those_of_the_reference_with_and_without_a_cache() {
    let tensors = reference("glassllm").1;
    assert_eq!(count_parameters(&LOADED.0), 852_608);
    for (at, prompt) in prompts().iter().enumerate() {
        let ids = prompt.usizes("ids");
        let want = tensors.f64(&format!("{at}.logits"));
        let half = ids.len() / 2;
        for steps in [vec![ids.len()], vec![1; ids.len()], vec![half, 0, ids.len() - half]] {
            assert_close(&format!("{at} {steps:?}"), &logits(&ids, &steps), &want, 0.0, LOGITS);
        }
    }
}

#[test]
fn a_full_context_is_that_of_the_reference() {
    let tensors = reference("glassllm").1;
    let ids = tensors.usize("long.ids");
    let argmax = tensors.usize("long.argmax");
    for steps in [vec![128], vec![100, 27, 1]] {
        let logits = logits(&ids, &steps);
        for (row, want) in logits.chunks(1024).zip(&argmax) {
            assert_eq!(Sampler::new(Sampling::GREEDY).choose(row, |_| true), Some(*want));
        }
        let last = tensors.f64("long.logits_last");
        assert_close("last", &logits[127 * 1024..], &last, 0.0, LOGITS);
    }
}

/// The tokens' vectors before layer `layer`, no cache involved.
fn before<S: Size>(layer: usize, embedded: &Hidden<C<1>, S>, length: Seq<S>) -> Hidden<C<1>, S> {
    let model = &LOADED.0;
    let positions = model.positions.try_slice(0, length).unwrap();
    model.blocks[..layer].iter().fold(embedded.clone(), |x, block| {
        let attend = |x: &Hidden<C<1>, S>| {
            Ok(block.attention.forward_rotated(x, &positions, Causal, &mut Infer))
        };
        block.around(&x, attend).unwrap()
    })
}

#[test]
fn attention_of_the_first_and_last_layer_is_that_of_the_reference() {
    let (model, _) = &*LOADED;
    let tensors = reference("glassllm").1;
    for (at, prompt) in prompts().iter().enumerate() {
        let ids = prompt.usizes("ids");
        dyn_size!(length = ids.len());
        let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids).unwrap();
        let embedded = model.words.try_forward(&tokens, &mut Infer).unwrap();
        for layer in [0, 3] {
            let block = &model.blocks[layer];
            let x = before(layer, &embedded, Seq(length));
            let x = block.attention_norm.forward(&x, &mut Infer);
            let (q, k, v) = block.attention.project(&x, &mut Infer);
            let positions = model.positions.try_slice(0, Seq(length)).unwrap();
            let (q, k) = (positions.rotate(&q), positions.rotate(&k));
            let (y, weights) = Attention::new().apply_with_weights(&q, &k, &v, Causal);
            let out = block.attention.output(&y, &mut Infer);
            let want = |what: &str| tensors.f64(&format!("{at}.layer{layer}.attn.{what}"));
            assert_close("weights", &weights.to_vec(), &want("softmax"), 0.0, WEIGHTS);
            assert_close("output", &out.to_vec(), &want("out"), 0.0, OUTPUT);

            // The same, the last query alone against cached keys.
            let mut cache: Cache<C<1>> = model.cache(Batch(C)).unwrap();
            let mut step = cache.begin(Seq(length)).unwrap();
            step.append(layer, &k, &v).unwrap();
            let (k, v) = step.view(layer, Key(length)).unwrap();
            let q = q.try_slice(Query, length.get() - 1, C::<1>).unwrap();
            let (_, last) = Attention::new().apply_with_weights(&q, &k, &v, Causal);
            let n = length.get();
            let rows = want("softmax");
            let wanted: Vec<f64> =
                rows.chunks(n * n).flat_map(|head| head[(n - 1) * n..].to_vec()).collect();
            assert_close("cached weights", &last.to_vec(), &wanted, 0.0, WEIGHTS);
        }
    }
}

fn request(prompt: &str, tokens: usize) -> Request {
    Request {
        prompt: prompt.into(),
        tokens,
        sampling: Sampling::GREEDY,
        dtype: Dtype::F32,
        stats: false,
    }
}

fn written(request: &Request) -> (String, End, usize) {
    let mut out = Vec::new();
    let report = text::write(&LOADED.0, &LOADED.1, request, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), report.end, report.added)
}

#[test]
fn the_likeliest_text_is_that_of_the_reference() {
    let tensors = reference("glassllm").1;
    for (at, prompt) in prompts().iter().enumerate() {
        let text = prompt.text("prompt");
        let want = format!("{text}{}", prompt.text("greedy_text"));
        assert_eq!(written(&request(text, 40)), (want, End::Asked, 40));
        let ids = tensors.usize(&format!("{at}.greedy"));
        let words = &LOADED.1;
        let texts: String = ids.iter().map(|id| words.text(*id)).collect();
        assert_eq!(texts, prompt.text("greedy_text"));
        assert_eq!(written(&request(text, 0)), (text.to_owned(), End::Asked, 0));
    }
}

#[test]
fn a_text_that_fills_the_context_ends() {
    let tensors = reference("glassllm").1;
    let words = &LOADED.1;
    let ids = tensors.usize("long.ids");
    // Cut where the text's own tokens are again these.
    let text: String = ids.iter().map(|id| words.text(*id)).collect();
    assert_eq!(words.encode(&text).unwrap().len(), 128);
    let (whole, end, added) = written(&request(&text, 5));
    assert_eq!((end, added), (End::ContextFull, 1), "behind 128 tokens there is one more");
    let next = words.text(tensors.usize("long.argmax")[127]);
    assert_eq!(whole, format!("{text}{next}"));
    assert_eq!(written(&request(&text, 1)).1, End::Asked);

    let (whole, end, added) = written(&request("Alice was beginning to", 1000));
    assert_eq!((end, added), (End::ContextFull, 124));
    assert!(whole.starts_with("Alice was beginning to the\nQueen"));

    let long = request(&format!("{text} and so on"), 5);
    let error = text::write(&LOADED.0, words, &long, &mut Vec::new()).unwrap_err();
    let message = error.message();
    assert!(matches!(error, Failure::Prompt(_)));
    assert!(message.ends_with("tokens, the model sees at most 128"), "{message}");
}

#[test]
fn what_cannot_be_written_is_an_error() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = text::write(&LOADED.0, &LOADED.1, &request("A", 5), &mut Closed).unwrap_err();
    assert!(error.message().starts_with("standard output: "), "{error:?}");
    let mut out = Vec::new();
    let error = text::write(&LOADED.0, &LOADED.1, &request("é", 5), &mut out).unwrap_err();
    assert!(matches!(error, Failure::Prompt(_)));
    assert!(out.is_empty(), "a refused text is not written");
}

#[test]
fn a_refused_step_leaves_the_cache_as_it_was() {
    let model = &LOADED.0;
    let mut cache = model.cache(Batch(C::<1>)).unwrap();
    let first = model.follow(&[494, 160], &mut cache).unwrap();
    assert!(model.follow(&[160, 1024], &mut cache).is_err(), "no such token");
    assert!(model.follow(&[1; 127], &mut cache).is_err(), "no room");
    assert!(model.follow(&[], &mut cache).is_err());
    assert_eq!(cache.length().unwrap(), 2);
    cache.truncate(1).unwrap();
    assert_close(
        "again",
        &model.follow(&[160], &mut cache).unwrap(),
        &first.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(),
        0.0,
        LOGITS,
    );
}

/// The shares of the tokens among 20,000 draws from `logits`.
fn shares(logits: &[f32], sampling: Sampling) -> Vec<f64> {
    let mut sampler = Sampler::new(sampling);
    let mut counts = vec![0.0; logits.len()];
    for _ in 0..20_000 {
        counts[sampler.choose(logits, |_| true).unwrap()] += 1.0;
    }
    counts.iter().map(|count| count / 20_000.0).collect()
}

#[test]
fn draws_follow_the_settings() {
    // Probabilities 0.1, 0.4, 0.2, 0.3 at temperature 1.
    let logits = [0.1_f32, 0.4, 0.2, 0.3].map(f32::ln);
    let one = Sampling { temperature: 1.0, seed: 3, ..Sampling::GREEDY };
    // Three standard deviations of a share are 0.0104 at most.
    let close = |sampling, want: [f64; 4]| {
        assert_close(&format!("{sampling:?}"), &shares(&logits, sampling), &want, 0.0, 0.0104);
    };
    close(one, [0.1, 0.4, 0.2, 0.3]);
    close(Sampling { temperature: 0.5, ..one }, [1.0, 16.0, 4.0, 9.0].map(|x| x / 30.0));
    close(Sampling { top_k: Some(2), ..one }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
    close(Sampling { top_k: Some(9), ..one }, [0.1, 0.4, 0.2, 0.3]);
    close(Sampling { top_p: Some(0.75), ..one }, [0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]);
    close(Sampling { top_p: Some(0.6), ..one }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
    close(Sampling { top_p: Some(1e-9), ..one }, [0.0, 1.0, 0.0, 0.0]);
    close(Sampling { top_k: Some(1), ..one }, [0.0, 1.0, 0.0, 0.0]);
    close(Sampling::GREEDY, [0.0, 1.0, 0.0, 0.0]);
    close(Sampling { temperature: 1e-300, ..one }, [0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn draws_depend_on_the_seed_and_on_nothing_else() {
    let text = |seed| {
        let sampling = Sampling { temperature: 1.0, seed, ..Sampling::GREEDY };
        written(&Request { sampling, ..request("Alice", 12) }).0
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn tokens_that_are_no_text_are_not_chosen() {
    let words = &LOADED.1;
    let logits: Vec<f32> = (0..8_u8).map(|i| 10.0 - f32::from(i)).collect();
    let chosen = Sampler::new(Sampling::GREEDY).choose(&logits, |id| words.is_text_or_end(id));
    assert_eq!((chosen, words.end()), (Some(3), Some(3)));
    assert_eq!(Sampler::new(Sampling::GREEDY).choose(&logits, |_| false), None);
    let drawn = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    assert_eq!(Sampler::new(drawn).choose(&[], |_| true), None);
    assert_eq!(Sampler::new(drawn).choose(&[f32::NAN; 3], |id| id == 1), Some(1));
}

#[test]
fn times_are_one_line() {
    let ms = std::time::Duration::from_millis;
    let report = text::Report { end: End::Asked, added: 11, first: ms(20), whole: ms(120) };
    assert_eq!(report.stats(), "first token after 20.0 ms, then 100 tokens a second");
    let one = text::Report { added: 1, whole: ms(20), ..report };
    assert_eq!(one.stats(), "first token after 20.0 ms");
    assert_eq!(text::Report { added: 0, ..one }.stats(), "no token was added");
}

#[test]
fn generate_reads_its_arguments() {
    for option in ["--tokens", "--temperature", "--top-k", "--top-p", "--seed", "--stats"] {
        assert!(cli::HELP.contains(option));
    }
    let parse = |args: &[&str]| cli::parse(args.iter().map(OsString::from));
    let generate = |request| Ok(Command::Generate(request));
    assert_eq!(parse(&["A cat"]), generate(request("A cat", 40)));
    assert_eq!(parse(&["--tokens", "3", "A"]), generate(request("A", 3)));
    assert_eq!(parse(&["A", "--stats"]), generate(Request { stats: true, ..request("A", 40) }));
    assert_eq!(parse(&["--", "-A"]), generate(request("-A", 40)));
    assert_eq!(parse(&["A", "-h"]), Ok(Command::Help));
    let drawn = |sampling| generate(Request { sampling, ..request("A", 40) });
    let one = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    assert_eq!(parse(&["A", "--temperature=0.5"]), drawn(Sampling { temperature: 0.5, ..one }));
    assert_eq!(parse(&["A", "--top-k", "5"]), drawn(Sampling { top_k: Some(5), ..one }));
    assert_eq!(parse(&["A", "--top-p", "1"]), drawn(Sampling { top_p: Some(1.0), ..one }));
    assert_eq!(parse(&["A", "--seed", "7"]), drawn(Sampling { seed: 7, ..one }));
    let both = Sampling { temperature: 0.0, top_k: Some(2), ..one };
    assert_eq!(parse(&["A", "--top-k=2", "--temperature=0"]), drawn(both));
}

#[test]
fn wrong_arguments_of_generate_get_one_line_that_says_why() {
    for (args, wanted) in [
        (&[][..], "no text (see --help)"),
        (&[""], "the text is empty"),
        (&["A", "B"], "expected one text in quotes, found 2"),
        (&["A", "--tokens"], "--tokens needs a value"),
        (&["A", "--tokens", "-1"], "--tokens is `-1`, expected a whole number"),
        (&["A", "--tokens=1e3"], "--tokens is `1e3`, expected a whole number"),
        (&["A", "--temperature=-1"], "--temperature is `-1`, expected a number from 0 on"),
        (&["A", "--temperature=NaN"], "--temperature is `NaN`, expected a number from 0 on"),
        (&["A", "--top-k=0"], "--top-k is `0`, expected a whole number from 1 on"),
        (&["A", "--top-p=0"], "--top-p is `0`, expected a number above 0, at most 1"),
        (&["A", "--top-p=1.5"], "--top-p is `1.5`, expected a number above 0, at most 1"),
        (&["A", "--seed=x"], "--seed is `x`, expected a whole number"),
        (&["A", "--color"], "unknown option `--color` (see --help)"),
        (&["A", "--stats=yes"], "unknown option `--stats=yes` (see --help)"),
    ] {
        let parsed = cli::parse(args.iter().map(OsString::from));
        assert_eq!(parsed, Err(wanted.to_owned()));
    }
}
