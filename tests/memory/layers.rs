//! Layers and attention: one output each, nothing recorded without training, memory that is linear in length.

use shapeproof::{
    Activation, Batch, C, Causal, FeatureMap, FeedForward, Generator, HeadDim, Heads, Hidden,
    Infer, Key, KvCache, LayerNorm, Linear, LinearAttention, Mode, Model, MultiHeadAttention,
    NoMask, Parameter, Query, Seq, Size, Static, Tensor, Train, bf16, dyn_size, f16,
    scaled_dot_product_attention,
};

use crate::{OWN, Turn, allocations, alone, peak};

#[test]
fn a_small_layer_allocates_its_output_alone() {
    let _turn = Turn::new("small");
    let layer = MultiHeadAttention::<C<32>, C<4>>::xavier(&mut Generator::seeded(1));
    let x = Tensor::<(Batch<C<2>>, Seq<C<16>>, Model<C<32>>)>::ones();
    // The elements, and the shared cell around them.
    assert_eq!(allocations(|| layer.forward(&x, NoMask, &mut Infer)), 2);
}

#[test]
fn without_parameters_in_training_nothing_is_recorded() {
    let _turn = Turn::new("recorded");
    type Small = (Batch<C<4>>, Seq<C<6>>, Model<C<8>>);
    let x = Tensor::<Small>::ones();
    let row = Tensor::<(Model<C<8>>,)>::ones();
    // The elements of the result, and the shared cell around them.
    assert_eq!(allocations(|| x.add(&row)), 2);
    assert_eq!(allocations(|| x.mul(&x)), 2);
    assert_eq!(allocations(|| x.gelu()), 2);
    assert_eq!(allocations(|| x.softmax(Model)), 2);
    assert_eq!(allocations(|| x.sum(Model)), 2);
    // A view takes none.
    assert_eq!(allocations(|| x.transpose(Seq, Model)), 0);
    assert_eq!(allocations(|| x.try_select(Batch, 1)), 0);
    let up = Linear::<Model<C<8>>, Hidden<C<12>>>::xavier(&mut Generator::seeded(1));
    assert_eq!(allocations(|| up.forward(&x, &mut Infer)), 2);
    let norm = LayerNorm::<Model<C<8>>>::new(1e-5);
    assert_eq!(allocations(|| norm.forward(&x, &mut Infer)), 2);
    let block = FeedForward::<C<8>, C<12>>::xavier(Activation::Gelu, &mut Generator::seeded(2));
    assert_eq!(allocations(|| block.forward(&x, &mut Infer)), 4);
    // In training, each of them takes a node besides.
    assert!(allocations(|| up.forward(&x, &mut Train::seeded(1))) > 2);
}

/// What was computed before keeps what its gradient needs, and no more.
#[test]
fn a_graph_that_is_dropped_gives_its_memory_back() {
    let _turn = Turn::new("graph");
    let layer = Linear::<Model<C<64>>, Hidden<C<64>>>::xavier(&mut Generator::seeded(1));
    let x = Tensor::<(Batch<C<64>>, Model<C<64>>)>::ones();
    let step = || {
        let mut train = Train::seeded(1);
        let loss = layer.forward(&x, &mut train).gelu().mean_all();
        train.backward(&loss)
    };
    alone(|| {
        drop(step());
        let (_, before) = OWN.get();
        let gradients = step();
        let held = OWN.get().1.wrapping_sub(before);
        assert!(held < 4 * (64 * 64 + 64) + 2048, "{held} bytes for the gradients");
        drop(gradients);
        assert_eq!(OWN.get().1, before);
    });
}

/// 8 heads of 64 over 16,384 positions: the scores of one head alone would be 1 GiB.
#[test]
fn the_memory_of_attention_is_linear_in_length() {
    let _turn = Turn::new("long");
    type Long = (Batch<C<1>>, Heads<C<8>>, Query<C<16384>>, HeadDim<C<64>>);
    type Keys = (Batch<C<1>>, Heads<C<8>>, Key<C<16384>>, HeadDim<C<64>>);
    // Nothing but the last key is seen: quick, and every query's answer is its value.
    let last = Tensor::<(Key<C<16384>>,), bool>::from_fn(|at| at[0] == 16383);
    let (q, k) = (Tensor::<Long>::zeros(), Tensor::<Keys>::ones());
    let (y, peak) = peak(|| scaled_dot_product_attention(&q, &k, &k, last));
    assert!(y.to_vec().iter().all(|&y| y == 1.0));
    assert!(peak < 40 << 20, "{peak}");
}

type Long<A> = Tensor<(Batch<C<1>>, Heads<C<2>>, A, HeadDim<C<16>>)>;

/// The bytes that attention and its gradients take over this length, beside what goes in.
fn training<L: Static>(
    attend: impl Fn(&Long<Query<L>>, &Long<Key<L>>, &Long<Key<L>>) -> Long<Query<L>>,
) -> usize {
    let q = Parameter::new(Long::<Query<L>>::ones());
    let (k, v) = (Parameter::new(Long::<Key<L>>::ones()), Parameter::new(Long::<Key<L>>::ones()));
    let mut train = Train::seeded(1);
    let (gradients, bytes) = peak(|| {
        let y = attend(&train.read(&q), &train.read(&k), &train.read(&v));
        train.backward(&y.sum_all())
    });
    assert!(gradients.norm() > 0.0);
    bytes
}

/// Over 8,192 positions the weights of one head would be 256 MiB, q and each other operand is 1.
#[test]
fn the_memory_of_attentions_gradients_is_linear_in_length() {
    fn of<L: Static>() -> usize {
        // Quick, since few keys are seen: those at both ends.
        let seen = Tensor::<(Key<L>,), bool>::from_fn(|at| at[0] < 2 || at[0] + 2 >= L::N);
        training::<L>(|q, k, v| scaled_dot_product_attention(q, k, v, &seen))
    }
    let _turn = Turn::new("gradients");
    let (half, whole) = (of::<C<4096>>(), of::<C<8192>>());
    assert!(whole < 2 * half + half / 5, "{half} for 4096 positions, {whole} for 8192");
    assert!(whole < 16 << 20, "{whole}");
}

#[test]
fn the_memory_of_linear_attentions_gradients_is_linear_in_length() {
    let _turn = Turn::new("linear");
    for features in [FeatureMap::EluPlusOne, FeatureMap::Relu, FeatureMap::Normalized] {
        let attention = LinearAttention::new(features);
        let half = training::<C<1024>>(|q, k, v| attention.apply(q, k, v, Causal));
        let whole = training::<C<2048>>(|q, k, v| attention.apply(q, k, v, Causal));
        // The weights of one head would be 16 MiB, each operand is a quarter of one.
        assert!(whole < 2 * half + half / 5, "{half} for 1024 positions, {whole} for 2048");
        assert!(whole < 4 << 20, "{whole}");
    }
}

/// One token through both layers of a cache.
fn decode<Cap: Size>(cache: &mut KvCache<C<1>, Heads<C<4>>, Cap, C<64>>) {
    type One<A> = Tensor<(Batch<C<1>>, Heads<C<4>>, A, HeadDim<C<64>>)>;
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    let (q, k) = (One::<Query<C<1>>>::ones(), One::<Key<C<1>>>::ones());
    dyn_size!(keys = step.keys());
    for layer in 0..2 {
        step.append(layer, &k, &k).unwrap();
        let (k, v) = step.view(layer, Key(keys)).unwrap();
        assert_eq!(scaled_dot_product_attention(&q, &k, &v, NoMask).to_vec(), [1.0; 256]);
    }
    step.commit().unwrap();
}

/// Of each layer, the keys alone take 2 MiB.
#[test]
fn a_step_of_a_cache_takes_no_memory_of_its_size() {
    let _turn = Turn::new("cache");
    let (cache, all) = peak(|| KvCache::<_, _, C<2048>, _>::try_new(2));
    type Half<E> = KvCache<C<1>, Heads<C<4>>, C<2048>, C<64>, HeadDim<C<64>>, E>;
    for half in [peak(|| Half::<bf16>::try_new(2)).1, peak(|| Half::<f16>::try_new(2)).1] {
        let numbers = all - half; // two bytes less for each
        assert!(numbers.abs_diff(half) < 4096, "{all} bytes in f32, {half} in halves");
    }
    let mut cache = cache.unwrap();
    assert!(all >= 8 << 20, "{all}, so the count is wrong");
    decode(&mut cache);
    let ((), peak) = peak(|| (0..20).for_each(|_| decode(&mut cache)));
    assert!(peak <= 64 << 10, "{peak} for a step");
}

#[test]
fn a_ring_that_moves_its_positions_takes_no_memory_for_it() {
    let _turn = Turn::new("ring");
    let mut ring = KvCache::<_, _, C<256>, _>::try_ring(2, 200).unwrap();
    decode(&mut ring);
    let ((), peak) = peak(|| (0..600).for_each(|_| decode(&mut ring)));
    assert!(peak <= 64 << 10, "{peak} for a step");
}
