//! The examples' models in half types, beside themselves in f32.

use std::path::Path;

use shapeproof::{Batch, C, Float, Heads, NoMask, Seq, Tensor, bf16, dyn_size, f16};

use crate::dtype::{Dtype, with_dtype};
use crate::fixtures::reference;
use crate::generate::model::Glass;
use crate::map_atoms::{mapping::map_atoms, pairs, reference_reactions};
use crate::minilm::model::{Bert, Config, mean_of_tokens};
use crate::rxnmapper::{HEAD, LAYER, config, margin, model::Albert, weights_file};
use crate::sentence_similarity::{model_folder, words::TokenBatch};

#[test]
fn options_name_the_elements() {
    for name in ["f32", "f16", "bf16"] {
        let dtype = Dtype::parse(name).unwrap();
        assert_eq!(with_dtype!(dtype, E => <E as shapeproof::Element>::NAME), name);
    }
    assert_eq!(Dtype::default(), Dtype::F32);
    let error = Dtype::parse("f8").unwrap_err();
    assert_eq!(error, "--dtype is `f8`, expected f32, f16 or bf16");
}

/// One head's attention weights.
fn attention<E: Float>(model: &Albert<E>, ids: &[usize]) -> Vec<f32> {
    dyn_size!(length = ids.len());
    let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids.to_vec()).unwrap();
    let weights = model.attention(LAYER, &tokens, NoMask).unwrap();
    let head = weights.try_select(Batch, 0).unwrap().try_select(Heads, HEAD).unwrap();
    head.to::<f32>().to_vec()
}

/// How far a weight may be off after eleven layers, and so when two sources are told apart.
fn atoms_are_mapped<E: Float>(off: f32) {
    let whole = Albert::<f32>::load(&weights_file(), &config()).unwrap();
    let half = Albert::<E>::load(&weights_file(), &config()).unwrap();
    let mut compared = 0;
    for (_, reaction) in &reference_reactions().0 {
        let [exact, found] = [attention(&whole, &reaction.ids), attention(&half, &reaction.ids)];
        let worst = exact.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= off, "{}: a weight is off by {worst}", E::NAME);
        let wanted = map_atoms(reaction, &exact);
        let mapped = pairs(&map_atoms(reaction, &found));
        for ((atom, wanted), found) in wanted.iter().zip(pairs(&wanted)).zip(mapped) {
            if margin(reaction, &exact, atom) > 2.0 * off {
                assert_eq!(found, wanted, "{} {}", E::NAME, reaction.text);
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "{compared} atoms are told apart");
}

#[test]
fn atoms_are_mapped_in_halves_as_in_f32() {
    atoms_are_mapped::<f16>(0.01);
    atoms_are_mapped::<bf16>(0.08);
}

/// The logits behind each token of a text.
fn logits<E: Float>(model: &Glass<E>, ids: &[usize]) -> Vec<Vec<f32>> {
    let mut cache = model.cache(Batch(C::<1>)).unwrap();
    dyn_size!(length = ids.len());
    let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids.to_vec()).unwrap();
    let x = model.forward(&tokens, &mut cache).unwrap();
    model.logits(&x).to::<f32>().to_vec().chunks(1024).map(<[f32]>::to_vec).collect()
}

/// The likeliest token, and by how much.
fn best(logits: &[f32]) -> (usize, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    (order[0], logits[order[0]] - logits[order[1]])
}

/// Logits of size 18, off by so much at most; the next token is the same wherever f32 has a margin of 0.1.
fn text_goes_on<E: Float>(off: f32) {
    let (weights, json) = crate::generate::glass_files();
    let whole = Glass::<f32>::load(&weights, &json["config"]).unwrap();
    let half = Glass::<E>::load(&weights, &json["config"]).unwrap();
    let (_, reference) = reference("glassllm");
    let mut texts: Vec<Vec<usize>> = ["0", "1"]
        .map(|name| {
            let of = |what: &str| reference.usize(&format!("{name}.{what}"));
            [of("ids"), of("greedy")].concat()
        })
        .to_vec();
    texts.push(reference.usize("long.ids"));
    let mut compared = 0;
    for ids in texts {
        for (exact, found) in logits(&whole, &ids).iter().zip(logits(&half, &ids)) {
            let worst = exact.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= off, "{}: a logit is off by {worst}", E::NAME);
            let (token, ahead) = best(exact);
            if ahead > 0.1 {
                assert_eq!(best(&found).0, token, "{} {ahead}", E::NAME);
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared} tokens are told apart");
}

#[test]
fn text_goes_on_in_halves_as_in_f32() {
    text_goes_on::<f16>(0.05);
    text_goes_on::<bf16>(0.4);
}

#[test]
fn sentences_are_as_similar_in_halves_as_in_f32() {
    let Some(folder) = model_folder("halves") else { return };
    let (_, reference) = reference("minilm");
    let batch = crate::minilm::batch(&reference);
    fn cosines<E: Float>(folder: &Path, batch: &TokenBatch) -> Vec<f32> {
        type MiniLm<E> = Bert<C<384>, C<12>, C<1536>, C<30522>, C<512>, E>;
        let config = Config::read(&folder.join("config.json")).unwrap();
        let model = MiniLm::<E>::load(&config, &folder.join("model.safetensors")).unwrap();
        dyn_size!(sentences = batch.batch, length = batch.length);
        let shape = (Batch(sentences), Seq(length));
        let tokens = Tensor::try_from_vec(shape, batch.ids.clone()).unwrap();
        let keep = Tensor::try_from_vec(shape, batch.keep.clone()).unwrap();
        let hidden = model.forward(&tokens, &keep).unwrap().to::<f32>();
        let rows = mean_of_tokens(&hidden, &keep).to_vec();
        let rows: Vec<_> = rows.chunks(384).collect();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        rows.iter().flat_map(|a| rows.iter().map(|b| dot(a, b)).collect::<Vec<_>>()).collect()
    }
    let whole = cosines::<f32>(&folder, &batch);
    for half in [cosines::<f16>(&folder, &batch), cosines::<bf16>(&folder, &batch)] {
        let worst = whole.iter().zip(&half).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 5e-3, "a similarity is off by {worst}");
    }
}
