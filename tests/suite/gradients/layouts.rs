//! Gradients that lie otherwise than in row-major order, as what sums, rows and transposed tensors give: bit
//! for bit what their copies give, for sizes that fill vectors, blocks and panels.

use super::layers::rng;
use crate::io::Folder;
use shapeproof::{
    Activation, AnyParameter, Attention, Batch, Bias, C, Causal, Checkpoint, Dropout, FeatureMap,
    FeedForward, Float, GatedFeedForward, Generator, GroupedAttention, HeadDim, Hidden, Key,
    KvHeads, LayerNorm, Linear, LinearAttention, Mode, Model, Module, MultiHeadAttention, NoMask,
    Order, Parameter, Query, RmsNorm, Rotary, Seq, Shape, Tensor, Train, ValueDim, WeightLayout,
    bf16, f16, parameters,
};

type X<E, const N: usize = 200> = Tensor<(Batch<C<2>>, Seq<C<40>>, Model<C<N>>), E>;

/// A layer and what goes in.
struct With<L, S, E> {
    layer: L,
    x: Parameter<S, E>,
}
impl<L: Module, S: Shape, E: Float> Module for With<L, S, E> {
    parameters!(layer, x);
}

/// A matrix.
struct Matrix<const N: usize, E> {
    values: Parameter<(Model<C<200>>, Hidden<C<N>>), E>,
}
impl<const N: usize, E: Float> Module for Matrix<N, E> {
    parameters!(values);
}

/// A layer without parameters.
struct Nothing;
impl Module for Nothing {
    parameters!();
}

/// A result weighed and summed in a way that decides how its gradient lies.
type Sum<E, const N: usize> = fn(&X<E, N>) -> Tensor<(), E>;

/// Small whole numbers, so that no product with them is rounded.
fn whole<S: Shape + Default, E: Float>() -> Tensor<S, E> {
    let mut i = 0;
    Tensor::from_fn_in(S::default(), |_| {
        i += 1;
        E::from_f64(f64::from((i * 7) % 5) - 2.0)
    })
}

/// By name: a sum whose gradient is a view, and one whose gradient is a copy of it.
fn sums<E: Float, const N: usize>() -> [(&'static str, Sum<E, N>, Sum<E, N>); 9] {
    macro_rules! weighed {
        ($name:literal, $sums:expr, ($($axis:ty),*)) => {(
            $name,
            |y| {
                let sums: fn(&X<E, N>) -> Tensor<($($axis,)*), E> = $sums;
                sums(y).mul(&whole::<($($axis,)*), E>()).sum_all()
            },
            |y| y.mul(&X::zeros().add(&whole::<($($axis,)*), E>())).sum_all(),
        )};
    }
    [
        ("one number", |y| y.sum_all(), |y| y.mul(&X::ones()).sum_all()),
        weighed!("a number", |y| y.sum(Model).sum(Seq).sum(Batch), ()),
        weighed!("one for each sample", |y| y.sum(Model).sum(Seq), (Batch<C<2>>)),
        weighed!("one for each position", |y| y.sum(Model).sum(Batch), (Seq<C<40>>)),
        weighed!("a row", |y| y.sum(Seq).sum(Batch), (Model<C<N>>)),
        weighed!("a column", |y| y.sum(Model), (Batch<C<2>>, Seq<C<40>>)),
        weighed!("a row for each sample", |y| y.sum(Seq), (Batch<C<2>>, Model<C<N>>)),
        weighed!("a matrix", |y| y.sum(Batch), (Seq<C<40>>, Model<C<N>>)),
        (
            "transposed",
            |y| y.transpose(Batch, Model).mul(&turned::<E, N>()).sum_all(),
            |y| y.mul(&X::zeros().add(&turned::<E, N>().transpose(Batch, Model))).sum_all(),
        ),
    ]
}

fn turned<E: Float, const N: usize>() -> Tensor<(Model<C<N>>, Seq<C<40>>, Batch<C<2>>), E> {
    whole()
}

type Turned<E> = Tensor<(Model<C<200>>, Seq<C<40>>, Batch<C<2>>), E>;

/// The gradients of all parameters have the same bits, however the gradient of the result lies, whether what
/// goes in lies in row-major order or not, and whether the weights do.
#[track_caller]
fn check<E: Float, L: Module, const N: usize>(
    name: &str,
    layer: L,
    forward: impl Fn(&L, &X<E>, &mut Train) -> X<E, N>,
) {
    let x = Parameter::new(Turned::<E>::normal(0.0, 1.0, &mut Generator::seeded(8)));
    let mut module = With { layer, x };
    let bits = |module: &With<L, _, E>, sum: Sum<E, N>, packed: bool| {
        let mut train = Train::seeded(3);
        let mut x = train.read(&module.x).transpose(Model, Batch);
        if packed {
            x = x.add(&X::zeros());
        }
        let loss = sum(&forward(&module.layer, &x, &mut train));
        let gradients = train.backward(&loss);
        let bits = |(name, parameter): (String, &dyn AnyParameter)| {
            let found = gradients.find(parameter.id()).expect("each parameter was read");
            (name, found.to::<f64>().to_vec().into_iter().map(f64::to_bits).collect())
        };
        parameters(module).into_iter().map(bits).collect::<Vec<(String, Vec<u64>)>>()
    };
    let same = |found: &[(String, Vec<u64>)], expected: &[(String, Vec<u64>)], how: &str| {
        for ((parameter, found), (_, expected)) in found.iter().zip(expected) {
            assert!(found == expected, "{name} in {}, {how}: of {parameter}", E::NAME);
        }
    };
    for (lies, view, copy) in sums::<E, N>() {
        let others = ["a number", "transposed"].contains(&lies);
        for packed in [true, false].into_iter().filter(|&packed| packed || others) {
            let (found, expected) = (bits(&module, view, packed), bits(&module, copy, packed));
            same(&found, &expected, &format!("gradient {lies}, input packed: {packed}"));
        }
    }
    // What a file has in the other order is read as a transposed view.
    let [_, (_, number, _), .., (_, turned, _)] = sums::<E, N>();
    let expected = [number, turned].map(|sum| bits(&module, sum, true));
    let (folder, checkpoint) = (Folder::new(), Checkpoint::new(WeightLayout::OutIn));
    checkpoint.save(&module, folder.path("m.safetensors")).unwrap();
    checkpoint.load(&mut module, folder.path("m.safetensors")).unwrap();
    for (sum, expected) in [number, turned].into_iter().zip(&expected) {
        same(&bits(&module, sum, true), expected, "weights transposed");
    }
}

/// Each test for the elements that packing treats in ways of their own.
macro_rules! in_each {
    ($($name:ident: $check:ident;)+) => {$(
        #[test]
        fn $name() {
            $check::<f32>();
            $check::<bf16>();
            $check::<f16>();
        }
    )+};
}

in_each! {
    gradients_of_linear_maps_do_not_depend_on_how_they_lie: linear;
    gradients_of_feed_forward_blocks_do_not_depend_on_how_they_lie: feed_forward;
    gradients_of_norms_do_not_depend_on_how_they_lie: norms;
    gradients_of_multi_head_attention_do_not_depend_on_how_they_lie: multi_head;
    gradients_of_grouped_attention_do_not_depend_on_how_they_lie: grouped;
    gradients_of_attention_do_not_depend_on_how_they_lie: attention;
    gradients_of_products_do_not_depend_on_how_they_lie: products;
    gradients_along_axes_do_not_depend_on_how_they_lie: along;
    gradients_of_elements_do_not_depend_on_how_they_lie: elements;
    gradients_of_moved_elements_do_not_depend_on_how_they_lie: moved;
}

fn linear<E: Float>() {
    let map = Linear::<Model<C<200>>, Model<C<30>>, Bias, E>::xavier(&mut rng());
    check("linear", map, |map, x, train| map.forward(x, train));
    let map = Linear::<Model<C<200>>, Model<C<260>>, Bias, E>::xavier(&mut rng());
    check("linear", map, |map, x, train| map.forward(x, train));
}

fn feed_forward<E: Float>() {
    let block = FeedForward::<C<200>, C<30>, Bias, E>::xavier(Activation::Gelu, &mut rng());
    check("feed forward", block, |block, x, train| block.forward(x, train));
    let block = GatedFeedForward::<C<200>, C<30>, Bias, E>::xavier(Activation::Silu, &mut rng());
    check("gated feed forward", block, |block, x, train| block.forward(x, train));
}

fn norms<E: Float>() {
    let norm = LayerNorm::<Model<C<200>>, E>::new(1e-5);
    check("layer norm", norm, |norm, x, train| norm.forward(x, train));
    let norm = LayerNorm::<(Seq<C<40>>, Model<C<200>>), E>::new(1e-5);
    check("layer norm over two axes", norm, |norm, x, train| norm.forward(x, train));
    let norm = RmsNorm::<Model<C<200>>, E>::new(1e-5);
    check("rms norm", norm, |norm, x, train| norm.forward(x, train));
}

fn multi_head<E: Float>() {
    type Layer<E> = MultiHeadAttention<C<200>, C<5>, C<200>, C<200>, Bias, E>;
    check("self attention", Layer::<E>::xavier(&mut rng()), |layer, x, train| {
        layer.forward(x, Causal, train)
    });
    let dropout = Dropout::try_new(0.2).unwrap();
    let layer = Layer::<E>::xavier(&mut rng()).with_dropout(dropout);
    check("self attention with dropout", layer, |layer, x, train| layer.forward(x, NoMask, train));
    check("cross attention", Layer::<E>::xavier(&mut rng()), |layer, x, train| {
        layer.cross(x, x, x, NoMask, train)
    });
}

fn grouped<E: Float>() {
    let rotary = Rotary::<C<24>>::try_new(1e4).unwrap().try_at(3, Seq(C::<40>)).unwrap();
    type Layer<E> = GroupedAttention<C<200>, C<4>, C<24>, KvHeads<C<2>>, Bias, E>;
    let layer = Layer::<E>::xavier(&mut rng()).with_norms(1e-5);
    check("grouped attention", layer, |layer, x, train| {
        layer.forward_rotated(x, &rotary, Causal, train)
    });
}

/// Queries, keys and values are all made of x.
fn attention<E: Float>() {
    check("attention", Nothing, |_, x: &X<E>, _| {
        let queries = x.split_heads::<C<5>>().rename(Seq, Query);
        let keys = queries.rename(Query, Key);
        let values = keys.rename(HeadDim, ValueDim);
        let out = Attention::new().apply(&queries, &keys, &values, Causal);
        out.rename(ValueDim, HeadDim).rename(Query, Seq).merge_heads()
    });
    check("linear attention", Nothing, |_, x: &X<E>, _| {
        let queries = x.split_heads::<C<5>>().rename(Seq, Query);
        let keys = queries.rename(Query, Key);
        let values = keys.rename(HeadDim, ValueDim);
        let out =
            LinearAttention::new(FeatureMap::EluPlusOne).apply(&queries, &keys, &values, Causal);
        out.rename(ValueDim, HeadDim).rename(Query, Seq).merge_heads()
    });
}

fn by_a_matrix<const N: usize, E: Float>() {
    let matrix = Matrix::<N, E> { values: Parameter::new(Tensor::normal(0.0, 1.0, &mut rng())) };
    check("dot", matrix, |matrix, x, train| {
        x.dot(&train.read(&matrix.values), Model).rename(Hidden, Model)
    });
}

fn products<E: Float>() {
    by_a_matrix::<7, E>();
    by_a_matrix::<260, E>();
    check("dot", Nothing, |_, x: &X<E>, _| {
        x.dot(&x.rename(Seq, Key), Model).dot(&x.rename(Seq, Key), Key)
    });
    check("matmul", Nothing, |_, x: &X<E>, _| {
        let keys = x.rename(Seq, Key);
        x.matmul(&keys.transpose(Key, Model)).matmul(&keys)
    });
    check("dot of a row", Nothing, |_, x: &X<E>, _| x.add(&x.dot(&x.sum(Seq).sum(Batch), Model)));
}

fn along<E: Float>() {
    check("softmax", Nothing, |_, x: &X<E>, _| x.softmax(Model));
    check("softmax", Nothing, |_, x: &X<E>, _| x.softmax(Seq));
    check("log softmax", Nothing, |_, x: &X<E>, _| x.log_softmax(Model));
    check("log softmax", Nothing, |_, x: &X<E>, _| x.log_softmax(Batch));
    check("cumsum", Nothing, |_, x: &X<E>, _| x.cumsum(Seq));
    check("cumsum", Nothing, |_, x: &X<E>, _| x.cumsum(Model));
    check("sort", Nothing, |_, x: &X<E>, _| x.sort(Model, Order::Ascending).0);
    check("mean, variance", Nothing, |_, x: &X<E>, _| x.sub(&x.mean(Model)).mul(&x.variance(Seq)));
    check("max, min", Nothing, |_, x: &X<E>, _| x.mul(&x.max(Model)).add(&x.min(Batch)));
}

fn elements<E: Float>() {
    check("exp", Nothing, |_, x: &X<E>, _| x.exp());
    check("gelu", Nothing, |_, x: &X<E>, _| x.gelu());
    check("tanh, abs", Nothing, |_, x: &X<E>, _| x.tanh().add(&x.abs()));
    check("mul, div", Nothing, |_, x: &X<E>, _| x.mul(x).div(&x.mul(x).add_scalar(1.0)));
    check("to", Nothing, |_, x: &X<E>, _| x.to::<f64>().to::<E>());
    let dropout = Dropout::try_new(0.3).unwrap();
    check("dropout", Nothing, |_, x: &X<E>, train| dropout.forward(x, train));
    check("in place", Nothing, |_, x: &X<E>, _| {
        let mut y = x.mul_scalar(2.0);
        y.mul_in_place(x);
        y.add(x)
    });
}

fn moved<E: Float>() {
    check("a view and what it is of", Nothing, |_, x: &X<E>, _| {
        x.add(&x.transpose(Batch, Seq).exp().transpose(Seq, Batch))
    });
    check("slices", Nothing, |_, x: &X<E>, _| {
        let [first, second] = x.chunk(Model, C::<2>);
        second.concat(&first.mul(&second), Model)
    });
    check("gather", Nothing, |_, x: &X<E>, _| {
        let places =
            Tensor::<(Seq<C<40>>,), u32>::from_fn(|at| u32::try_from(at[0] * 3 % 35).unwrap());
        x.try_gather(Seq, &places).unwrap().mul(x)
    });
    check("merged and split", Nothing, |_, x: &X<E>, _| {
        x.merge_axes(Batch, Seq, Hidden).exp().split_axis(Hidden, Batch(C::<2>), Seq)
    });
}
