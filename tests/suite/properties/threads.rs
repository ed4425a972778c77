//! The same bits for any number of threads, at sizes that are worth sharing.

use rayon::{ThreadPool, ThreadPoolBuilder};
use shapeproof::{
    Activation, Attention, Batch, C, Causal, Embedding, EncoderConfig, EncoderLayer, FeatureMap,
    Float, Generator, HeadDim, Heads, Hidden, Infer, Key, KvHeads, LayerNorm, Linear,
    LinearAttention, Model, NoMask, Order, Query, Seq, Shape, Tensor, Vocab,
};
use std::sync::LazyLock;

static POOLS: LazyLock<[ThreadPool; 4]> = LazyLock::new(|| {
    [1, 2, 3, 7].map(|threads| ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
});

/// What `f` gives, which must be the same in pools of 1, 2, 3 and 7 threads.
#[track_caller]
pub(crate) fn the_same_in_pools<T: PartialEq + Send>(what: &str, f: impl Fn() -> T + Sync) -> T {
    let [one, others @ ..] = POOLS.each_ref().map(|pool| pool.install(&f));
    for (pool, other) in POOLS[1..].iter().zip(others) {
        let threads = pool.current_num_threads();
        assert!(one == other, "{what} has other bits with {threads} threads");
    }
    one
}

/// `f` gives the same bits, and some, in all of the pools.
#[track_caller]
fn same<S: Shape, E: Float>(what: &str, f: impl Fn() -> Tensor<S, E> + Sync) {
    let bits = the_same_in_pools(what, || crate::masks::bits(&f().to_vec()));
    assert!(!bits.is_empty(), "{what}");
}

type Rows = (Batch<C<6>>, Seq<C<70>>, Model<C<192>>);

fn rows<E: Float>() -> Tensor<Rows, E> {
    Tensor::normal(0.0, 1.0, &mut Generator::seeded(1))
}

macro_rules! for_all_elements {
    ($($name:ident => $check:ident;)+) => { $(
        #[test]
        fn $name() {
            $check::<f32>();
            $check::<f64>();
            $check::<shapeproof::f16>();
            $check::<shapeproof::bf16>();
        }
    )+ };
}
for_all_elements! {
    elementwise_functions_do_not_depend_on_threads => elementwise;
    reductions_do_not_depend_on_threads => reductions;
    products_do_not_depend_on_threads => products;
    lookups_do_not_depend_on_threads => lookups;
    attention_does_not_depend_on_threads => attention;
    layers_do_not_depend_on_threads => layers;
    linear_attention_does_not_depend_on_threads => linear_attention;
}

fn elementwise<E: Float>() {
    let x = rows::<E>();
    let turned = x.transpose(Batch, Model);
    let row = Tensor::<(Model<C<192>>,), E>::ones();
    same("gelu", || x.gelu());
    same("gelu of a view", || turned.gelu());
    same("add", || x.add(&row));
    same("add to a view", || turned.mul(&turned));
    same("where_or", || x.where_or(&x.less(&row), &row));
    same("copy", || turned.packed());
}

fn reductions<E: Float>() {
    let x = rows::<E>();
    same("sum", || x.sum(Model));
    same("sum", || x.sum(Batch));
    same("sum of all", || x.sum_all());
    same("mean of all", || x.mean_all());
    same("variance", || x.variance(Seq));
    same("max", || x.max(Seq));
    same("softmax", || x.softmax(Model));
    same("softmax", || x.softmax(Seq));
    same("log_softmax", || x.log_softmax(Batch));
    same("masked_softmax", || {
        x.masked_softmax(Model, &x.greater(&Tensor::scalar(E::from_f64(0.5))))
    });
    same("cumsum", || x.cumsum(Seq));
    same("sort", || x.sort(Seq, Order::Descending).0);
    same("top_k", || x.try_top_k(Model, C::<5>).unwrap().0);
    same("try_argmax", || {
        x.try_argmax(Seq).unwrap().map(|at| f32::from(u8::try_from(at).unwrap()))
    });
}

fn products<E: Float>() {
    type Short = (Batch<C<4>>, Seq<C<36>>, Model<C<48>>);
    let x = Tensor::<Short, E>::normal(0.0, 1.0, &mut Generator::seeded(1));
    let w = Tensor::<(Model<C<48>>, Hidden<C<40>>), E>::normal(0.0, 1.0, &mut Generator::seeded(2));
    let y = Tensor::<(Batch<C<4>>, Key<C<40>>, Model<C<48>>), E>::normal(
        0.0,
        1.0,
        &mut Generator::seeded(3),
    );
    same("matmul", || x.matmul(&w));
    same("batched product", || x.dot(&y, Model));
    same("with a transposed side", || x.matmul(&y.transpose(Key, Model)));
}

fn lookups<E: Float>() {
    let x = rows::<E>();
    let places = Tensor::<(Key<C<300>>,), usize>::from_fn(|at| at[0] * 7 % 70);
    let table =
        Tensor::<(Vocab<C<100>>, Model<C<192>>), E>::normal(0.0, 1.0, &mut Generator::seeded(4));
    let tokens =
        Tensor::<(Batch<C<10>>, Seq<C<60>>), usize>::from_fn(|at| (at[0] * 60 + at[1]) % 100);
    let embedding = Embedding::new(table);
    same("gather", || x.try_gather(Seq, &places).unwrap());
    same("embedding", || embedding.try_forward(&tokens, &mut Infer).unwrap());
    same("concat", || x.concat(&x, Seq));
}

fn attention<E: Float>() {
    let mut generator = Generator::seeded(5);
    type Queries = (Batch<C<2>>, Heads<C<2>>, Query<C<33>>, HeadDim<C<8>>);
    type Keys = (Batch<C<2>>, KvHeads<C<1>>, Key<C<65>>, HeadDim<C<8>>);
    let q = Tensor::<Queries, E>::normal(0.0, 1.0, &mut generator);
    let k = Tensor::<Keys, E>::normal(0.0, 1.0, &mut generator);
    let v = Tensor::<Keys, E>::normal(0.0, 1.0, &mut generator);
    let keep = Tensor::<(Batch<C<2>>, Key<C<65>>), bool>::from_fn(|at| (at[0] + at[1]) % 5 > 0);
    same("attention", || Attention::new().apply(&q, &k, &v, NoMask));
    same("masked attention", || Attention::new().apply(&q, &k, &v, Causal & &keep));
    same("with weights", || Attention::new().apply_with_weights(&q, &k, &v, Causal & &keep).0);
    same("weights", || Attention::new().apply_with_weights(&q, &k, &v, Causal & &keep).1);
}

fn layers<E: Float>() {
    let mut generator = Generator::seeded(6);
    let x = rows::<E>();
    let norm = LayerNorm::<Model<C<192>>, E>::new(1e-5);
    let linear = Linear::<_, Hidden<C<64>>, shapeproof::Bias, E>::xavier(&mut generator);
    same("layer norm", || norm.forward(&x, &mut Infer));
    same("linear", || linear.forward(&x, &mut Infer));
    let config = EncoderConfig { activation: Activation::Gelu, ..EncoderConfig::new(1e-5) };
    type Layer<E> = EncoderLayer<C<32>, C<4>, C<64>, shapeproof::Bias, E>;
    let layer = Layer::<E>::xavier(config, &mut generator);
    let x = Tensor::<(Batch<C<3>>, Seq<C<14>>, Model<C<32>>), E>::normal(0.0, 1.0, &mut generator);
    same("encoder layer", || layer.forward(&x, Causal, &mut Infer));
}

/// A plain loop inside of a parallel one: every caller gets what it would get alone.
#[test]
fn concurrent_callers_get_what_they_would_get_alone() {
    use rayon::prelude::*;
    let x = rows::<f32>();
    let alone = crate::masks::bits(&x.softmax(Model).to_vec());
    for pool in POOLS.iter() {
        let all: Vec<_> = pool.install(|| {
            (0..8).into_par_iter().map(|_| crate::masks::bits(&x.softmax(Model).to_vec())).collect()
        });
        assert!(all.iter().all(|bits| *bits == alone));
    }
}

/// Weights are packed on the pool, and a thread that waits there may be given a second call of the
/// layer whose weights it is packing.
#[test]
fn first_calls_of_one_layer_from_all_sides_wait_for_nothing_but_their_work() {
    let pool = &POOLS[1];
    let x = Tensor::<(Batch<C<1>>, Seq<C<1>>, Model<C<256>>)>::ones();
    for round in 0..100 {
        let layer = Linear::<Model<C<256>>, Hidden<C<256>>>::xavier(&mut Generator::seeded(round));
        std::thread::scope(|scope| {
            let call = || pool.install(|| layer.forward(&x, &mut Infer));
            let calls: Vec<_> = (0..6).map(|_| scope.spawn(call)).collect();
            let mut all = calls.into_iter().map(|call| call.join().unwrap());
            let first = all.next().unwrap();
            assert!(all.all(|y| y == first));
        });
    }
}

fn linear_attention<E: Float>() {
    let mut generator = Generator::seeded(12);
    let mut normal = || Tensor::normal(0.0, 1.0, &mut generator);
    let q: Tensor<(Batch<C<2>>, Heads<C<4>>, Query<C<130>>, HeadDim<C<8>>), E> = normal();
    let k = q.rename(Query, Key).try_slice(Heads, 1, C::<2>).unwrap();
    let k: Tensor<(Batch<C<2>>, KvHeads<C<2>>, Key<C<130>>, HeadDim<C<8>>), E> =
        k.rename(Heads, KvHeads);
    for features in [FeatureMap::EluPlusOne, FeatureMap::Relu, FeatureMap::Normalized] {
        let attention = LinearAttention::new(features);
        same("linear attention", || attention.apply(&q, &k, &k, NoMask));
        same("causal linear attention", || attention.apply(&q, &k, &k, Causal));
    }
}
