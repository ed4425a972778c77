//! Every operation gives the same bits for a strided tensor as for a packed one.

use proptest::prelude::*;
use shapeproof::{
    Attention, Batch, C, Causal, Float, HeadDim, Heads, Hidden, Infer, Key, KvHeads, LayerNorm,
    Linear, Model, MultiHeadAttention, NoMask, Order, Query, ScoreBias, Seq, Shape, Tensor, Vocab,
    axis, dyn_size, try_stack,
};

use super::{Bits, Scattered, draws};
use crate::masks::narrowed;
use crate::random::Random;

type Found = (Vec<usize>, Vec<u64>);

/// `op` of every layout of `x` has the bits of `op` of `x`.
#[track_caller]
fn same<T: Scattered<E>, E: Float>(what: &str, x: &T, op: impl Fn(&T) -> Found) {
    same_but_for(what, x, E::from_f64(f64::NAN), op);
}

#[track_caller]
fn same_but_for<T: Scattered<E>, E>(what: &str, x: &T, junk: E, op: impl Fn(&T) -> Found) {
    let want = op(x);
    for (way, x) in x.scattered(junk).iter().enumerate() {
        assert_eq!(op(x), want, "{what}, layout {way}");
    }
}

fn tensor<S: Shape, E: Float>(shape: S, random: &mut Random) -> Tensor<S, E> {
    let values = random.values(shape.try_count().unwrap());
    Tensor::try_from_vec(shape, narrowed(&values)).unwrap()
}

fn flags<S: Shape>(shape: S, random: &mut Random) -> Tensor<S, bool> {
    Tensor::from_fn_in(shape, |_| random.flag())
}

macro_rules! for_both_elements {
    ($($name:ident => $check:ident($($arg:ident in $strategy:expr),+);)+) => {
        proptest! {
            #![proptest_config(draws(24))]
            $(
                #[test]
                fn $name($($arg in $strategy,)+ seed: u64) {
                    $check::<f32>($($arg,)+ seed);
                    $check::<f64>($($arg,)+ seed);
                }
            )+
        }
    };
}
for_both_elements! {
    functions_of_one_element_do_not_depend_on_strides => unary(dims in [0usize..5, 0..6, 0..7]);
    arithmetic_and_comparisons_do_not_depend_on_strides => binary(dims in [0usize..5, 0..6, 0..7]);
    reductions_and_orders_do_not_depend_on_strides => reductions(dims in [0usize..4, 1..7, 1..19]);
    softmaxes_do_not_depend_on_strides => softmaxes(dims in [0usize..4, 0..6, 0..19]);
    norms_and_linear_maps_do_not_depend_on_strides => layers(dims in [0usize..4, 0..6, 1..19]);
    products_do_not_depend_on_strides => products(dims in [0usize..4, 0..6, 0..11]);
    joins_and_lookups_do_not_depend_on_strides => joins(dims in [0usize..4, 1..6, 0..7]);
    rearrangements_do_not_depend_on_strides => rearrangements(dims in [0usize..4, 0..6, 0..5]);
    attention_and_its_masks_do_not_depend_on_strides => attention(dims in [0usize..3, 0..6, 0..7]);
    attention_layers_do_not_depend_on_strides => attention_layers(dims in [0usize..3, 0..6, 0..7]);
}

fn unary<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m);
    let x = tensor::<_, E>((Batch(b), Seq(s), Model(m)), &mut Random::new(seed));
    macro_rules! each {
        ($($name:ident($($arg:expr),*))+) => { $(
            same(stringify!($name), &x, |x| found(&x.$name($($arg),*)));
        )+ };
    }
    each! {
        exp() ln() sqrt() abs() neg() tanh() relu() gelu() gelu_tanh() silu() sigmoid()
        clamp(-0.5, 1.0) add_scalar(1.5) sub_scalar(0.1) mul_scalar(0.3) div_scalar(0.7)
        pow_scalar(3.0) packed()
    }
    same("map", &x, |x| found(&x.map(|x| E::from_f64(x.to_f64() * 2.0))));
    same("to", &x, |x| found(&x.to::<f64>()));
    same("from one element type to the other", &x, |x| found(&x.to::<f32>()));
    same("sum_all", &x, |x| found(&x.sum_all()));
    same("mean_all", &x, |x| found(&x.mean_all()));
}

/// Bits of any float.
fn found<S: Shape, E: Float>(x: &Tensor<S, E>) -> Found {
    (x.dims().to_vec(), crate::masks::bits(&x.to_vec()))
}

fn binary<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m);
    let mut random = Random::new(seed);
    let shape = (Batch(b), Seq(s), Model(m));
    let (x, y) = (tensor::<_, E>(shape, &mut random), tensor::<_, E>(shape, &mut random));
    let row = tensor::<_, E>((Model(m),), &mut random);
    let edges = tensor::<_, E>((Batch(b), Model(m)), &mut random);
    let keep = flags((Seq(s), Model(m)), &mut random);
    macro_rules! each {
        ($($name:ident)+) => { $(
            let name = stringify!($name);
            same(name, &x, |x| x.$name(&y).bits_of());
            same(name, &y, |y| x.$name(y).bits_of());
            same(name, &x, |x| x.$name(&row).bits_of());
            same(name, &row, |row| x.$name(row).bits_of());
            same(name, &edges, |edges| x.$name(edges).bits_of());
        )+ };
    }
    each! {
        add sub mul div pow maximum minimum equal less less_equal greater greater_equal
    }
    same("where_or", &x, |x| found(&x.where_or(&keep, &row)));
    same("where_or", &row, |row| found(&x.where_or(&keep, row)));
    same_but_for("where_or", &keep, false, |keep| found(&x.where_or(keep, &row)));
    same_but_for("and", &keep, true, |keep| keep.and(keep).or(&keep.not()).bits());
    same("==", &x, |x| (vec![usize::from(*x == x.packed()), usize::from(*x == y)], Vec::new()));
    same("all_close", &x, |x| (vec![usize::from(x.all_close(&y, 0.5, 0.5))], Vec::new()));
}

/// Bits of floats and booleans alike, for the macro above.
trait BitsOf {
    fn bits_of(&self) -> Found;
}
impl<S: Shape, E: shapeproof::Element> BitsOf for Tensor<S, E> {
    fn bits_of(&self) -> Found {
        let text = |x: E| {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            format!("{x:?}").hash(&mut hasher); // the shortest text that gives these bits back
            hasher.finish()
        };
        (self.dims().to_vec(), self.to_vec().into_iter().map(text).collect())
    }
}

fn reductions<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m);
    let mut random = Random::new(seed);
    let x = tensor::<_, E>((Batch(b), Seq(s), Model(m)), &mut random);
    let coarse = x.mul_scalar(2.0).map(|x| E::from_f64(x.to_f64().round())); // with equals
    macro_rules! along {
        ($($name:ident)+) => { $(
            let name = stringify!($name);
            same(name, &x, |x| found(&x.$name(Batch)));
            same(name, &x, |x| found(&x.$name(Seq)));
            same(name, &x, |x| found(&x.$name(Model)));
        )+ };
    }
    along! { sum mean variance max min cumsum }
    for x in [&x, &coarse] {
        same("try_argmax", x, |x| x.try_argmax(Seq).unwrap().bits());
        same("try_argmax", x, |x| x.try_argmax(Model).unwrap().bits());
        for order in [Order::Ascending, Order::Descending] {
            same("sort", x, |x| found(&x.sort(Seq, order).0));
            same("sort", x, |x| x.sort(Seq, order).1.bits());
            same("sort", x, |x| x.sort(Model, order).1.bits());
        }
        same("top_k", x, |x| found(&x.try_top_k(Model, C::<1>).unwrap().0));
        same("top_k", x, |x| x.try_top_k(Seq, C::<1>).unwrap().1.bits());
    }
}

fn softmaxes<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m);
    let mut random = Random::new(seed);
    let x = tensor::<_, E>((Batch(b), Query(s), Key(m)), &mut random);
    let keep = flags((Query(s), Key(m)), &mut random);
    same("softmax", &x, |x| found(&x.softmax(Batch)));
    same("softmax", &x, |x| found(&x.softmax(Query)));
    same("softmax", &x, |x| found(&x.softmax(Key)));
    same("log_softmax", &x, |x| found(&x.log_softmax(Query)));
    same("masked_softmax", &x, |x| found(&x.masked_softmax(Key, &keep)));
    same("masked_softmax", &x, |x| found(&x.masked_softmax(Query, &keep)));
    same("masked_log_softmax", &x, |x| found(&x.masked_log_softmax(Key, &keep)));
    same_but_for("masked_softmax", &keep, true, |keep| found(&x.masked_softmax(Key, keep)));
    same_but_for("masked_log_softmax", &keep, true, |keep| {
        found(&x.masked_log_softmax(Query, keep))
    });
}

fn layers<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m);
    let mut random = Random::new(seed);
    let x = tensor::<_, E>((Batch(b), Seq(s), Model(m)), &mut random);
    let mut norm = LayerNorm::<Model<_>, E>::new_in((Model(m),), 1e-5);
    let row = tensor((Model(m),), &mut random);
    norm.bias.set(row.clone());
    same("layer norm", &x, |x| found(&norm.forward(x, &mut Infer)));
    same("weight of a layer norm", &row, |row| {
        let mut norm = LayerNorm::<Model<_>, E>::new_in((Model(m),), 1e-5);
        norm.weight.set(row.clone());
        found(&norm.forward(&x, &mut Infer))
    });
    let both = LayerNorm::<(Seq<_>, Model<_>), E>::new_in((Seq(s), Model(m)), 1e-5);
    same("layer norm over two axes", &x, |x| found(&both.forward(x, &mut Infer)));

    let weight = tensor((Model(m), Hidden(C::<5>)), &mut random);
    let bias = tensor((Hidden(C::<5>),), &mut random);
    let linear = Linear::new(weight.clone(), bias.clone());
    same("linear", &x, |x| found(&linear.forward(x, &mut Infer)));
    same("weight of a linear map", &weight, |weight| {
        found(&Linear::new(weight.clone(), bias.clone()).forward(&x, &mut Infer))
    });
    same("bias of a linear map", &bias, |bias| {
        found(&Linear::new(weight.clone(), bias.clone()).forward(&x, &mut Infer))
    });
}

fn products<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m);
    let mut random = Random::new(seed);
    let x = tensor::<_, E>((Batch(b), Heads(C::<2>), Query(s), HeadDim(m)), &mut random);
    let y = tensor::<_, E>((Batch(b), Heads(C::<2>), HeadDim(m), Key(C::<3>)), &mut random);
    let z = tensor::<_, E>((Batch(b), Heads(C::<2>), Key(C::<3>), HeadDim(m)), &mut random);
    let w = tensor::<_, E>((HeadDim(m), Model(C::<4>)), &mut random);
    let v = tensor::<_, E>((HeadDim(m),), &mut random);
    same("matmul", &x, |x| found(&x.matmul(&y)));
    same("matmul", &y, |y| found(&x.matmul(y)));
    same("matmul with one matrix", &x, |x| found(&x.matmul(&w)));
    same("matmul with one matrix", &w, |w| found(&x.matmul(w)));
    same("dot", &x, |x| found(&x.dot(&z, HeadDim)));
    same("dot", &z, |z| found(&x.dot(z, HeadDim)));
    same("dot with a weight", &w, |w| found(&x.dot(w, HeadDim)));
    same("dot with a vector", &v, |v| found(&x.dot(v, HeadDim)));
    same("dot with a vector", &x, |x| found(&x.dot(&v, HeadDim)));
    same("dot over keys", &z, |z| found(&y.dot(&z.rename(HeadDim, Model), Key)));
    // A product with a transposed side is the product with its copy.
    assert_eq!(found(&x.matmul(&z.transpose(Key, HeadDim))), found(&x.dot(&z, HeadDim)));
}

axis!(Beam, Layer);

fn joins<E: Float>([b, s, m]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, m = m, more = 2);
    let mut random = Random::new(seed);
    let x = tensor::<_, E>((Batch(b), Seq(s), Model(m)), &mut random);
    let y = tensor::<_, E>((Batch(b), Seq(more), Model(m)), &mut random);
    let table = tensor::<_, E>((Vocab(s), Model(m)), &mut random);
    let places = Tensor::from_fn_in((Beam(C::<4>),), |_| random.below(x.dims()[1]));
    let tokens = Tensor::from_fn_in((Batch(b), Seq(C::<3>)), |_| random.below(x.dims()[1]));
    same("concat", &x, |x| found(&x.concat(&y, Seq)));
    same("concat", &y, |y| found(&x.concat(y, Seq)));
    same("concat", &x, |x| found(&x.concat(x, Model)));
    same("stack", &x, |x| found(&try_stack([x, &x.exp()], Layer).unwrap()));
    same("gather", &x, |x| found(&x.try_gather(Seq, &places).unwrap()));
    same_but_for("gather", &places, 99, |places| found(&x.try_gather(Seq, places).unwrap()));
    same("embed", &table, |table| found(&table.try_embed(&tokens).unwrap()));
    same_but_for("embed", &tokens, 99, |tokens| found(&table.try_embed(tokens).unwrap()));
}

fn rearrangements<E: Float>([b, s, d]: [usize; 3], seed: u64) {
    dyn_size!(b = b, s = s, d = d);
    let mut random = Random::new(seed);
    let x = tensor::<_, E>((Batch(b), Seq(s), Model(C::<6>)), &mut random);
    let y = tensor::<_, E>((Batch(b), Heads(C::<3>), Query(s), HeadDim(C::<2>)), &mut random);
    let z = tensor::<_, E>((Batch(b), Heads(C::<3>), HeadDim(d)), &mut random);
    same("split_heads", &x, |x| found(&x.split_heads::<C<3>>()));
    same("merge_heads", &y, |y| found(&y.merge_heads()));
    same("split_axis", &x, |x| found(&x.split_axis(Model, Heads(C::<2>), HeadDim)));
    same("merge_axes", &y.transpose(Heads, Query), |y| found(&y.merge_axes(Heads, HeadDim, Model)));
    same("fold", &z, |z| found(&z.fold(Heads, HeadDim)));
    same("fold", &z, |z| found(&z.fold(Batch, Heads)));
    same("unfold", &z, |z| found(&z.fold(Batch, Heads).unfold(Batch, Heads)));
    same("rename", &x, |x| found(&x.rename(Seq, Key)));
    same("transpose", &x, |x| found(&x.transpose(Batch, Model)));
    same("reshape", &z, |z| found(&z.try_reshape((HeadDim(d), Heads(C::<3>), Batch(b))).unwrap()));
    let start = C::<4>;
    same("slice", &x, |x| found(&x.try_slice(Model, 1, start).unwrap()));
    same("slice of a slice", &x, |x| {
        let part = x.try_slice(Model, 1, start).unwrap();
        found(&part.try_slice(Model, 2, C::<2>).unwrap())
    });
    same("chunk", &x, |x| found(&x.chunk(Model, C::<3>)[1]));
    same("select", &x, |x| found(&x.try_select(Model, 5).unwrap()));
    same("erase", &x, |x| {
        let any = x.erase();
        (any.dims().to_vec(), crate::masks::bits(&any.to_vec()))
    });
    same("print", &x, |x| (x.to_string().bytes().map(usize::from).collect(), Vec::new()));
}

fn attention<E: Float>([b, l, s]: [usize; 3], seed: u64) {
    dyn_size!(b = b, l = l, s = s);
    let mut random = Random::new(seed);
    let heads = Heads(C::<4>);
    let q = tensor::<_, E>((Batch(b), heads, Query(l), HeadDim(C::<3>)), &mut random);
    let k = tensor::<_, E>((Batch(b), KvHeads(C::<2>), Key(s), HeadDim(C::<3>)), &mut random);
    let v = tensor::<_, E>((Batch(b), KvHeads(C::<2>), Key(s), Model(C::<5>)), &mut random);
    let padding = flags((Batch(b), Key(s)), &mut random);
    let pair = flags((heads, Query(l), Key(s)), &mut random);
    let bias = tensor::<_, E>((heads, Query(l), Key(s)), &mut random);
    let run = |q: &_, k: &_, v: &_, padding: &_, pair: &_, bias: &Tensor<_, E>| -> Found {
        let mask = Causal & padding & pair & ScoreBias(bias.clone());
        let (y, weights) = Attention::new().apply_with_weights(q, k, v, &mask);
        let alone = Attention::new().apply(q, k, v, mask);
        (alone.dims().to_vec(), [found(&alone).1, found(&y).1, found(&weights).1].concat())
    };
    same("queries", &q, |q| run(q, &k, &v, &padding, &pair, &bias));
    same("keys", &k, |k| run(&q, k, &v, &padding, &pair, &bias));
    same("values", &v, |v| run(&q, &k, v, &padding, &pair, &bias));
    same_but_for("padding", &padding, true, |padding| run(&q, &k, &v, padding, &pair, &bias));
    same_but_for("a mask by head", &pair, true, |pair| run(&q, &k, &v, &padding, pair, &bias));
    same("a bias", &bias, |bias| run(&q, &k, &v, &padding, &pair, bias));
    // All at once, and with values that are a chunk of something wider.
    let want = run(&q, &k, &v, &padding, &pair, &bias);
    let nan = E::from_f64(f64::NAN);
    for way in 0..5 {
        let (q, k) = (&q.scattered(nan)[way], &k.scattered(nan)[(way + 1) % 5]);
        let v = &v.scattered(nan)[(way + 2) % 5];
        let (padding, pair) = (&padding.scattered(true)[way], &pair.scattered(true)[way]);
        assert_eq!(run(q, k, v, padding, pair, &bias.scattered(nan)[way]), want);
    }
    let wide = v.concat(&v, Model);
    let [_, second] = wide.chunk(Model, C::<2>);
    assert_eq!(run(&q, &k, &second, &padding, &pair, &bias), want);
}

fn attention_layers<E: Float>([b, l, s]: [usize; 3], seed: u64) {
    dyn_size!(b = b, l = l, s = s);
    let mut random = Random::new(seed);
    let mut generator = shapeproof::Generator::seeded(seed);
    let fused =
        MultiHeadAttention::<C<6>, C<3>, C<6>, C<6>, shapeproof::Bias, E>::xavier(&mut generator);
    let cross =
        MultiHeadAttention::<C<6>, C<2>, C<3>, C<5>, shapeproof::NoBias, E>::xavier(&mut generator);
    let x = tensor::<_, E>((Batch(b), Seq(l), Model(C::<6>)), &mut random);
    let k = tensor::<_, E>((Batch(b), Seq(s), Model(C::<3>)), &mut random);
    let v = tensor::<_, E>((Batch(b), Seq(s), Model(C::<5>)), &mut random);
    same("self attention", &x, |x| found(&fused.forward(x, Causal, &mut Infer)));
    same("queries", &x, |x| found(&cross.cross(x, &k, &v, NoMask, &mut Infer)));
    same("keys", &k, |k| found(&cross.cross(&x, k, &v, NoMask, &mut Infer)));
    same("values", &v, |v| found(&cross.cross(&x, &k, v, NoMask, &mut Infer)));
}
