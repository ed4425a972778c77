//! Empty axes and axes of one are legal everywhere.

use shapeproof::{
    Activation, Attention, Batch, Bias, C, Causal, CausalFromStart, Embedding, Encoder,
    EncoderConfig, EncoderLayer, FeedForward, Float, Generator, HeadDim, Heads, Hidden, Infer, Key,
    KvHeads, LayerNorm, Linear, Mask, Model, MultiHeadAttention, NoMask, Order, Prefix, Query,
    ScoreBias, Seq, Shape, Size, Tensor, Train, ValueDim, Vocab, axis, dyn_size,
    scaled_dot_product_attention, try_stack,
};

use super::{Bits, Gap};

/// Every choice of sizes 0, 1 and 2 for three axes.
fn small() -> impl Iterator<Item = [usize; 3]> {
    (0..27).map(|i| [i / 9, i / 3 % 3, i % 3])
}

fn filled<S: Shape, E: Float>(shape: S) -> Tensor<S, E> {
    let mut n = 0.0;
    Tensor::from_fn_in(shape, |_| {
        n += 1.0;
        E::from_f64(n)
    })
}

fn all<S: Shape, E: Float>(x: &Tensor<S, E>, holds: impl Fn(f64) -> bool) -> bool {
    x.to_vec().iter().all(|x| holds(x.to_f64()))
}

macro_rules! for_both_elements {
    ($($name:ident => $check:ident;)+) => { $(
        #[test]
        fn $name() {
            small().for_each(|sizes| {
                $check::<f32>(sizes);
                $check::<f64>(sizes);
            });
        }
    )+ };
}
for_both_elements! {
    functions_and_arithmetic_take_any_axes => elementwise;
    reductions_take_any_axes => reductions;
    orders_take_any_axes => orders;
    softmax_takes_any_axes => softmax;
    products_take_any_axes => products;
    joins_and_lookups_take_any_axes => joins;
    rearrangements_take_any_axes => rearrangements;
    attention_takes_any_lengths => attention;
    attention_takes_any_widths => widths;
    layers_take_any_batch_and_length => layers;
}

fn elementwise<E: Float>(sizes: [usize; 3]) {
    let [b, s, m] = sizes;
    dyn_size!(b = b, s = s, m = m);
    let x = filled::<_, E>((Batch(b), Seq(s), Model(m)));
    let row = filled::<_, E>((Model(m),));
    for y in [x.exp(), x.gelu(), x.neg(), x.clamp(0.0, 1.0), x.add(&row), x.div(&x), x.pow(&row)] {
        assert_eq!(y.dims(), sizes);
        assert_eq!(y.count(), sizes.iter().product::<usize>());
    }
    assert_eq!(x.where_or(&x.less(&row), &row).dims(), sizes);
    assert_eq!(x.equal(&x).to_vec(), vec![true; x.count()]);
    assert!(x.all_close(&x, 0.0, 0.0) && x == x.packed());
    assert_eq!(x.to::<f64>().map(|x| x > 0.0).dims(), sizes);
    assert!(x.to_string().starts_with("(Batch "));
    assert_eq!(
        Tensor::<_, E>::normal_in(x.shape(), 0.0, 1.0, &mut Generator::seeded(1)).dims(),
        sizes
    );
}

fn reductions<E: Float>([b, s, m]: [usize; 3]) {
    let empty = s == 0;
    dyn_size!(b = b, s = s, m = m);
    let x = filled::<_, E>((Batch(b), Seq(s), Model(m)));
    assert_eq!(x.sum(Seq).dims(), [x.dims()[0], x.dims()[2]]);
    assert!(all(&x.sum(Seq), |sum| (sum == 0.0) == empty));
    assert!(all(&x.mean(Seq), |mean| mean.is_nan() == empty));
    assert!(all(&x.variance(Seq), |variance| variance.is_nan() == empty));
    assert!(all(&x.max(Seq), |max| (max == f64::NEG_INFINITY) == empty));
    assert!(all(&x.min(Seq), |min| (min == f64::INFINITY) == empty));
    assert_eq!(x.sum(Model).dims(), [x.dims()[0], x.dims()[1]]);
    assert_eq!(x.max(Batch).dims(), [x.dims()[1], x.dims()[2]]);
    assert_eq!(x.sum_all().value().to_f64() == 0.0, x.count() == 0);
    assert_eq!(x.mean_all().value().to_f64().is_nan(), x.count() == 0);
    match x.try_argmax(Seq) {
        Ok(at) => assert!(at.count() == 0 || !empty),
        Err(error) => assert!(empty && error.is_index(), "{error}"),
    }
    if s.get() == 1 {
        assert_eq!(x.sum(Seq).to_vec(), x.to_vec());
        assert!(all(&x.variance(Seq), |variance| variance == 0.0));
    }
}

fn orders<E: Float>(sizes: [usize; 3]) {
    let [b, s, m] = sizes;
    let longest = s;
    dyn_size!(b = b, s = s, m = m);
    let x = filled::<_, E>((Batch(b), Seq(s), Model(m)));
    let (sorted, places) = x.sort(Seq, Order::Descending);
    assert_eq!((sorted.dims(), places.dims()), (&sizes[..], &sizes[..]));
    assert_eq!(x.cumsum(Seq).dims(), sizes);
    for k in 0..4 {
        dyn_size!(kept = k);
        match x.try_top_k(Seq, kept) {
            Ok((values, _)) => assert_eq!(values.dims(), [sizes[0], k, sizes[2]]),
            Err(error) => assert!(k > longest && error.is_index(), "{error}"),
        }
    }
}

fn softmax<E: Float>(sizes: [usize; 3]) {
    let [b, l, s] = sizes;
    dyn_size!(b = b, l = l, s = s);
    let x = filled::<_, E>((Batch(b), Query(l), Key(s)));
    let keep = x.greater(&x);
    for y in [x.softmax(Key), x.softmax(Query), x.log_softmax(Batch)] {
        assert_eq!(y.dims(), sizes);
        assert!(!all(&y, f64::is_nan) || y.count() == 0);
    }
    assert!(all(&x.masked_softmax(Key, &keep), |x| x == 0.0));
    assert!(all(&x.masked_log_softmax(Key, &keep), |x| x == f64::NEG_INFINITY));
    if sizes[2] == 1 {
        assert!(all(&x.softmax(Key), |x| x == 1.0));
    }
}

fn products<E: Float>([m, k, n]: [usize; 3]) {
    dyn_size!(m = m, k = k, n = n);
    for batch in 0..3 {
        dyn_size!(b = batch);
        let x = filled::<_, E>((Batch(b), Query(m), HeadDim(k)));
        let y = filled::<_, E>((Batch(b), HeadDim(k), Key(n)));
        let w = filled::<_, E>((HeadDim(k), Key(n)));
        let (product, with_one) = (x.matmul(&y), x.matmul(&w));
        assert_eq!(
            (product.dims(), with_one.dims()),
            (&[batch, m.get(), n.get()][..], &[batch, m.get(), n.get()][..])
        );
        assert_eq!(x.dot(&y, HeadDim), product);
        // Over an empty axis every sum is 0.
        assert!(k.get() > 0 || all(&product, |x| x == 0.0) && all(&with_one, |x| x == 0.0));
    }
}

axis!(Beam);

fn joins<E: Float>(sizes: [usize; 3]) {
    let [b, s, m] = sizes;
    let any_row = s > 0;
    dyn_size!(b = b, s = s, m = m, none = 0, some = 3);
    let x = filled::<_, E>((Batch(b), Seq(s), Model(m)));
    let nothing = filled::<_, E>((Batch(b), Seq(none), Model(m)));
    assert_eq!(x.concat(&nothing, Seq).erase(), x.erase());
    assert_eq!(nothing.concat(&x, Seq).erase(), x.erase());
    assert_eq!(x.concat(&x, Model).dims(), [sizes[0], sizes[1], 2 * sizes[2]]);
    assert_eq!(try_stack([&x, &x], Gap).unwrap().dims(), [2, sizes[0], sizes[1], sizes[2]]);
    let no_places = Tensor::<_, u32>::zeros_in((Beam(none),));
    assert_eq!(x.try_gather(Seq, &no_places).unwrap().dims(), [sizes[0], 0, sizes[2]]);
    let places = Tensor::<_, u32>::zeros_in((Beam(some),));
    match x.try_gather(Seq, &places) {
        Ok(rows) => assert_eq!(rows.dims(), [sizes[0], 3, sizes[2]]),
        Err(error) => assert!(!any_row && error.is_index(), "{error}"),
    }
    let table = filled::<_, E>((Vocab(s), Model(m)));
    assert_eq!(table.try_embed(&no_places).unwrap().dims(), [0, sizes[2]]);
    assert_eq!(table.try_embed(&places).is_ok(), any_row);
    let embedding = Embedding::<_, _, E>::new(table);
    assert_eq!(embedding.try_forward(&places, &mut Infer).is_ok(), any_row);
    let empty: Tensor<(Beam<C<2>>, Batch<_>, Seq<_>, Model<_>), E> =
        try_stack([&x, &x], Beam).unwrap();
    assert_eq!(empty.count(), 2 * x.count());
    assert!(try_stack::<(Batch<C<1>>,), E, Gap<C<0>>, 0>([], Gap).unwrap_err().is_shape());
}

fn rearrangements<E: Float>(sizes: [usize; 3]) {
    let [b, s, d] = sizes;
    dyn_size!(b = b, s = s, d = d, none = 0);
    let x = filled::<_, E>((Batch(b), Seq(s), Model(C::<4>)));
    assert_eq!(x.split_heads::<C<2>>().merge_heads(), x);
    let y = filled::<_, E>((Batch(b), Heads(s), HeadDim(d)));
    assert_eq!(y.fold(Heads, HeadDim).unfold(Heads, HeadDim), y);
    assert_eq!(y.fold(Batch, Heads).unfold(Batch, Heads), y);
    assert_eq!(y.transpose(Batch, HeadDim).transpose(Batch, HeadDim), y);
    assert_eq!(y.try_slice(Heads, sizes[1], none).unwrap().dims(), [sizes[0], 0, sizes[2]]);
    assert!(y.try_select(HeadDim, sizes[2]).unwrap_err().is_index());
    assert_eq!(y.try_reshape((HeadDim(d), Batch(b), Heads(s))).unwrap().count(), y.count());
    let nothing = Tensor::<(Batch<C<0>>, Seq<C<3>>, Model<C<4>>), E>::zeros();
    assert_eq!(nothing.flatten().dims(), [0]);
    assert_eq!(nothing.transpose(Batch, Model).flatten().dims(), [0]);
    let swapped: Tensor<(Seq<C<3>>, Batch<C<0>>, Model<C<4>>), E> = nothing.permute();
    assert_eq!(swapped.merge_axes(Seq, Batch, Query).dims(), [0, 4]);
    assert_eq!(swapped.split_axis(Model, Heads(C::<2>), HeadDim).dims(), [3, 0, 2, 2]);
    assert_eq!(swapped.chunk(Model, C::<4>).map(|part| part.count()), [0; 4]);
    assert_eq!(nothing.as_arrays().unwrap().len(), 0);
}

fn attention<E: Float>([b, l, s]: [usize; 3]) {
    let (queries, no_keys) = (l, s == 0);
    dyn_size!(b = b, l = l, s = s);
    let q = filled::<_, E>((Batch(b), Heads(C::<2>), Query(l), HeadDim(C::<2>)));
    let k = filled::<_, E>((Batch(b), Heads(C::<2>), Key(s), HeadDim(C::<2>)));
    let v = filled::<_, E>((Batch(b), Heads(C::<2>), Key(s), ValueDim(C::<3>)));
    let padding = Tensor::full_in((Batch(b), Key(s)), true);
    let hidden = Mask::hide(&Tensor::full_in((Query(l), Key(s)), true));
    let bias = ScoreBias(filled::<_, E>((Query(l), Key(s))));
    let attention = Attention::new();
    let results = [
        attention.apply_with_weights(&q, &k, &v, NoMask),
        attention.apply_with_weights(&q, &k, &v, &padding),
        attention.apply_with_weights(&q, &k, &v, &bias & &padding),
        attention.apply_with_weights(&q, &k, &v, CausalFromStart),
        attention.apply_with_weights(&q, &k, &v, Prefix(1) & &padding),
    ];
    for (y, weights) in results {
        assert_eq!(
            (y.dims(), weights.dims()),
            (&[b.get(), 2, l.get(), 3][..], &[b.get(), 2, l.get(), s.get()][..])
        );
        assert!(all(&y, |y| if no_keys { y == 0.0 } else { y > 0.0 }));
        assert!(all(&weights.sum(Key), |sum| if no_keys {
            sum == 0.0
        } else {
            (sum - 1.0).abs() < 1e-6
        }));
    }
    let (y, weights) = attention.apply_with_weights(&q, &k, &v, hidden);
    assert!(all(&y, |y| y == 0.0) && all(&weights, |w| w == 0.0));
    let y = scaled_dot_product_attention(&q, &k, &v, Causal);
    assert_eq!(y.dims(), [b.get(), 2, queries, 3]);
}

fn widths<E: Float>([dim, value, s]: [usize; 3]) {
    dyn_size!(dim = dim, value = value, s = s);
    let q = filled::<_, E>((Batch(C::<1>), Heads(C::<4>), Query(C::<2>), HeadDim(dim)));
    let k = filled::<_, E>((Batch(C::<1>), KvHeads(C::<2>), Key(s), HeadDim(dim)));
    let v = filled::<_, E>((Batch(C::<1>), KvHeads(C::<2>), Key(s), ValueDim(value)));
    let (y, weights) = Attention::new().apply_with_weights(&q, &k, &v, Causal);
    assert_eq!((y.dims(), weights.dims()), (&[1, 4, 2, value.get()][..], &[1, 4, 2, s.get()][..]));
    assert!(all(&y, f64::is_finite) && all(&weights, f64::is_finite));
    // Without features all scores are 0: the mean of what is visible.
    if dim.get() == 0 && s.get() > 0 {
        let even = Attention::new().apply_with_weights(&q, &k, &v, NoMask).1;
        assert!(all(&even, |w| w * f64::from(u32::try_from(s.get()).unwrap()) == 1.0));
    }
    let nobody = Tensor::<(Batch<C<1>>, Heads<C<0>>, Query<C<2>>, HeadDim<C<3>>), E>::zeros();
    let y = Attention::new().apply(
        &nobody,
        &nobody.rename(Query, Key),
        &nobody.rename(Query, Key),
        NoMask,
    );
    assert_eq!(y.dims(), [1, 0, 2, 3]);
}

fn layers<E: Float>([b, l, s]: [usize; 3]) {
    let mut generator = Generator::seeded(1);
    dyn_size!(b = b, l = l, s = s);
    let x = filled::<_, E>((Batch(b), Seq(l), Model(C::<4>)));
    let y = filled::<_, E>((Batch(b), Seq(s), Model(C::<4>)));
    let attention = MultiHeadAttention::<C<4>, C<2>, C<4>, C<4>, Bias, E>::xavier(&mut generator);
    let norm = LayerNorm::<Model<C<4>>, E>::new(1e-5);
    let config = EncoderConfig::new(1e-5);
    type Layer<E> = EncoderLayer<C<4>, C<2>, C<3>, Bias, E>;
    let encoder = Encoder::shared(Layer::<E>::xavier(config, &mut generator), 2)
        .with_norm(LayerNorm::new(1e-5));
    let feed = FeedForward::<C<4>, C<3>, Bias, E>::xavier(Activation::Gelu, &mut generator);
    let outputs = [
        attention.forward(&x, Causal, &mut Infer),
        attention.cross(&x, &y, &y, Causal, &mut Infer),
        norm.forward(&x, &mut Infer),
        encoder.forward(&x, Causal, &mut Train::seeded(1)),
        feed.forward(&x, &mut Infer),
    ];
    for output in outputs {
        assert_eq!(output.dims(), x.dims());
        assert!(all(&output, f64::is_finite));
    }
    let both = LayerNorm::<(Seq<_>, Model<_>), E>::new_in((Seq(l), Model(C::<4>)), 1e-5);
    assert_eq!(both.forward(&x, &mut Infer).dims(), x.dims());
    assert!(attention.explain(Batch(b), Seq(l), Seq(s)).to_string().contains("merge heads"));
}

#[test]
fn maps_from_and_to_no_features_are_legal() {
    let x = Tensor::<(Batch<C<2>>, Model<C<0>>)>::zeros();
    let from_nothing =
        Linear::<Model<C<0>>, Hidden<C<3>>>::new(Tensor::zeros(), Tensor::from([1.0, 2.0, 3.0]));
    assert_eq!(from_nothing.forward(&x, &mut Infer).to_vec(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let y = Tensor::<(Batch<C<2>>, Hidden<C<3>>)>::ones();
    let to_nothing = Linear::<Hidden<C<3>>, Model<C<0>>>::zeros();
    assert_eq!(to_nothing.forward(&y, &mut Infer).dims(), [2, 0]);
    assert_eq!(LayerNorm::<Model<C<0>>>::new(1e-5).forward(&x, &mut Infer).dims(), [2, 0]);
    assert_eq!(x.as_arrays::<0>(), None);
    assert_eq!(x.bits(), (vec![2, 0], vec![]));
}
