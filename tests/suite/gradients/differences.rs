//! Every operation against central differences in f64, for sizes that all differ, that are all equal,
//! of one, and empty; and the list of operations against the source.

use super::weighed;
use crate::properties::draws;
use proptest::prelude::*;
use shapeproof::{
    Activation, Batch, C, Flat, HeadDim, Heads, Hidden, Key, Mode, Model, Order, Parameter, Query,
    Rank, Seq, Shape, Size, Tensor, dyn_size, mean_squared_error, parameters, try_check_gradients,
    try_stack,
};
use shapeproof::{Module, axis};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

axis!(Twice);

const SIZES: [[usize; 3]; 8] =
    [[2, 3, 4], [3, 3, 3], [1, 1, 1], [1, 3, 2], [4, 1, 2], [0, 3, 2], [2, 0, 3], [2, 3, 0]];

type X<B, K, M> = Tensor<(Batch<B>, Key<K>, Model<M>), f64>;
type Y<B, M> = Tensor<(Batch<B>, Model<M>), f64>;
type Of<T> = fn(&T) -> Tensor<(), f64>;
type OfTwo<T, U> = fn(&T, &U) -> Tensor<(), f64>;

struct One<S> {
    x: Parameter<S, f64>,
}
impl<S: Shape> Module for One<S> {
    parameters!(x);
}

struct Two<S, T> {
    x: Parameter<S, f64>,
    y: Parameter<T, f64>,
}
impl<S: Shape, T: Shape> Module for Two<S, T> {
    parameters!(x, y);
}

/// Numbers between −1.5 and 1.5, no two of which are near each other, and none near 0, 1 or −1.
fn values<S: Shape>(shape: S, seed: usize) -> Tensor<S, f64> {
    let mut i = 0;
    Tensor::from_fn_in(shape, |_| {
        i += 1;
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let step = ((i * 37 + seed * 11) % 101) as f64;
        (step - 50.0) * 0.0297 + 0.0071
    })
}

macro_rules! of_one {
    ($x:ident: $($name:literal => $result:expr;)+) => {
        vec![$(($name, (|$x: &X<B, K, M>| weighed(&$result)) as Of<X<B, K, M>>)),+]
    };
}

macro_rules! of_two {
    ($x:ident, $y:ident: $($name:literal => $result:expr;)+) => {
        // Some are of one of the two alone.
        vec![$((
            $name,
            (|$x: &X<B, K, M>, $y: &Y<B, M>| (weighed(&$result), $x, $y).0) as OfTwo<X<B, K, M>, Y<B, M>>
        )),+]
    };
}

fn unary<B: Size, K: Size, M: Size>() -> Vec<(&'static str, Of<X<B, K, M>>)> {
    of_one! { x:
        "ln" => x.mul(x).add_scalar(0.1).ln();
        "sqrt" => x.mul(x).add_scalar(0.1).sqrt();
        "abs" => x.abs();
        "neg" => x.neg();
        "relu" => x.relu();
        "exp" => x.exp();
        "tanh" => x.tanh();
        "gelu" => x.gelu();
        "gelu_tanh" => x.gelu_tanh();
        "silu" => x.silu();
        "sigmoid" => x.sigmoid();
        "clamp" => x.clamp(-0.5, 0.8);
        "of" => Activation::Gelu.of(x);
        "apply_in_place" => changed(x, |y| Activation::Silu.apply_in_place(y));
        "add_scalar" => x.add_scalar(0.5);
        "sub_scalar" => x.sub_scalar(0.5);
        "mul_scalar" => x.mul_scalar(-0.5);
        "div_scalar" => x.div_scalar(0.4);
        "pow_scalar" => x.pow_scalar(3.0);
        "pow_scalar" => x.mul(x).add_scalar(0.1).pow_scalar(-1.5);
        "pow_scalar" => x.pow_scalar(0.0);
        "add_scalar_in_place" => changed(x, |y| y.add_scalar_in_place(0.5));
        "sub_scalar_in_place" => changed(x, |y| y.sub_scalar_in_place(0.5));
        "mul_scalar_in_place" => changed(x, |y| y.mul_scalar_in_place(-0.5));
        "to" => x.add_scalar(0.0).to::<f64>();
    }
}

/// What is computed from x and then changed, with and without another tensor that shares it.
fn changed<B: Size, K: Size, M: Size>(
    x: &X<B, K, M>,
    change: impl Fn(&mut X<B, K, M>),
) -> X<B, K, M> {
    let (mut alone, mut shared) = (x.mul_scalar(2.0), x.mul_scalar(3.0));
    let before = shared.clone();
    change(&mut alone);
    change(&mut shared);
    alone.mul(&shared).add(&before)
}

fn along<B: Size, K: Size, M: Size>() -> Vec<(&'static str, Of<X<B, K, M>>)> {
    of_one! { x:
        "sum" => x.sum(Key);
        "sum" => x.sum(Model).sum(Batch);
        "mean" => x.mean(Batch);
        "variance" => x.variance(Key);
        "variance" => x.variance(Model);
        "max" => x.max(Key);
        "max" => x.max(Model);
        "min" => x.min(Batch);
        "sum_all" => x.sum_all();
        "mean_all" => x.mean_all();
        "softmax" => x.softmax(Key);
        "softmax" => x.softmax(Model);
        "softmax_in_place" => changed(x, |y| y.softmax_in_place(Batch));
        "softmax_in_place" => changed(x, |y| y.softmax_in_place(Model));
        "masked_softmax" => x.masked_softmax(Key, &seen(x.shape().1));
        "log_softmax" => x.log_softmax(Key);
        "masked_log_softmax" => x.masked_log_softmax(Key, &seen(x.shape().1)).clamp(-9.0, 9.0);
        "cumsum" => x.cumsum(Key);
        "cumsum" => x.cumsum(Model);
        "sort" => x.sort(Key, Order::Descending).0;
        "sort" => x.sort(Model, Order::Ascending).0;
        "try_top_k" => match x.try_top_k(Key, C::<2>) {
            Ok((top, _)) => top.sum(Rank),
            Err(_) => x.sum(Key),
        };
    }
}

/// Every third is hidden.
fn seen<K: Size>(keys: Key<K>) -> Tensor<(Key<K>,), bool> {
    Tensor::from_fn_in((keys,), |at| at[0] % 3 != 1)
}

fn moved<B: Size, K: Size, M: Size>() -> Vec<(&'static str, Of<X<B, K, M>>)> {
    of_one! { x:
        "permute" => x.permute::<(Model<M>, Batch<B>, Key<K>), _>().exp();
        "transpose" => x.transpose(Batch, Model).exp();
        "rename" => x.rename(Key, Query).exp();
        "fold" => x.fold(Batch, Key).exp();
        "fold" => x.transpose(Batch, Key).fold(Key, Batch).exp();
        "fold" => x.transpose(Key, Model).fold(Batch, Model).exp();
        "unfold" => x.fold(Key, Model).unfold(Key, Model).exp();
        "try_reshape" => {
            let (batch, key, model) = x.shape();
            x.transpose(Batch, Key).try_reshape((model, key, batch)).unwrap().exp()
        };
        "try_slice" => match x.try_slice(Key, 1, C::<1>) {
            Ok(slice) => slice.exp().sum(Key),
            Err(_) => x.sum(Key),
        };
        "try_select" => match x.try_select(Model, 0) {
            Ok(entry) => entry.exp().mul(&entry),
            Err(_) => x.sum(Model),
        };
        "try_gather" => {
            let places = Tensor::<(Query<C<4>>,), u32>::from([0, 0, 0, 0]);
            match x.try_gather(Key, &places) {
                Ok(rows) => rows.exp().mul(&values(rows.shape(), 2)).sum(Query),
                Err(_) => x.sum(Key),
            }
        };
        "try_embed" => {
            let places = Tensor::<(Seq<C<2>>, Query<C<2>>), usize>::from([[0, 0], [0, 0]]);
            match x.fold(Batch, Key).try_embed(&places) {
                Ok(rows) => rows.exp().mul(&values(rows.shape(), 2)).sum_all(),
                Err(_) => x.sum_all(),
            }
        };
        "try_assign" => {
            let mut y = x.mul_scalar(2.0);
            let entry = x.sum(Key).sin_like();
            match y.try_assign(Key, 0, &entry) {
                Ok(()) => y.exp(),
                Err(_) => y,
            }
        };
        "concat" => {
            let more: Tensor<(Batch<B>, Key<C<2>>, Model<M>), f64> =
                x.try_gather(Key, &Tensor::<(Key<C<2>>,), u32>::from([0, 0]))
                    .unwrap_or_else(|_| Tensor::ones_in((x.shape().0, Key(C), x.shape().2)));
            let all = more.concat(&more.exp(), Key);
            all.mul(&values(all.shape(), 3)).sum(Key)
        };
        "try_stack" => try_stack([x, &x.exp(), x], Twice).unwrap().tanh();
        "detach" => x.mul_scalar(1.0).add(&x.detach().sub(&x.detach()));
    }
}

/// A smooth function that is none of the operations under test.
trait SinLike {
    fn sin_like(&self) -> Self;
}
impl<S: Shape> SinLike for Tensor<S, f64> {
    fn sin_like(&self) -> Self {
        self.tanh().mul_scalar(1.5)
    }
}

fn binary<B: Size, K: Size, M: Size>() -> Vec<(&'static str, OfTwo<X<B, K, M>, Y<B, M>>)> {
    of_two! { x, y:
        "add" => x.add(y);
        "add" => x.add(&y.sum(Batch)).add(&y.sum_all());
        "sub" => x.sub(y);
        "sub" => x.sub(&y.sum(Model));
        "mul" => x.mul(y);
        "mul" => x.mul(x).mul(&x.sum(Batch)).mul(&x.sum(Model));
        "mul" => x.mul(&x.sum_all()).mul(&y.sum(Batch));
        "div" => x.div(&y.mul(y).add_scalar(0.3));
        "pow" => x.mul(x).add_scalar(0.2).pow(y);
        "maximum" => x.maximum(y);
        "minimum" => x.minimum(y);
        "where_or" => x.where_or(&seen(x.shape().1), y);
        "add_in_place" => changed(x, |x| x.add_in_place(y));
        "sub_in_place" => changed(x, |x| x.sub_in_place(y));
        "mul_in_place" => changed(x, |x| x.mul_in_place(y));
        "dot" => x.dot(&y.rename(Batch, Hidden), Model);
        "dot" => x.transpose(Batch, Key).dot(&y.rename(Model, Hidden), Batch);
        "dot" => x.dot(y, Model);
        "dot" => y.dot(y, Model);
        "dot" => x.dot(&x.sum(Key).sum(Batch), Model);
        "dot" => x.dot(&x.rename(Key, Query), Model);
        "dot" => x.transpose(Key, Model).dot(&x.rename(Model, Hidden), Key);
        "matmul" => x.matmul(&x.rename(Key, Query).transpose(Query, Model));
        "matmul" => x.matmul(&y.rename(Batch, Hidden).transpose(Hidden, Model));
        "mean_squared_error" => mean_squared_error(&x.sum(Key), y);
    }
}

fn check_one<B: Size, K: Size, M: Size>(
    (name, f): (&str, Of<X<B, K, M>>),
    shape: (Batch<B>, Key<K>, Model<M>),
) {
    let mut packed = One { x: Parameter::new(values(shape, 0)) };
    try_check_gradients(&mut packed, 1e-7, |module, train| f(&train.read(&module.x)))
        .unwrap_or_else(|error| panic!("{name}, {shape:?}: {error}"));
    let (batch, key, model) = shape;
    let mut strided = One { x: Parameter::new(values((model, key, batch), 1)) };
    try_check_gradients(&mut strided, 1e-7, |module, train| {
        f(&train.read(&module.x).transpose(Model, Batch))
    })
    .unwrap_or_else(|error| panic!("{name}, {shape:?} strided: {error}"));
}

fn check_two<B: Size, K: Size, M: Size>(
    (name, f): (&str, OfTwo<X<B, K, M>, Y<B, M>>),
    shape: (Batch<B>, Key<K>, Model<M>),
) {
    let (batch, key, model) = shape;
    let (x, y) = (values(shape, 0), values((batch, model), 7));
    let mut packed = Two { x: Parameter::new(x), y: Parameter::new(y) };
    try_check_gradients(&mut packed, 1e-7, |module, train| {
        f(&train.read(&module.x), &train.read(&module.y))
    })
    .unwrap_or_else(|error| panic!("{name}, {shape:?}: {error}"));
    let (x, y) = (values((model, key, batch), 1), values((model, batch), 8));
    let mut strided = Two { x: Parameter::new(x), y: Parameter::new(y) };
    try_check_gradients(&mut strided, 1e-7, |module, train| {
        let (x, y) = (train.read(&module.x), train.read(&module.y));
        f(&x.transpose(Model, Batch), &y.transpose(Model, Batch))
    })
    .unwrap_or_else(|error| panic!("{name}, {shape:?} strided: {error}"));
}

fn every_size(ones: bool) {
    for [b, k, m] in SIZES {
        dyn_size!(batch = b, key = k, model = m);
        let shape = (Batch(batch), Key(key), Model(model));
        if ones {
            for table in [unary(), along(), moved()] {
                table.into_iter().for_each(|entry| check_one(entry, shape));
            }
        } else {
            binary().into_iter().for_each(|entry| check_two(entry, shape));
        }
    }
}

#[test]
fn operations_on_one_tensor_agree_with_differences() {
    every_size(true);
}

#[test]
fn operations_on_two_tensors_agree_with_differences() {
    every_size(false);
}

#[test]
fn operations_on_static_sizes_agree_with_differences() {
    type Wide = (Batch<C<2>>, Seq<C<3>>, Model<C<4>>);
    let mut module = One::<Wide> { x: Parameter::new(values(Default::default(), 0)) };
    let mut check = |name: &str, f: Of<Tensor<Wide, f64>>| {
        try_check_gradients(&mut module, 1e-7, |module, train| f(&train.read(&module.x)))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    check("split_heads", |x| weighed(&x.split_heads::<C<2>>().exp()));
    check("merge_heads", |x| weighed(&x.split_heads::<C<2>>().exp().merge_heads()));
    check("merge_heads", |x| weighed(&x.split_heads::<C<2>>().merge_heads().exp()));
    check("split_axis", |x| weighed(&x.split_axis(Model, Heads(C::<2>), HeadDim).exp()));
    check("merge_axes", |x| weighed(&x.merge_axes(Seq, Model, Hidden).exp()));
    check("flatten", |x| {
        let flat: Tensor<(Flat<C<24>>,), f64> = x.transpose(Seq, Model).flatten();
        weighed(&flat.exp())
    });
    check("reshape", |x| {
        let other: Tensor<(Seq<C<6>>, Model<C<4>>), f64> = x.reshape();
        weighed(&other.exp())
    });
    check("chunk", |x| {
        let [a, b] = x.chunk(Model, C::<2>);
        weighed(&a.exp().mul(&b))
    });
    // Several views of one tensor, which overlap, of memory in another order, one of them last of all.
    check("chunk", |x| {
        let turned = x.mul_scalar(2.0).transpose(Seq, Model);
        let [a, b] = turned.chunk(Model, C::<2>);
        let overlap = |from| turned.try_slice(Model, from, C::<3>).unwrap();
        let sum = weighed(&overlap(0).exp().mul(&overlap(1)));
        sum.add(&weighed(&a.tanh().mul(&b))).add(&weighed(&turned.exp()))
    });
}

proptest! {
    #![proptest_config(draws(12))]

    #[test]
    fn operations_of_any_size_agree_with_differences(
        dims in [0usize..5, 0..5, 0..5],
        picks in any::<[prop::sample::Index; 4]>(),
    ) {
        dyn_size!(batch = dims[0], key = dims[1], model = dims[2]);
        let shape = (Batch(batch), Key(key), Model(model));
        for (table, pick) in [unary(), along(), moved()].into_iter().zip(picks) {
            check_one(*pick.get(&table), shape);
        }
        check_two(*picks[3].get(&binary()), shape);
    }
}

/// Operations of `src/ops` whose results are no floats, or that are no operations.
const WITHOUT: [&str; 12] = [
    "try_argmax",
    "equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "and",
    "or",
    "not",
    "all_close",
    "try_close",
    "index_of",
];

#[test]
fn no_operation_is_missing_from_the_lists() {
    let statics =
        ["split_heads", "merge_heads", "split_axis", "merge_axes", "flatten", "reshape", "chunk"];
    type S = C<1>;
    let mut listed: BTreeSet<&str> = WITHOUT.into_iter().chain(statics).collect();
    for table in [unary::<S, S, S>(), along(), moved()] {
        listed.extend(table.into_iter().map(|(name, _)| name));
    }
    listed.extend(binary::<S, S, S>().into_iter().map(|(name, _)| name));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops");
    let mut seen = 0;
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines().map(str::trim_start).filter(|line| !line.contains("$name")) {
            let Some(rest) = line.strip_prefix("pub fn ") else { continue };
            let name = rest.split(['<', '(']).next().unwrap();
            assert!(listed.contains(name), "{name} is in no list of operations with a gradient");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}
