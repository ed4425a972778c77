//! Sizes that come together to more than can be counted: a panic that says so, never fewer elements
//! than the shape promises.

use shapeproof::{
    Attention, Batch, C, HeadDim, Heads, Hidden, Infer, Key, Linear, Model, MultiHeadAttention,
    NoMask, Query, Seq, Tensor, ValueDim, Vocab, dyn_size, scaled_dot_product_attention, try_stack,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Two sizes whose product is 2⁶⁴ + 1: counted in 64 bits, one element.
const WRAPPING: [usize; 2] = [274_177, 67_280_421_310_721];
/// Four times this is 2⁶⁴ + 4.
const QUARTER: usize = (1 << 62) + 1;

#[track_caller]
fn too_many<T>(what: &str, f: impl FnOnce() -> T) {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect(what);
    let message = payload.downcast_ref::<String>().expect(what);
    assert!(message.contains("multiply to more than isize::MAX elements"), "{what}: {message}");
}

#[test]
fn products_of_empty_rows_and_columns_are_counted_before_they_are_made() {
    dyn_size!(rows = WRAPPING[0], columns = WRAPPING[1], many = QUARTER);
    let a = Tensor::<_, f32>::zeros_in((Query(rows), Hidden(C::<0>)));
    let b = Tensor::<_, f32>::zeros_in((Hidden(C::<0>), Key(columns)));
    too_many("dot", || a.dot(&b, Hidden));
    too_many("matmul", || a.matmul(&b));
    let layer = Linear::<Model<C<0>>, Hidden<C<4>>>::zeros();
    let x = Tensor::<_, f32>::zeros_in((Batch(many), Model(C::<0>)));
    too_many("linear", || layer.forward(&x, &mut Infer));
}

#[test]
fn attention_of_width_0_is_counted_before_it_is_made() {
    dyn_size!(queries = WRAPPING[0], keys = WRAPPING[1], many = QUARTER);
    let one = (Batch(C::<1>), Heads(C::<1>));
    let q = Tensor::<_, f32>::zeros_in((one.0, one.1, Query(many), HeadDim(C::<0>)));
    let k = Tensor::<_, f32>::zeros_in((one.0, one.1, Key(C::<0>), HeadDim(C::<0>)));
    let v = Tensor::<_, f32>::zeros_in((one.0, one.1, Key(C::<0>), ValueDim(C::<4>)));
    too_many("output", || scaled_dot_product_attention(&q, &k, &v, NoMask));
    let q = Tensor::<_, f32>::zeros_in((one.0, one.1, Query(queries), HeadDim(C::<0>)));
    let k = Tensor::<_, f32>::zeros_in((one.0, one.1, Key(keys), HeadDim(C::<0>)));
    too_many("weights", || Attention::new().apply_with_weights(&q, &k, &k, NoMask));
    // No output: nothing is computed, however many scores there would be.
    assert_eq!(scaled_dot_product_attention(&q, &k, &k, NoMask).dims(), [1, 1, WRAPPING[0], 0]);
}

#[test]
fn empty_tensors_of_sizes_that_cannot_be_counted_are_not_made() {
    dyn_size!(large = 1 << 62);
    let wide = Tensor::<_, f32>::zeros_in((Batch(C::<0>), Seq(large)));
    too_many("concat", || wide.concat(&wide, Seq));
    too_many("stack", || try_stack([&wide, &wide], Heads));
    let table = Tensor::<_, f32>::zeros_in((Vocab(C::<0>), Model(large)));
    let tokens = Tensor::<_, u32>::zeros_in((Batch(C::<0>), Seq(large)));
    too_many("embedding", || table.try_embed(&tokens));
    let rows = Tensor::<_, f32>::zeros_in((Vocab(C::<1>), Model(large), Key(C::<0>)));
    too_many("gather", || rows.try_gather(Vocab, &Tensor::<(Batch<C<8>>,), u32>::zeros()));
    let narrow = Tensor::<_, f32>::zeros_in((Batch(C::<1>), Seq(large), Model(C::<0>)));
    too_many("split heads", || narrow.split_heads::<C<8>>());
    too_many("split axis", || narrow.split_axis(Model, Heads(C::<8>), HeadDim));
    type Many =
        (Batch<C<0>>, Seq<C<1048576>>, Key<C<1048576>>, Model<C<1048576>>, Query<C<1048576>>);
    let none = Tensor::<(Batch<C<0>>, Seq<C<1>>)>::zeros();
    too_many("reshape", || none.reshape::<Many>());
}

#[test]
fn costs_that_cannot_be_counted_are_the_largest_there_is() {
    dyn_size!(batch = usize::MAX, queries = usize::MAX, keys = usize::MAX);
    let attention = MultiHeadAttention::<C<64>, C<8>>::zeros();
    let steps = attention.explain(Batch(batch), Seq(queries), Seq(keys));
    assert_eq!((steps.flops(), steps.bytes()), (u128::MAX, u128::MAX));
    assert!(steps.to_string().contains("(Batch 18446744073709551615, Heads 8, "));
}
