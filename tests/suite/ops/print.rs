//! What prints, and how.

use shapeproof::{
    Batch, C, Heads, Key, Model, MultiHeadAttention, NoBias, Query, Seq, Tensor, dyn_size,
};

#[test]
fn names_and_sizes_come_before_the_elements() {
    let x = Tensor::<(Batch<C<2>>, Model<C<2>>)>::from([[1.0, -2.5], [10.0, 0.0]]);
    let text = "(Batch 2, Model 2) f32\n[[ 1.0000, -2.5000],\n [10.0000,  0.0000]]";
    assert_eq!(x.to_string(), text);
    assert_eq!(format!("{x:?}"), text, "Debug prints the same");
    assert_eq!(format!("{x:.1}"), "(Batch 2, Model 2) f32\n[[ 1.0, -2.5],\n [10.0,  0.0]]");
    let erased = "[2, 2] f32\n[[ 1.0000, -2.5000],\n [10.0000,  0.0000]]";
    assert_eq!(x.erase().to_string(), erased);
    assert_eq!(format!("{:?}", x.erase()), erased);
}

#[test]
fn every_element_type_prints_its_name() {
    let x = Tensor::<(Key<C<2>>,), bool>::from([true, false]);
    assert_eq!(x.to_string(), "(Key 2) bool\n[ true, false]");
    let x = Tensor::<(Key<C<3>>,), i64>::from([1, -20, 3]);
    assert_eq!(x.to_string(), "(Key 3) i64\n[  1, -20,   3]");
    let x = Tensor::<(Key<C<2>>,), f64>::from([f64::NAN, f64::NEG_INFINITY]);
    assert_eq!(x.to_string(), "(Key 2) f64\n[ NaN, -inf]");
    assert_eq!(Tensor::scalar(1.5f64).to_string(), "() f64\n1.5000");
    assert_eq!(Tensor::<(Key<C<0>>,)>::zeros().to_string(), "(Key 0) f32\nempty");
}

#[test]
fn long_axes_print_their_ends() {
    let x = Tensor::<(Query<C<20>>, Key<C<9>>), usize>::from_fn(|at| at[0] * 100 + at[1]);
    let text = x.to_string();
    assert_eq!(text.lines().next(), Some("(Query 20, Key 9) usize"));
    assert_eq!(text.lines().nth(1), Some("[[   0,    1,    2, …,    6,    7,    8],"));
    assert_eq!(text.lines().nth(4), Some(" …,"));
    assert_eq!(text.lines().last(), Some(" [1900, 1901, 1902, …, 1906, 1907, 1908]]"));
    assert_eq!(text.lines().count(), 8);
    let whole = Tensor::<(Key<C<8>>,), u8>::zeros().to_string();
    assert_eq!(whole, "(Key 8) u8\n[0, 0, 0, 0, 0, 0, 0, 0]");
}

#[test]
fn more_axes_print_as_nested_brackets() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<1>>, Model<C<2>>), u8>::from([[[1, 2]], [[3, 4]]]);
    assert_eq!(x.to_string(), "(Batch 2, Seq 1, Model 2) u8\n[[[1, 2]],\n [[3, 4]]]");
    dyn_size!(batch = 1);
    let x = Tensor::<_, u8>::zeros_in((Batch(batch), Heads(C::<1>)));
    assert_eq!(x.to_string(), "(Batch 1, Heads 1) u8\n[[0]]", "run-time sizes print alike");
}

/// The table for batch 2, 3 queries, 5 keys, width 8, 2 heads, counted by hand.
#[test]
fn explain_says_what_each_step_makes_and_costs() {
    let attention = MultiHeadAttention::<C<8>, C<2>, C<6>, C<4>>::zeros();
    dyn_size!(batch = 2);
    let steps = attention.explain(Batch(batch), Seq(C::<3>), Seq(C::<5>));
    let found: Vec<_> = steps
        .steps()
        .iter()
        .map(|step| (step.name, step.axes.join(" "), step.dims.clone(), step.flops, step.bytes))
        .collect();
    let step = |name, axes: &str, dims: &[usize], flops, bytes| {
        (name, axes.to_owned(), dims.to_vec(), flops, bytes)
    };
    let (rows, by_query) = ("Batch Seq Model", "Batch Heads Query HeadDim");
    let (by_key, scores) = ("Batch Heads Key HeadDim", "Batch Heads Query Key");
    assert_eq!(
        found,
        [
            // 2·3·8 outputs of 8 products and sums each, 4 bytes an output.
            step("project queries", rows, &[2, 3, 8], 2 * 48 * 8, 4 * 48),
            step("project keys", rows, &[2, 5, 8], 2 * 80 * 6, 4 * 80),
            step("project values", rows, &[2, 5, 8], 2 * 80 * 4, 4 * 80),
            step("split heads of queries", by_query, &[2, 2, 3, 4], 0, 0),
            step("split heads of keys", by_key, &[2, 2, 5, 4], 0, 0),
            step("split heads of values", by_key, &[2, 2, 5, 4], 0, 0),
            step("score queries by keys", scores, &[2, 2, 3, 5], 2 * 60 * 4, 0),
            step("softmax over Key", scores, &[2, 2, 3, 5], 5 * 60, 0),
            step("weigh values", by_query, &[2, 2, 3, 4], 2 * 60 * 4, 4 * 48),
            step("merge heads", rows, &[2, 3, 8], 0, 0),
            step("project output", rows, &[2, 3, 8], 2 * 48 * 8, 4 * 48),
        ]
    );
    assert_eq!(steps.flops(), 768 + 960 + 640 + 480 + 300 + 480 + 768);
    assert_eq!(steps.bytes(), 192 + 320 + 320 + 192 + 192);
    let text = steps.to_string();
    assert!(text.contains("(Batch 2, Heads 2, Query 3, Key 5)"), "{text}");
    assert_eq!(text.lines().count(), 1 + 11 + 1);
    let wide = MultiHeadAttention::<C<8>, C<2>, C<6>, C<4>, NoBias, f64>::zeros();
    assert_eq!(wide.explain(Batch(batch), Seq(C::<3>), Seq(C::<5>)).bytes(), 2 * steps.bytes());
}
