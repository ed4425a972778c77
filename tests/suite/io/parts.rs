//! Several parameters in one tensor, put there by rule.

use super::{Folder, assert_says, in_out, out_in, refusal, round_trip, tensor};
use shapeproof::{
    Bias, C, Checkpoint, Float, LayerNorm, Model, MultiHeadAttention, NoBias, NoKeyBias, Parameter,
    Source, TensorFile, save_tensors,
};

type Attention<B = Bias, E = f32> = MultiHeadAttention<C<4>, C<2>, C<4>, C<4>, B, E>;

/// As PyTorch names the packed projections.
fn packed(name: &str) -> Source {
    let part = |index| match name.ends_with("weight") {
        true => Source::key("in_proj_weight").part(index, 3),
        false => Source::key("in_proj_bias").part(index, 3),
    };
    match name.split_once('.') {
        Some(("q_proj", _)) => part(0),
        Some(("k_proj", _)) => part(1),
        Some(("v_proj", _)) => part(2),
        _ => Source::key(name),
    }
}

fn both<E: Float>() {
    for checkpoint in [out_in(), in_out()] {
        let checkpoint = checkpoint.sources(packed);
        round_trip(&checkpoint, &mut Attention::<Bias, E>::zeros(), &mut Attention::zeros());
        round_trip(&checkpoint, &mut Attention::<NoBias, E>::zeros(), &mut Attention::zeros());
    }
}

#[test]
fn packed_projections_come_back_in_both_orders_and_types() {
    both::<f32>();
    both::<f64>();
}

#[test]
fn parts_lie_along_the_output_axis() {
    let folder = Folder::new();
    let mut attention = Attention::<Bias>::zeros();
    super::fill(&mut attention, 1);
    let [q, k, v] = [&attention.q, &attention.k, &attention.v].map(|map| map.weight.value());
    let saved = |checkpoint: Checkpoint, key: &str| {
        checkpoint.sources(packed).save(&attention, folder.path("packed")).unwrap();
        let value = TensorFile::open(folder.path("packed")).unwrap().read(key).unwrap();
        (value.dims().to_vec(), value.to::<f32>().to_vec())
    };

    let rows = [q.to_vec(), k.to_vec(), v.to_vec()];
    let in_by_out: Vec<f32> =
        (0..4).flat_map(|i| rows.iter().flat_map(move |w| w[4 * i..][..4].to_vec())).collect();
    assert_eq!(saved(in_out(), "in_proj_weight"), (vec![4, 12], in_by_out.clone()));
    let out_by_in = (0..48).map(|i| in_by_out[i % 4 * 12 + i / 4]).collect();
    assert_eq!(saved(out_in(), "in_proj_weight"), (vec![12, 4], out_by_in));

    let biases = [&attention.q, &attention.k, &attention.v].map(|map| map.bias.value().to_vec());
    assert_eq!(saved(out_in(), "in_proj_bias"), (vec![12], biases.concat()));
}

#[test]
fn a_tensor_that_is_no_multiple_of_its_parts_is_refused() {
    let folder = Folder::new();
    let path = folder.path("packed");
    let rest = |dims: &[usize], count| {
        [
            ("in_proj_weight", tensor(dims, &vec![0.5; count])),
            ("in_proj_bias", tensor(&[12], &[0.5; 12])),
            ("out_proj.weight", tensor(&[4, 4], &[0.5; 16])),
            ("out_proj.bias", tensor(&[4], &[0.5; 4])),
        ]
    };
    let checkpoint = out_in().sources(packed);
    save_tensors(&path, rest(&[13, 4], 52)).unwrap();
    let message = refusal(&checkpoint, &mut Attention::<Bias>::zeros(), &path);
    assert_eq!(
        message,
        "key \"in_proj_weight\": expected sizes [12, 4] for part 0 of 3, (Model 4, Model 4) as [out, in], found \
         [13, 4] (for parameter \"q_proj.weight\")"
    );
    save_tensors(&path, rest(&[4, 12], 48)).unwrap();
    let message = refusal(&checkpoint, &mut Attention::<Bias>::zeros(), &path);
    assert_says(&message, &["found [4, 12]; transposed? its layout may be the other one"]);
}

#[test]
fn parts_out_of_range_are_refused_by_both_directions() {
    let folder = Folder::new();
    let path = folder.path("norm");
    let mut norm = LayerNorm::<Model<C<4>>>::new(1e-5);
    out_in().save(&norm, &path).unwrap();
    for (index, of) in [(3, 3), (0, 0), (usize::MAX, 2), (usize::MAX, usize::MAX)] {
        let checkpoint = out_in().sources(|name| Source::key(name).part(index, of));
        let words = [format!("expected a part below {of}, found part {index}")];
        let words = words.each_ref().map(String::as_str);
        assert_says(&refusal(&checkpoint, &mut norm, &path), &words);
        let error = checkpoint.save(&norm, &path).unwrap_err();
        assert_says(&super::message(&error, &path), &words);
    }
    // Enough parts to overflow, in time and in memory too.
    let checkpoint = out_in().sources(|name| Source::key(name).part(1, usize::MAX));
    refusal(&checkpoint, &mut norm, &path);
    let error = checkpoint.save(&norm, &path).unwrap_err();
    assert_says(&super::message(&error, &path), &["part 0 of", "belongs to no parameter"]);
}

struct One(Parameter<()>);
impl shapeproof::Module for One {
    fn visit<'a>(&'a self, visitor: &mut dyn shapeproof::Visitor<'a>) {
        visitor.parameter("one", &self.0);
    }
    fn visit_mut<'a>(&'a mut self, visitor: &mut dyn shapeproof::VisitorMut<'a>) {
        visitor.parameter("one", &mut self.0);
    }
}

#[test]
fn a_single_number_has_no_parts() {
    let folder = Folder::new();
    let path = folder.path("one");
    let mut one = One(Parameter::zeros());
    out_in().save(&one, &path).unwrap();
    let checkpoint = out_in().sources(|name| Source::key(name).part(0, 1));
    let message = refusal(&checkpoint, &mut one, &path);
    assert_says(&message, &["expected all of a single number, found part 0 of 1"]);
}

#[test]
fn a_part_that_no_parameter_has_is_refused_unless_allowed() {
    let folder = Folder::new();
    let path = folder.path("packed");
    out_in().sources(packed).save(&Attention::<Bias>::zeros(), &path).unwrap();
    let mut without_key = Attention::<NoKeyBias>::zeros();
    let checkpoint = out_in().sources(packed);
    let message = refusal(&checkpoint, &mut without_key, &path);
    assert_eq!(message, "key \"in_proj_bias\": entries 4 to 7 belong to no parameter");
    let loaded = checkpoint.allow_extra(|key| key == "in_proj_bias").load(&mut without_key, &path);
    assert_eq!(loaded.unwrap().extra, ["in_proj_bias"]);
}

#[test]
fn saving_some_parts_of_a_key_is_refused() {
    let folder = Folder::new();
    let path = folder.path("packed");
    let checkpoint = out_in().sources(packed);
    let error = checkpoint.save(&Attention::<NoKeyBias>::zeros(), &path).unwrap_err();
    let message = super::message(&error, &path);
    assert_eq!(message, "key \"in_proj_bias\": part 1 of 3 belongs to no parameter");
    assert!(folder.names().is_empty());
}

#[test]
fn saving_parts_of_different_sizes_is_refused() {
    let folder = Folder::new();
    let path = folder.path("packed");
    let attention = MultiHeadAttention::<C<4>, C<2>, C<3>, C<3>>::zeros();
    let error = out_in().sources(packed).save(&attention, &path).unwrap_err();
    assert_says(
        &super::message(&error, &path),
        &["key \"in_proj_weight\"", "sizes [4, 4]", "found [4, 3]", "k_proj.weight"],
    );
}
