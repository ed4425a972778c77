//! Heads and the layout of memory.

use shapeproof::{
    Batch, C, Causal, DivisibleBy, Flat, HeadDim, Heads, Key, Model, Query, Seq, Static, Tensor,
    dispatch, dyn_size, scaled_dot_product_attention,
};

use crate::masks::{Part, Sizes, attend, bits, narrowed};
use crate::oracle::exchanged;
use crate::random::Random;

// reczoo/FuxiCTR#30
#[test]
fn a_head_has_its_features_of_every_position() {
    let x =
        Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>), i32>::from([[[0, 1, 2, 3], [4, 5, 6, 7]]]);
    let heads = x.split_heads::<C<2>>();
    assert_eq!(heads.try_select(Heads, 0).unwrap().to_vec(), [0, 1, 4, 5]);
    assert_eq!(heads.try_select(Heads, 1).unwrap().to_vec(), [2, 3, 6, 7]);
    assert_eq!(heads.merge_heads(), x);
}

// reczoo/FuxiCTR#30, its kind
#[test]
fn splitting_moves_no_feature_to_another_position_for_any_sizes() {
    fn check<M: DivisibleBy<H>, H: Static>(batch: usize, length: usize) {
        dyn_size!(b = batch, l = length);
        let shape = (Batch(b), Seq(l), Model(M::default()));
        let x = Tensor::from_fn_in(shape, |at| (at[0] * 100 + at[1]) * 100 + at[2]);
        let heads = x.split_heads::<H>();
        let dim = M::N / H::N;
        assert_eq!(heads.dims(), [batch, H::N, length, dim]);
        let wanted = Tensor::from_fn_in(heads.shape(), |at| {
            (at[0] * 100 + at[2]) * 100 + at[1] * dim + at[3]
        });
        assert_eq!(heads, wanted);
        assert_eq!(heads.merge_heads(), x);
        assert_eq!(heads.packed().merge_heads(), x);
    }
    let widths = [(12, 1), (12, 2), (12, 3), (12, 4), (12, 12), (4, 2), (9, 3), (1, 1)];
    for (width, heads) in widths {
        for (batch, length) in
            [(2, 5), (3, 3), (1, 4), (4, 1), (heads, 2), (2, heads), (0, 3), (3, 0)]
        {
            dispatch!((width, heads) as (M, H) in [
                (12, 1), (12, 2), (12, 3), (12, 4), (12, 12), (4, 2), (9, 3), (1, 1)
            ] => check::<M, H>(batch, length))
            .unwrap();
        }
    }
}

// rust-ndarray/ndarray#643
#[test]
fn flattening_reads_a_transposed_tensor_in_its_own_order() {
    let x = Tensor::<(Query<C<2>>, Key<C<3>>), i32>::from([[0, 1, 2], [3, 4, 5]]);
    let turned = x.transpose(Query, Key);
    let flat: Tensor<(Flat<C<6>>,), i32> = turned.flatten();
    assert_eq!(flat.to_vec(), [0, 3, 1, 4, 2, 5]);
    let reshaped: Tensor<(Seq<C<2>>, Model<C<3>>), i32> = turned.reshape();
    assert_eq!(reshaped.to_vec(), [0, 3, 1, 4, 2, 5]);
    dyn_size!(count = 6);
    assert_eq!(turned.try_reshape((Flat(count),)).unwrap().to_vec(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(turned.as_slice(), None);
    assert_eq!(turned.to_vec(), [0, 3, 1, 4, 2, 5]);
}

// rust-ndarray/ndarray#643, its kind
#[test]
fn every_order_of_the_axes_is_read_in_its_own_order() {
    type Three = (Batch<C<2>>, Seq<C<3>>, Model<C<4>>);
    let x = Tensor::<Three, usize>::from_fn(|at| at[0] * 100 + at[1] * 10 + at[2]);
    macro_rules! read_in {
        ($($A:ident<$n:literal> $a:literal, $B:ident<$m:literal> $b:literal, $C:ident<$k:literal> $c:literal;)+) => { $(
            let y: Tensor<($A<C<$n>>, $B<C<$m>>, $C<C<$k>>), usize> = x.permute();
            let mut wanted = Vec::new();
            for i in 0..$n {
                for j in 0..$m {
                    for k in 0..$k {
                        let mut at = [0; 3];
                        (at[$a], at[$b], at[$c]) = (i, j, k);
                        wanted.push(at[0] * 100 + at[1] * 10 + at[2]);
                    }
                }
            }
            assert_eq!(y.flatten().to_vec(), wanted);
            assert_eq!(y.packed().as_slice(), Some(&wanted[..]));
            assert_eq!(y.erase().to_vec(), wanted);
        )+ };
    }
    read_in! {
        Batch<2> 0, Seq<3> 1, Model<4> 2;
        Batch<2> 0, Model<4> 2, Seq<3> 1;
        Seq<3> 1, Batch<2> 0, Model<4> 2;
        Seq<3> 1, Model<4> 2, Batch<2> 0;
        Model<4> 2, Batch<2> 0, Seq<3> 1;
        Model<4> 2, Seq<3> 1, Batch<2> 0;
    }
}

// rust-ndarray/ndarray#643: attention to strided views equals attention to packed copies, bit for bit
#[test]
fn attention_reads_split_heads_where_they_lie() {
    let sizes = Sizes::new(2, 3, 4, 4, 2);
    let mut random = Random::new(23);
    let [q, k, v] = random.inputs(sizes);
    // The same numbers in the order (batch, length, heads, dim), as a projection leaves them.
    type Rows = (Batch<C<2>>, Seq<C<4>>, Model<C<6>>);
    let split = |x: &[f64]| {
        let rows = narrowed(&exchanged(x, [3, 4, 2]));
        Tensor::<Rows>::try_from_vec(Default::default(), rows).unwrap().split_heads::<C<3>>()
    };
    let (query, key, value) = (split(&q), split(&k), split(&v));
    let (query, value) = (query.rename(Seq, Query), value.rename(Seq, Key));
    let key: Tensor<(Batch<C<2>>, Heads<C<3>>, Key<C<4>>, HeadDim<C<2>>)> = key.rename(Seq, Key);
    let y = scaled_dot_product_attention(&query, &key, &value, Causal);
    let (query, key, value) = (query.packed(), key.packed(), value.packed());
    let packed = scaled_dot_product_attention(&query, &key, &value, Causal);
    assert_eq!(bits(&y.to_vec()), bits(&packed.to_vec()));
    let (by_itself, _) = attend::<f32>(sizes, [&q, &k, &v], None, &[Part::Causal]);
    for (found, expected) in y.to_vec().iter().zip(by_itself) {
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
    }
}
