//! Rotary position embedding against reference values and plain loops.

mod scaling;

use safetensors::Dtype;
use shapeproof::{
    Adjacent, Attention, Batch, C, Causal, Float, HeadDim, Heads, Key, KvHeads, Mode, Pairing,
    Parameter, Query, Rotary, RotaryTable, RotaryWidth, RotatedBy, Seq, Size, SplitHalf, Static,
    Tensor, Train, bf16, dispatch, dyn_size, f16,
};

use crate::fixtures::{Case, Family, Report, Run, assert_close, close};
use crate::masks::{narrowed, widened};
use crate::onnx;
use crate::oracle::{self, Rotation};
use crate::random::Random;
use crate::torch::{loss, tensor, tolerance};

/// The cases of the family `torch/positions` whose names start like this.
pub(crate) fn positions(prefix: &str) -> Family {
    let mut family = Family::open("torch/positions");
    family.cases.retain(|case| case.name.starts_with(prefix));
    family
}

#[test]
fn rotations_are_those_of_the_reference_in_f32() {
    Report::run("rope in f32", &positions("rope_"), reference::<f32>);
}

#[test]
fn rotations_are_those_of_the_reference_in_f64() {
    Report::run("rope in f64", &positions("rope_"), reference::<f64>);
}

#[test]
fn rotations_are_those_of_the_reference_in_f16() {
    Report::run("rope in f16", &positions("rope_"), reference::<f16>);
}

#[test]
fn rotations_are_those_of_the_reference_in_bf16() {
    Report::run("rope in bf16", &positions("rope_"), reference::<bf16>);
}

fn reference<E: Float>(case: &Case) -> Result<Run, String> {
    let width = case.config.usize("rotary_dim");
    dispatch!((width) as (R) in [(4), (6)] => match case.config.flag("interleaved") {
        true => rotated::<R, Adjacent, E>(case),
        false => rotated::<R, SplitHalf, E>(case),
    })
    .map_err(|error| error.to_string())??;
    Ok(Run::Passed)
}

fn rotated<R, P, E>(case: &Case) -> Result<(), String>
where
    R: RotaryWidth,
    P: Pairing,
    C<6>: RotatedBy<R>,
    E: Float,
{
    let [batch, heads, length, 6] = *case.tensors.dims("in.x") else { panic!("heads of width 6") };
    let places = case.tensors.usize("in.positions");
    let last = places.iter().max().copied().unwrap_or_default();
    dyn_size!(batch = batch, heads = heads, length = length, context = last + 1);
    let shape = (Batch(batch), Heads(heads), Query(length), HeadDim(C::<6>));
    let x = tensor::<_, E>(case, "in.x", shape);
    let (rtol, atol) = tolerance::<E>();
    let want = case.tensors.f64("out64.output");
    let compare = |how: &str, y: Vec<E>| close(how, &widened(&y), &want, rtol, atol);

    let rotary = Rotary::<R, P>::try_new(case.config.float("theta")).unwrap();
    let positions = Tensor::try_from_vec((Batch(batch), Query(length)), places.clone()).unwrap();
    let table = rotary.try_at_positions(&positions).unwrap();
    compare("positions", table.rotate(&x).to_vec())?;
    compare("keys", table.rotate(&x.rename(Query, Key)).to_vec())?;
    compare("key/value heads", table.rotate(&x.rename(Heads, KvHeads)).to_vec())?;
    let (of_x, mut train) = (Parameter::new(x.clone()), Train::seeded(0));
    let y = table.rotate(&train.read(&of_x));
    let gradient = train.backward(&loss(case, &y)).of(&of_x);
    let of_gradient = case.tensors.f64("grad64.x");
    close("gradient", &widened(&gradient.to_vec()), &of_gradient, rtol, atol)?;
    let strided = x.transpose(Heads, Query).packed().transpose(Query, Heads);
    compare("strided", table.rotate(&strided).to_vec())?;

    let context: RotaryTable<_, _, _, E> = rotary.try_at(0, Seq(context)).unwrap();
    compare("selected", context.try_select(&positions).unwrap().rotate(&x).to_vec())?;
    let offset = places[0];
    if places.chunks(length.get()).all(|row| row.iter().copied().eq(offset..offset + row.len())) {
        compare("offset", rotary.try_at(offset, Seq(length)).unwrap().rotate(&x).to_vec())?;
        compare("slice", context.try_slice(offset, Seq(length)).unwrap().rotate(&x).to_vec())?;
    }
    Ok(())
}

// fla-org/flash-linear-attention#766: the same rows step by step as all at once.
#[test]
fn queries_that_come_in_chunks_attend_as_all_at_once() {
    let family = positions("cached_decode");
    Report::run("cached decoding in f32", &family, in_chunks::<f32>);
    Report::run("cached decoding in f64", &family, in_chunks::<f64>);
    Report::run("cached decoding in f16", &family, in_chunks::<f16>);
    Report::run("cached decoding in bf16", &family, in_chunks::<bf16>);
}

fn in_chunks<E: Float>(case: &Case) -> Result<Run, String> {
    let (rtol, atol) = tolerance::<E>();
    let q = (Batch(C::<2>), Heads(C::<4>), Query(C::<7>), HeadDim(C::<6>));
    let q = tensor::<_, E>(case, "in.q", q);
    let keys = (Batch(C::<2>), KvHeads(C::<2>), Key(C::<7>), HeadDim(C::<6>));
    let [k, v] = ["in.k", "in.v"].map(|name| tensor::<_, E>(case, name, keys));
    let rotary = Rotary::<C<6>>::try_new(case.config.float("theta")).unwrap();
    let table = rotary.try_at(0, Seq(C::<7>)).unwrap();
    let keys = table.rotate(&k);
    let want = case.tensors.f64("out64.k_rotated");
    close("keys", &widened(&keys.to_vec()), &want, rtol, atol)?;
    let all = Attention::new().apply(&table.rotate(&q), &keys, &v, Causal);
    close("output", &widened(&all.to_vec()), &case.tensors.f64("out64.output"), rtol, atol)?;

    let mut start = 0;
    for length in case.config.usizes("chunk_lengths") {
        dyn_size!(now = length, seen = start + length);
        let q = q.try_slice(Query, start, now).unwrap();
        let [keys, v] = [&keys, &v].map(|x| x.try_slice(Key, 0, seen).unwrap());
        let q = rotary.try_at(start, Seq(now)).unwrap().rotate(&q);
        let part = Attention::new().apply(&q, &keys, &v, Causal);
        let want = all.try_slice(Query, start, now).unwrap();
        let (rtol, atol) = oracle::tolerance::<E>();
        close("a chunk", &widened(&part.to_vec()), &widened(&want.to_vec()), rtol, atol)?;
        start += length;
    }
    Ok(Run::Passed)
}

#[test]
fn rotary_embedding_is_what_onnx_defines() {
    Report::run("forward", &Family::onnx("RotaryEmbedding"), |case| {
        assert_eq!(case.tensors.dtype("X"), Dtype::F32);
        let width = case.config.maybe_usize("rotary_embedding_dim").unwrap_or(8);
        dispatch!((width) as (R) in [(4), (8)] => match case.config.maybe_int("interleaved") {
            Some(1) => in_all::<R, Adjacent>(case),
            _ => in_all::<R, SplitHalf>(case),
        })
        .map_err(|error| error.to_string())??;
        Ok(Run::Passed)
    });
}

fn in_all<R: RotaryWidth, P: Pairing>(case: &Case) -> Result<(), String>
where
    C<8>: RotatedBy<R>,
{
    by_onnx::<R, P, f32>(case)?;
    by_onnx::<R, P, f16>(case)?;
    by_onnx::<R, P, bf16>(case)
}

fn by_onnx<R: RotaryWidth, P: Pairing, E: Float>(case: &Case) -> Result<(), String>
where
    C<8>: RotatedBy<R>,
{
    type X = (Batch<C<2>>, Heads<C<4>>, Query<C<3>>, HeadDim<C<8>>);
    let values = narrowed::<E>(&case.tensors.f64("X"));
    let by_position = case.tensors.dims("X").len() == 3;
    let x = if by_position {
        let shape = (Batch(C::<2>), Query(C::<3>), Heads(C::<4>), HeadDim(C::<8>));
        Tensor::try_from_vec(shape, values).unwrap().transpose(Query, Heads)
    } else {
        Tensor::<X, E>::try_from_vec(Default::default(), values).unwrap()
    };
    let turns = |name: &str| narrowed::<E>(&case.tensors.f64(name));
    let y = if case.tensors.has("position_ids") {
        let [cos, sin] = ["cos_cache", "sin_cache"].map(|name| {
            let shape = (Seq(C::<50>), HeadDim(R::Pairs::default()));
            Tensor::try_from_vec(shape, turns(name)).unwrap()
        });
        let positions = Tensor::<(Batch<C<2>>, Query<C<3>>), i64>::try_from_vec(
            Default::default(),
            case.tensors.i64("position_ids"),
        );
        let table = RotaryTable::<_, R, P, E>::shared(cos, sin);
        table.try_select(&positions.unwrap()).unwrap().rotate(&x)
    } else {
        let [cos, sin] = ["cos_cache", "sin_cache"].map(|name| {
            let shape = (Batch(C::<2>), Seq(C::<3>), HeadDim(R::Pairs::default()));
            Tensor::try_from_vec(shape, turns(name)).unwrap()
        });
        RotaryTable::<_, R, P, E>::of_samples(cos, sin).rotate(&x)
    };
    let y = if by_position { y.transpose(Heads, Query).to_vec() } else { y.to_vec() };
    let allowed = onnx::tolerance::<E>();
    close("Y", &widened(&y), &case.tensors.f64("expected.Y"), allowed, allowed)
}

type Heads4<E> = Tensor<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<4>>), E>;

fn at<P: Pairing, E: Float>(x: [f64; 4], position: usize) -> Vec<f64> {
    let x = Heads4::<E>::try_from_vec(Default::default(), narrowed(&x)).unwrap();
    let rotary = Rotary::<C<4>, P>::try_new(10_000.0).unwrap();
    widened(&rotary.try_at(position, Seq(C::<1>)).unwrap().rotate(&x).to_vec())
}

// tenstorrent/tt-metal#26844
#[test]
fn each_pairing_turns_its_own_features() {
    let [cos, sin] = [1f64.cos(), 1f64.sin()];
    assert_close(
        "adjacent",
        &at::<Adjacent, f64>([1., 0., 0., 0.], 1),
        &[cos, sin, 0., 0.],
        0.,
        1e-15,
    );
    assert_close(
        "half",
        &at::<SplitHalf, f64>([1., 0., 0., 0.], 1),
        &[cos, 0., sin, 0.],
        0.,
        1e-15,
    );
}

// tenstorrent/tt-metal#26844
#[test]
fn products_depend_on_distances_alone_and_norms_stay() {
    fn check<P: Pairing, E: Float>(expected: f64, tolerance: f64) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut first = None;
        for m in [0, 1, 2, 7, 100, 4095, 100_000, 1_000_000, 16_777_217] {
            let q = at::<P, E>([1., 2., 3., 4.], m);
            let k = at::<P, E>([4., 3., 2., 1.], m + 2);
            assert!((dot(&q, &k) - expected).abs() < 5e-5, "{m}: {}", dot(&q, &k));
            assert!((dot(&q, &k) - *first.get_or_insert(dot(&q, &k))).abs() < tolerance, "{m}");
            for x in [q, k] {
                assert!((dot(&x, &x) - 30.0).abs() < tolerance, "{m}: {}", dot(&x, &x));
            }
        }
    }
    check::<Adjacent, f64>(10.4830, 1e-7);
    check::<SplitHalf, f64>(15.1295, 1e-7);
    check::<Adjacent, f32>(10.4830, 1e-5);
    check::<SplitHalf, f32>(15.1295, 1e-5);
}

#[test]
fn rotations_equal_plain_loops_for_any_sizes() {
    let mut random = Random::new(70);
    for [batch, heads, length, dim, width] in [
        [2, 3, 5, 8, 6],
        [4, 4, 4, 4, 4],
        [1, 1, 1, 8, 8],
        [1, 2, 7, 5, 2],
        [3, 1, 2, 7, 4],
        [2, 2, 2, 2, 2],
        [0, 2, 3, 4, 2],
        [2, 0, 3, 4, 4],
        [2, 3, 0, 4, 4],
        [2, 3, 4, 4, 0],
        [2, 3, 4, 0, 0],
        [3, 5, 70, 64, 32],
    ] {
        let x = random.values(batch * heads * length * dim);
        let places: Vec<_> = (0..batch * length).map(|_| random.below(1000)).collect();
        let check = dispatch!((dim, width) as (D, R) in [
            (8, 6), (4, 4), (8, 8), (5, 2), (7, 4), (2, 2), (4, 2), (4, 0), (0, 0), (64, 32)
        ] => {
            any_size::<D, R, Adjacent, f64>(&x, &places, [batch, heads, length], true);
            any_size::<D, R, SplitHalf, f64>(&x, &places, [batch, heads, length], false);
            any_size::<D, R, Adjacent, f32>(&x, &places, [batch, heads, length], true);
            any_size::<D, R, SplitHalf, f32>(&x, &places, [batch, heads, length], false);
        });
        check.unwrap();
    }
}

fn any_size<D: Static + RotatedBy<R>, R: RotaryWidth, P: Pairing, E: Float>(
    values: &[f64],
    places: &[usize],
    [batch, heads, length]: [usize; 3],
    adjacent: bool,
) {
    let sizes = [heads, length, D::N];
    dyn_size!(b = batch, h = heads, l = length);
    let shape = (Batch(b), Heads(h), Key(l), HeadDim(D::default()));
    let x = Tensor::try_from_vec(shape, narrowed::<E>(values)).unwrap();
    let rotary = Rotary::<R, P>::try_new(100.0).unwrap();
    let (rtol, atol) = oracle::tolerance::<E>();
    let atol = atol.max(1e-12); // an angle of 1000 has 13 digits behind the point

    let positions = Tensor::try_from_vec((Batch(b), Key(l)), places.to_vec()).unwrap();
    let own = rotary.try_at_positions(&positions).unwrap().rotate(&x);
    let by_loops = Rotation { width: R::N, adjacent, base: 100.0 };
    let want = by_loops.of(values, sizes, |b, i| places[b * length + i]);
    assert_close("positions", &widened(&own.to_vec()), &want, rtol, atol);

    let shared = rotary.try_at(40, Seq(l)).unwrap().rotate(&x);
    let want = by_loops.of(values, sizes, |_, i| 40 + i);
    assert_close("offset", &widened(&shared.to_vec()), &want, rtol, atol);
}

#[test]
fn given_tables_may_lie_in_memory_anyhow() {
    let cos = Tensor::<(Seq<C<3>>, HeadDim<C<2>>), f64>::from([[1., 2.], [3., 4.], [5., 6.]]);
    let sin = cos.mul_scalar(10.0);
    let other = sin.transpose(Seq, HeadDim).packed().transpose(HeadDim, Seq);
    let x = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<3>>, HeadDim<C<4>>), f64>::ones();
    let y = RotaryTable::<_, _, Adjacent, _>::shared(cos.clone(), sin).rotate(&x);
    assert_eq!(RotaryTable::<_, _, Adjacent, _>::shared(cos, other).rotate(&x), y);
    assert_eq!(y.to_vec()[..4], [-9.0, 11.0, -18.0, 22.0]);
}

#[test]
fn positions_that_are_none_are_errors() {
    let rotary = Rotary::<C<64>>::try_new(1e4).unwrap();
    let end = rotary.try_at::<_, f32>(usize::MAX, Seq(C::<1>)).unwrap_err();
    assert!(end.is_overflow(), "{end}");
    dyn_size!(huge = usize::MAX / 2);
    assert!(rotary.try_at::<_, f32>(0, Seq(huge)).unwrap_err().is_overflow());

    let positions = Tensor::<(Batch<C<1>>, Query<C<2>>), i64>::from([[3, -1]]);
    let error = rotary.try_at_positions::<_, _, _, f32>(&positions).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "position -1, at [0, 1], is negative");

    let table = rotary.try_at::<_, f32>(0, Seq(C::<4>)).unwrap();
    assert!(table.try_slice(0, Seq(C::<4>)).is_ok());
    assert!(table.try_slice(4, Seq(C::<0>)).is_ok());
    let error = table.try_slice(2, Seq(C::<3>)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected positions within a rotary table of 4, found 3 from 2 on"
    );
    assert!(table.try_slice(usize::MAX, Seq(C::<1>)).unwrap_err().is_index());
    let beyond = Tensor::<(Batch<C<1>>, Query<C<2>>), i64>::from([[3, 4]]);
    let error = table.try_select(&beyond).unwrap_err();
    assert_eq!(error.to_string(), "index 4, at [0, 1], is outside of axis Seq of size 4");
}
