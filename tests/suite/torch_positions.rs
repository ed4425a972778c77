//! Positions as PyTorch and plain loops compute them: ALiBi, T5's buckets, Shaw's relative positions with
//! their gradients.

use shapeproof::{
    Alibi, Attention, Batch, C, DistanceBuckets, EntriesFor, Float, HeadDim, Heads, Infer, Key,
    Mode, NoMask, Parameter, Query, RelativePositions, Stage, Static, Tensor, Train, bf16,
    dispatch, dyn_size, f16,
};

use crate::fixtures::{Case, Family, assert_close, close};
use crate::masks::widened;
use crate::torch::{loss, tensor, tolerance};

fn case(name: &str) -> Case {
    let mut cases = Family::open("torch/positions").cases;
    cases.retain(|case| case.name == name);
    assert_eq!(cases.len(), 1, "{name}");
    cases.remove(0)
}

#[test]
fn alibi_slopes_are_those_of_the_paper_and_its_code() {
    fn slopes<H: Static>() -> Vec<f64> {
        Alibi::<H, f64>::new().slopes().to_vec()
    }
    let case = case("alibi_slopes");
    let of_heads = |heads: usize, slopes: Vec<f64>| {
        let want = case.tensors.f64(&format!("out64.heads_{heads}"));
        assert_close(&format!("{heads} heads"), &slopes, &want, 1e-14, 0.0);
    };
    of_heads(1, slopes::<C<1>>());
    of_heads(2, slopes::<C<2>>());
    of_heads(3, slopes::<C<3>>());
    of_heads(8, slopes::<C<8>>());
    of_heads(12, slopes::<C<12>>());
    dyn_size!(heads = 12);
    of_heads(12, Alibi::<_, f64>::of_heads(Heads(heads)).slopes().to_vec());
}

#[test]
fn alibi_attends_as_the_reference_does() {
    fn check<E: Float>() {
        let case = case("alibi_attention");
        dyn_size!(batch = 2, queries = 4, keys = 6);
        let (batch, heads, dim) = (Batch(batch), Heads(C::<3>), HeadDim(C::<3>));
        let q = tensor::<_, E>(&case, "in.q", (batch, heads, Query(queries), dim));
        let k = tensor(&case, "in.k", (batch, heads, Key(keys), dim));
        let v = tensor(&case, "in.v", (batch, heads, Key(keys), dim));
        let alibi = Alibi::<C<3>, E>::new();
        let (rtol, atol) = tolerance::<E>();
        let y = Attention::new().apply(&q, &k, &v, &alibi);
        let want = case.tensors.f64("out64.output");
        assert_close("output", &widened(&y.to_vec()), &want, rtol, atol);
        let (z, _) = Attention::new().apply_with_weights(&q, &k, &v, &alibi);
        assert_close("with weights", &widened(&z.to_vec()), &want, rtol, atol);
        let zero = Tensor::zeros_in(q.shape());
        let bias = Attention::new().scores(&zero, &k, &alibi, Stage::Masked);
        let want = case.tensors.f64("out64.bias").repeat(2);
        assert_close("bias", &widened(&bias.to_vec()), &want, rtol, atol);
        // The same positions, said for each sample.
        let starts = Tensor::<(Batch<_>,), i64>::try_from_vec((batch,), vec![2, 2]).unwrap();
        let at = Attention::new().apply(&q, &k, &v, alibi.clone().at(&starts));
        assert_eq!(at.to_vec(), y.to_vec());
        let other = Tensor::<(Batch<_>,), i64>::try_from_vec((batch,), vec![0, 2]).unwrap();
        let at = Attention::new().apply(&q, &k, &v, alibi.clone().at(&other)).to_vec();
        let start = Attention::new().apply(&q, &k, &v, alibi.from_start()).to_vec();
        let half = at.len() / 2;
        assert_eq!(at[..half], start[..half]);
        assert_eq!(at[half..], y.to_vec()[half..]);
        assert_ne!(start, y.to_vec());
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
}

#[test]
fn buckets_of_distances_are_those_of_t5() {
    fn check<N: Static>(case: &Case, name: &str, max_distance: usize, both: bool) {
        let buckets = DistanceBuckets::<N, C<2>>::zeros(max_distance, both);
        let relative = case.tensors.i64("in.relative");
        let want = case.tensors.i64(&format!("out64.{name}"));
        for (distance, want) in relative.into_iter().zip(want) {
            let bucket = buckets.bucket(isize::try_from(distance).unwrap());
            assert_eq!(i64::try_from(bucket).unwrap(), want, "{name} {distance}");
        }
        assert!(buckets.bucket(isize::MIN) < N::N && buckets.bucket(isize::MAX) < N::N);
    }
    let case = case("t5_buckets");
    check::<C<32>>(&case, "both_32_128", 128, true);
    check::<C<32>>(&case, "causal_32_128", 128, false);
    check::<C<8>>(&case, "both_8_20", 20, true);
}

/// The table that the kernel reads ends at the distance from which on all share a bucket.
#[test]
fn bucket_biases_reach_beyond_their_table() {
    dyn_size!(queries = 150, keys = 170);
    for both in [true, false] {
        let weight = Tensor::from_fn(|at| at[0] as f32 + 100.0 * at[1] as f32);
        let buckets = DistanceBuckets::<C<8>, C<2>>::of(weight, 20, both);
        let q = Tensor::zeros_in((Batch(C::<1>), Heads(C::<2>), Query(queries), HeadDim(C::<1>)));
        let k = Tensor::zeros_in((Batch(C::<1>), Heads(C::<2>), Key(keys), HeadDim(C::<1>)));
        let scores = Attention::new().scores(&q, &k, buckets.bias(&mut Infer), Stage::Masked);
        for (at, score) in scores.to_vec().into_iter().enumerate() {
            let (h, i, j) = (at / 150 / 170, at / 170 % 150, at % 170);
            let bucket = buckets.bucket(j.cast_signed() - (i.cast_signed() + 20));
            assert_eq!(score, bucket as f32 + 100.0 * h as f32);
        }
    }
}

#[test]
fn relative_positions_attend_as_the_reference_does() {
    for name in ["shaw_a", "shaw_b", "shaw_one_head"] {
        let case = case(name);
        let (heads, dim) = (case.config.usize("heads"), case.config.usize("head_dim"));
        let clip = case.config.usize("clip");
        dispatch!((clip, dim, heads) as (X, D, H) in [(2, 3, 2), (8, 4, 3), (1, 2, 1)] => {
            of_distance::<X, D, H>(&case)
        })
        .unwrap()
        .unwrap_or_else(|message| panic!("{name}: {message}"));
    }

    /// The table's length follows from the distance; `dispatch!` has no arithmetic.
    fn of_distance<X: Static, D: Static, H: Static>(case: &Case) -> Result<(), String> {
        match X::N {
            1 => in_all::<C<1>, C<3>, D, H>(case),
            2 => in_all::<C<2>, C<5>, D, H>(case),
            _ => in_all::<C<8>, C<17>, D, H>(case),
        }
    }

    fn in_all<X: Static, T: EntriesFor<X>, D: Static, H: Static>(
        case: &Case,
    ) -> Result<(), String> {
        attend::<X, T, D, H, f32>(case)?;
        attend::<X, T, D, H, f64>(case)?;
        attend::<X, T, D, H, f16>(case)?;
        attend::<X, T, D, H, bf16>(case)
    }

    fn attend<X: Static, T: EntriesFor<X>, D: Static, H: Static, E: Float>(
        case: &Case,
    ) -> Result<(), String> {
        let size = |name| case.config.usize(name);
        dyn_size!(batch = size("batch"), queries = size("query_len"), keys = size("key_len"));
        let (batch, heads, dim) = (Batch(batch), Heads(H::default()), HeadDim(D::default()));
        let q = tensor::<_, E>(case, "in.q", (batch, heads, Query(queries), dim));
        let k = tensor(case, "in.k", (batch, heads, Key(keys), dim));
        let v = tensor(case, "in.v", (batch, heads, Key(keys), dim));
        let table = |name| tensor(case, name, (shapeproof::Distance(T::default()), dim));
        let positions =
            RelativePositions::<T, D, HeadDim<D>, E>::new(X::default(), table("in.rel_key"))
                .with_values(table("in.rel_value"));
        // The reference puts query i at key i.
        let starts = Tensor::zeros_in((batch,));
        let y = positions.forward_at((&q, &starts), &k, &v, NoMask, &mut Infer);
        let (rtol, atol) = tolerance::<E>();
        let want = case.tensors.f64("out64.output");
        close("output", &widened(&y.to_vec()), &want, rtol, atol)?;
        if size("query_len") == size("key_len") {
            let end = positions.forward(&q, &k, &v, NoMask, &mut Infer);
            assert_eq!(end.to_vec(), y.to_vec());
        }
        let (q, k, v) = (Parameter::new(q), Parameter::new(k), Parameter::new(v));
        let mut train = Train::seeded(0);
        let (q_read, k_read, v_read) = (train.read(&q), train.read(&k), train.read(&v));
        let y = positions.forward_at((&q_read, &starts), &k_read, &v_read, NoMask, &mut train);
        let gradients = train.backward(&loss(case, &y));
        let found = [
            ("q", gradients.of(&q).to_vec()),
            ("k", gradients.of(&k).to_vec()),
            ("v", gradients.of(&v).to_vec()),
            ("rel_key", gradients.of(&positions.keys).to_vec()),
            ("rel_value", gradients.of(positions.values.as_ref().unwrap()).to_vec()),
        ];
        for (name, found) in found {
            let want = case.tensors.f64(&format!("grad64.{name}"));
            close(&format!("gradient of {name}"), &widened(&found), &want, rtol, atol)?;
        }
        Ok(())
    }
}
