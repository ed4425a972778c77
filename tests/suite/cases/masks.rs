//! Which way a mask means, where it lies, what it is combined with.

use shapeproof::{
    Batch, C, Causal, CausalFromStart, EncoderConfig, EncoderLayer, Generator, Infer, Key, Mask,
    Model, MultiHeadAttention, Parameter, ScoreBias, Seq, Tensor, scaled_dot_product_attention,
};

use super::{ByHead, K, Q, attention_equals_plain_loops, means, same_bits};
use crate::masks::{Over, Part, Sizes, attend};

fn keys<const S: usize>(flags: [bool; S]) -> Tensor<(K<S>,), bool> {
    Tensor::from(flags)
}

// line/lighthouse#77
#[test]
fn a_mask_of_each_sample_reaches_all_heads_of_that_sample_and_no_other() {
    let q = ByHead::<2, 2, Q<2>>::zeros();
    let k = ByHead::<2, 2, K<2>>::zeros();
    let v = ByHead::<2, 2, K<2>>::from([
        [[[1.0], [3.0]], [[1.0], [3.0]]],
        [[[10.0], [30.0]], [[10.0], [30.0]]],
    ]);
    let keep = Tensor::<(Batch<C<2>>, K<2>), bool>::from([[true, true], [true, false]]);
    let y = scaled_dot_product_attention(&q, &k, &v, &keep);
    assert_eq!(y.to_vec(), [2.0, 2.0, 2.0, 2.0, 10.0, 10.0, 10.0, 10.0]);
}

// line/lighthouse#77, its kind
#[test]
fn masks_over_any_axes_equal_plain_loops_for_any_sizes() {
    for axes in 0..8 {
        let axes = [axes & 1 > 0, axes & 2 > 0, axes & 4 > 0, true];
        attention_equals_plain_loops(|random, sizes| vec![random.keep(sizes, axes)]);
        attention_equals_plain_loops(|random, sizes| vec![random.bias(sizes, axes)]);
    }
}

// pytorch/pytorch#170415
#[test]
fn keep_shows_what_is_true_and_hide_shows_the_rest() {
    let flags = keys([true, true, false]);
    let values = [1.0, 2.0, 6.0];
    assert_eq!(means::<1, 3>(values, Mask::keep(&flags)), [1.5]);
    assert_eq!(means::<1, 3>(values, Mask::hide(&flags)), [6.0]);
    assert_eq!(means::<1, 3>(values, &flags), [1.5], "a bare mask keeps");
}

// pytorch/pytorch#170415, its kind
#[test]
fn hiding_what_a_mask_keeps_not_is_the_mask() {
    fn inverted(part: Part) -> Part {
        let Part::Keep(Over { axes, values }) = part else { panic!("a boolean mask") };
        shapeproof::dyn_size!(count = values.len());
        let flags = Tensor::try_from_vec((shapeproof::Flat(count),), values).unwrap();
        Part::Keep(Over { axes, values: Mask::hide(&flags.not()).to_vec() })
    }
    same_bits(
        |random, sizes| vec![random.keep(sizes, [true, false, true, true])],
        |random, sizes| vec![inverted(random.keep(sizes, [true, false, true, true]))],
    );
}

// pytorch/pytorch#41508
#[test]
fn a_query_that_sees_no_key_gets_zero() {
    let q = ByHead::<1, 1, Q<2>>::from([[[[1.0], [1.0]]]]);
    let k = ByHead::<1, 1, K<2>>::from([[[[1.0], [2.0]]]]);
    let v = ByHead::<1, 1, K<2>>::from([[[[5.0], [7.0]]]]);
    let keep = Tensor::<(Q<2>, K<2>), bool>::from([[true, false], [false, false]]);
    let (y, weights) = shapeproof::Attention::new().apply_with_weights(&q, &k, &v, &keep);
    assert_eq!(y.to_vec(), [5.0, 0.0]);
    assert_eq!(weights.to_vec(), [1.0, 0.0, 0.0, 0.0]);
}

// pytorch/pytorch#41508, its kind: hidden by a mask, by −∞, by both, by causality
#[test]
fn nothing_visible_is_exactly_zero_however_it_came_about() {
    let sizes = Sizes::new(2, 3, 5, 3, 4);
    let all = [true; 4];
    let count = sizes.scores().iter().product();
    let nothing = Part::Keep(Over { axes: all, values: vec![false; count] });
    let minus = Part::Bias(Over { axes: all, values: vec![f64::NEG_INFINITY; count] });
    let inputs = crate::random::Random::new(3).inputs(sizes);
    let inputs = inputs.each_ref().map(Vec::as_slice);
    for parts in [vec![nothing.clone()], vec![minus.clone()], vec![nothing, minus, Part::Causal]] {
        let (out, weights) = attend::<f32>(sizes, inputs, None, &parts);
        assert!(out.iter().chain(&weights).all(|x| x.to_bits() == 0), "{parts:?}");
    }
    // Five queries on three keys: the first two see nothing.
    let (out, weights) = attend::<f64>(sizes, inputs, None, &[Part::Causal]);
    let rows = out.chunks(sizes.dim).zip(weights.chunks(sizes.keys)).enumerate();
    for (row, (out, weights)) in rows {
        let zero = out.iter().chain(weights).all(|x| x.to_bits() == 0);
        assert_eq!(zero, row % sizes.queries < 2, "row {row}");
    }
}

// pytorch/pytorch#41508, in a layer
#[test]
fn a_padded_out_sample_leaves_a_layer_with_its_output_bias() {
    let mut generator = Generator::seeded(4);
    let mut attention = MultiHeadAttention::<C<6>, C<3>>::xavier(&mut generator);
    let bias = Tensor::<(Model<C<6>>,)>::from([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    attention.out.bias = Parameter::new(bias.clone());
    let x = Tensor::<(Batch<C<2>>, Seq<C<4>>, Model<C<6>>)>::normal(0.0, 1.0, &mut generator);
    let keep = Tensor::<(Batch<C<2>>, K<4>), bool>::from([[true; 4], [false; 4]]);
    let y = attention.forward(&x, &keep, &mut Infer);
    let padded = y.try_select(Batch, 1).unwrap();
    for row in padded.packed().as_arrays().unwrap() {
        assert_eq!(row.to_vec(), bias.to_vec());
    }
    let layer = EncoderLayer::<C<6>, C<3>, C<5>>::xavier(EncoderConfig::new(1e-5), &mut generator);
    let y = layer.forward(&x, &keep, &mut Infer);
    assert!(y.to_vec().iter().all(|x| x.is_finite()));
}

// pytorch/pytorch#103082
#[test]
fn causal_is_aligned_to_the_end_and_the_other_alignment_has_its_own_name() {
    assert_eq!(means::<1, 3>([3.0, 6.0, 9.0], Causal), [6.0]);
    assert_eq!(means::<2, 4>([4.0, 8.0, 12.0, 16.0], Causal), [8.0, 10.0]);
    assert_eq!(means::<1, 3>([3.0, 6.0, 9.0], CausalFromStart), [3.0]);
    assert_eq!(means::<2, 4>([4.0, 8.0, 12.0, 16.0], CausalFromStart), [4.0, 6.0]);
}

// pytorch/pytorch#103082, its kind
#[test]
fn causal_masks_equal_plain_loops_for_any_lengths() {
    attention_equals_plain_loops(|_, _| vec![Part::Causal]);
    attention_equals_plain_loops(|_, _| vec![Part::CausalFromStart]);
    attention_equals_plain_loops(|random, sizes| vec![Part::Prefix(random.below(sizes.keys + 3))]);
}

#[test]
fn both_alignments_agree_where_there_are_as_many_keys_as_queries() {
    let both = |mask: Part| {
        move |_: &mut _, sizes: Sizes| match sizes.queries == sizes.keys {
            true => vec![mask.clone()],
            false => Vec::new(),
        }
    };
    same_bits(both(Part::Causal), both(Part::CausalFromStart));
}

#[test]
fn a_prefix_shows_its_keys_to_every_query_and_is_causal_behind_them() {
    use shapeproof::Prefix;
    let values = [1.0, 3.0, 8.0];
    assert_eq!(means::<3, 3>(values, Prefix(2)), [2.0, 2.0, 4.0]);
    assert_eq!(means::<3, 3>(values, Prefix(0)), means::<3, 3>(values, Causal));
    assert_eq!(means::<3, 3>(values, Prefix(9)), [4.0; 3]);
}

// huggingface/candle#3567
#[test]
fn padding_leaves_causality_on() {
    let values = [3.0, 6.0, 9.0];
    let all = Tensor::<(Batch<C<1>>, K<3>), bool>::from([[true, true, true]]);
    let left = Tensor::<(Batch<C<1>>, K<3>), bool>::from([[false, true, true]]);
    assert_eq!(means::<3, 3>(values, Causal & &all), [3.0, 4.5, 6.0]);
    assert_eq!(means::<3, 3>(values, &all & Causal), [3.0, 4.5, 6.0]);
    assert_eq!(means::<3, 3>(values, Causal & left), [0.0, 6.0, 7.5]);
}

// huggingface/candle#3567, its kind
#[test]
fn combined_masks_equal_plain_loops_in_either_order() {
    let padding = [true, false, false, true];
    for causal in [Part::Causal, Part::CausalFromStart, Part::Prefix(1)] {
        let both = |random: &mut crate::random::Random, sizes| {
            vec![causal.clone(), random.keep(sizes, padding)]
        };
        attention_equals_plain_loops(both);
        same_bits(both, |random, sizes| both(random, sizes).into_iter().rev().collect());
    }
    attention_equals_plain_loops(|random, sizes| {
        let axes = random.axes();
        vec![Part::Causal, random.bias(sizes, axes), random.keep(sizes, padding)]
    });
}

// huggingface/pytorch-image-models#2236
#[test]
fn weights_of_the_visible_keys_sum_to_one() {
    let keep = keys([true, true, false, false]);
    assert_eq!(means::<1, 4>([2.0, 4.0, 100.0, 100.0], &keep), [3.0]);
    let scores = Tensor::<(Q<1>, K<4>)>::zeros();
    assert_eq!(scores.masked_softmax(Key, &keep).to_vec(), [0.5, 0.5, 0.0, 0.0]);
}

// huggingface/pytorch-image-models#2236, its kind
#[test]
fn a_score_of_minus_infinity_hides_as_a_mask_does() {
    fn as_bias(part: Part) -> Part {
        let Part::Keep(Over { axes, values }) = part else { panic!("a boolean mask") };
        let values = values.into_iter().map(|keep| if keep { 0.0 } else { f64::NEG_INFINITY });
        Part::Bias(Over { axes, values: values.collect() })
    }
    for axes in [[true; 4], [true, false, false, true], [false, true, true, true]] {
        same_bits(
            |random, sizes| vec![random.keep(sizes, axes)],
            |random, sizes| vec![as_bias(random.keep(sizes, axes))],
        );
    }
    let bias = Tensor::<(K<3>,)>::from([0.0, f32::NEG_INFINITY, 0.0]);
    assert_eq!(means::<1, 3>([1.0, 99.0, 3.0], ScoreBias(bias)), [2.0]);
}
