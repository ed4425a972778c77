//! Windows, blocks, segments and biases by distance.

use shapeproof::{
    Batch, BlockMask, C, Causal, DistanceBias, HeadBlockMask, HeadDim, Heads, Infer, Key, Query,
    RelativePositions, Segments, Sinks, SlidingWindow, Tensor, dyn_size,
    scaled_dot_product_attention, strided,
};

use super::{ByHead, K, Q, attention_equals_plain_loops, means, same_bits};
use crate::masks::Part;

type Of<S> = ByHead<1, 1, S>;

fn near(got: &[f32], want: &[f32]) {
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} {want:?}");
    assert_eq!(got.len(), want.len());
}

// huggingface/pytorch-image-models#2236
#[test]
fn each_row_of_a_sparse_mask_sums_to_one() {
    let blocks = BlockMask::from_fn::<C<1>>(Query(C::<1>), Key(C::<4>), |_, key| key < 2);
    near(&means([2.0, 4.0, 100.0, 100.0], blocks), &[3.0]);
    let segment = Segments::try_between(Query(C::<1>), Key(C::<4>), &[1], &[2]).unwrap();
    near(&means([2.0, 4.0, 100.0, 100.0], segment), &[3.0]);
    let window = SlidingWindow::causal::<C<2>>().from_start();
    near(&means::<1, 4>([2.0, 4.0, 100.0, 100.0], window), &[2.0]);
}

#[test]
fn sparse_masks_equal_plain_loops_for_any_sizes() {
    attention_equals_plain_loops(|random, sizes| vec![random.window(sizes)]);
    attention_equals_plain_loops(|random, sizes| vec![random.blocks(sizes)]);
    attention_equals_plain_loops(|random, sizes| vec![random.segments(sizes)]);
    attention_equals_plain_loops(|random, sizes| vec![random.distances(sizes)]);
    attention_equals_plain_loops(|random, sizes| {
        vec![random.window(sizes), random.blocks(sizes), random.distances(sizes)]
    });
    attention_equals_plain_loops(|random, sizes| {
        vec![random.segments(sizes), Part::Causal, random.keep(sizes, [true, false, true, true])]
    });
}

#[test]
fn sparse_masks_have_the_bits_of_boolean_ones() {
    same_bits(
        |random, sizes| vec![random.window(sizes)],
        |random, sizes| vec![random.window(sizes).spelled_out(sizes)],
    );
    same_bits(
        |random, sizes| vec![random.blocks(sizes)],
        |random, sizes| vec![random.blocks(sizes).spelled_out(sizes)],
    );
    same_bits(
        |random, sizes| vec![random.segments(sizes)],
        |random, sizes| vec![random.segments(sizes).spelled_out(sizes)],
    );
}

#[test]
fn a_window_counts_the_querys_own_position() {
    let values = [2.0, 4.0, 6.0, 8.0];
    near(&means::<4, 4>(values, SlidingWindow::causal::<C<1>>()), &values);
    near(&means::<4, 4>(values, SlidingWindow::try_causal(2).unwrap()), &[2.0, 3.0, 5.0, 7.0]);
    near(&means::<4, 4>(values, SlidingWindow::two_sided::<C<1>>()), &values);
    // One query at the end of the keys, as a step of decoding has it.
    near(&means::<1, 4>(values, SlidingWindow::causal::<C<3>>()), &[6.0]);
    near(&means::<1, 4>(values, SlidingWindow::causal::<C<2048>>()), &[5.0]);
    assert!(SlidingWindow::try_causal(0).unwrap_err().to_string().contains("found 0"));
    assert!(SlidingWindow::try_two_sided(0).unwrap_err().is_value());
    near(&means::<4, 4>(values, SlidingWindow::beside(usize::MAX, usize::MAX)), &[5.0; 4]);
}

#[test]
fn global_tokens_see_all_and_are_seen_by_all() {
    let values = [1.0, 10.0, 100.0, 1000.0];
    let window = SlidingWindow::causal::<C<1>>().with_global(1);
    near(&means::<4, 4>(values, window), &[277.75, 5.5, 50.5, 500.5]);
    near(&means::<4, 4>(values, window & Causal), &[1.0, 5.5, 50.5, 500.5]);
}

#[test]
fn a_strided_pattern_sees_its_neighbours_and_every_last_block() {
    let seen = |query| -> Vec<usize> { (0..8).filter(|&key| strided(2, 3)(query, key)).collect() };
    assert_eq!(seen(0), [0]);
    assert_eq!(seen(2), [1, 2]);
    assert_eq!(seen(6), [2, 5, 6]);
    assert_eq!(seen(7), [2, 5, 6, 7]);
    assert!((0..8).all(|key| !strided(1, 0)(7, key) || key == 7));
}

#[test]
fn blocks_come_from_a_predicate_or_a_tensor_and_are_checked_once_at_run_time() {
    let flags = Tensor::<(Q<2>, K<2>), bool>::from([[true, false], [true, true]]);
    let (query, key) = (Query(C::<4>), Key(C::<4>));
    let by_tensor = BlockMask::from_blocks::<C<2>>(query, key, &flags);
    assert!((by_tensor.density() - 0.75).abs() < 1e-12);
    let values = [2.0, 4.0, 6.0, 8.0];
    near(&means::<4, 4>(values, &by_tensor), &[3.0, 3.0, 5.0, 5.0]);
    near(&means::<4, 4>(values, &by_tensor & Causal), &[2.0, 3.0, 4.0, 5.0]);
    let by_size = BlockMask::try_from_blocks(2, query, key, &flags).unwrap();
    near(&means::<4, 4>(values, by_size), &[3.0, 3.0, 5.0, 5.0]);
    let lower = |_: usize, query: usize, key: usize| key <= query;
    let by_head = HeadBlockMask::from_fn::<C<2>>(Heads(C::<1>), query, key, lower);
    near(&means::<4, 4>(values, by_head), &[3.0, 3.0, 5.0, 5.0]);
    for size in [0, 3, 8, usize::MAX] {
        let error = BlockMask::try_from_fn(size, query, key, |_, _| true).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("expected a block size that divides Query 4, found {size}")
        );
    }
    let error = BlockMask::try_from_blocks(1, query, key, &flags).unwrap_err();
    assert_eq!(error.to_string(), "expected (Query 4, Key 4) blocks of 1, found (Query 2, Key 2)");
    dyn_size!(none = 0);
    assert!(BlockMask::try_from_fn(4, Query(none), Key(none), |_, _| true).is_ok());
}

#[test]
fn segments_that_do_not_fit_are_refused() {
    let (query, key) = (Query(C::<4>), Key(C::<4>));
    assert!(Segments::try_of(query, key, &[2, 2]).is_ok());
    assert!(Segments::try_of(query, key, &[]).is_ok());
    let error = Segments::try_of(query, key, &[2, 3]).unwrap_err();
    assert_eq!(error.to_string(), "expected segments that add up to at most Query 4, found 5");
    let error = Segments::try_between(query, key, &[1], &[5]).unwrap_err();
    assert_eq!(error.to_string(), "expected segments that add up to at most Key 4, found 5");
    assert!(Segments::try_between(query, key, &[1], &[1, 1]).is_err());
    assert!(Segments::try_of(query, key, &[usize::MAX, 2]).is_err());
}

// lucidrains/x-transformers#103
#[test]
fn biases_by_distance_are_right_with_cached_keys_and_clipped_at_their_ends() {
    let farther = |reach: isize| {
        DistanceBias::from_fn(Heads(C::<1>), -reach..=reach, |_, distance| {
            distance.unsigned_abs() as f32 * 2.0_f32.ln()
        })
    };
    near(&means::<1, 3>([7.0, 14.0, 28.0], farther(2)), &[12.0]);
    near(&means::<1, 3>([7.0, 14.0, 28.0], farther(1)), &[14.0]);
    #[expect(clippy::reversed_empty_ranges, reason = "a table of no distances is one too")]
    let nothing = DistanceBias::from_fn(Heads(C::<1>), 0..=-1, |_, _| 1.0);
    near(&means::<1, 3>([7.0, 14.0, 27.0], nothing), &[16.0]);
}

// lucidrains/x-transformers#103, with learned keys
#[test]
fn relative_keys_are_right_with_cached_keys_and_clipped_at_their_ends() {
    let k = Of::<K<3>>::zeros();
    let v = Of::<K<3>>::from([[[[7.0], [14.0], [28.0]]]]);
    let q = Of::<Q<1>>::full(2.0_f32.ln());
    let reach_2 = Tensor::from([[2.0], [1.0], [0.0], [1.0], [2.0]]);
    let y = RelativePositions::new(C::<2>, reach_2).forward(&q, &k, &v, Causal, &mut Infer);
    near(&y.to_vec(), &[12.0]);
    let reach_1 = Tensor::from([[1.0], [0.0], [1.0]]);
    let y = RelativePositions::new(C::<1>, reach_1).forward(&q, &k, &v, Causal, &mut Infer);
    near(&y.to_vec(), &[14.0]);
}

#[test]
fn a_sink_takes_its_share_and_gives_nothing() {
    let q = Tensor::<(Batch<C<1>>, Heads<C<2>>, Q<1>, HeadDim<C<1>>)>::zeros();
    let k = Tensor::<(Batch<C<1>>, Heads<C<2>>, K<3>, HeadDim<C<1>>)>::ones();
    let sinks = Sinks(Tensor::from([0.0, f32::NEG_INFINITY]));
    near(&scaled_dot_product_attention(&q, &k, &k, &sinks).to_vec(), &[0.75, 1.0]);
    let hidden = Tensor::<(K<3>,), bool>::from([false; 3]);
    let y = scaled_dot_product_attention(&q, &k, &k, &hidden & sinks);
    assert_eq!(y.to_vec(), [0.0, 0.0]);
}
