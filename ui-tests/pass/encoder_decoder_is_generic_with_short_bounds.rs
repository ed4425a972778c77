use shapeproof::{
    Activation, Batch, C, Causal, DivisibleBy, Dropout, Embedding, FeedForward, Heads, Infer, Key,
    LayerNorm, Linear, Mode, Model, Module, MultiHeadAttention, Query, Seq, Size, Static, Tensor,
    Vocab, dyn_size, parameters, parameters_mut,
};

struct Feed<M: Size, F> {
    norm: LayerNorm<Model<M>>,
    block: FeedForward<M, F>,
    dropout: Dropout,
}

impl<M: Static, F: Static> Module for Feed<M, F> {
    parameters!(norm, block);
}

impl<M: Static, F: Static> Feed<M, F> {
    fn zeros() -> Self {
        let block = FeedForward::zeros(Activation::Gelu);
        Feed { norm: LayerNorm::new(1e-5), block, dropout: Dropout::NONE }
    }

    fn forward<B: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Seq<S>, Model<M>)> {
        let y = self.block.forward(&self.norm.forward(x, mode), mode);
        x.add(&self.dropout.forward(&y, mode))
    }
}

struct Encode<M: Size, H, F> {
    attention: MultiHeadAttention<M, H>,
    feed: Feed<M, F>,
}

impl<M: DivisibleBy<H>, H: Static, F: Static> Module for Encode<M, H, F> {
    parameters!(attention as "self_attn", feed);
}

impl<M: DivisibleBy<H>, H: Static, F: Static> Encode<M, H, F> {
    fn zeros() -> Self {
        Encode { attention: MultiHeadAttention::zeros(), feed: Feed::zeros() }
    }

    fn forward<B: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
        padding: &Tensor<(Batch<B>, Key<S>), bool>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Seq<S>, Model<M>)> {
        let y = x.add(&self.attention.forward(x, padding, mode));
        self.feed.forward(&y, mode)
    }
}

/// `E` is the width of the encoder's output.
struct Decode<M: Size, H, F, E> {
    attention: MultiHeadAttention<M, H>,
    cross: MultiHeadAttention<M, H, E>,
    feed: Feed<M, F>,
}

impl<M: DivisibleBy<H>, H: Static, F: Static, E: Static> Module for Decode<M, H, F, E> {
    parameters!(attention, cross, feed);
}

type Weights<B, H, T, S> = Tensor<(Batch<B>, Heads<H>, Query<T>, Key<S>)>;

impl<M: DivisibleBy<H>, H: Static, F: Static, E: Static> Decode<M, H, F, E> {
    fn zeros() -> Self {
        let (attention, cross) = (MultiHeadAttention::zeros(), MultiHeadAttention::zeros());
        Decode { attention, cross, feed: Feed::zeros() }
    }

    fn forward<B: Size, T: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<B>, Seq<T>, Model<M>)>,
        memory: &Tensor<(Batch<B>, Seq<S>, Model<E>)>,
        own: &Tensor<(Batch<B>, Key<T>), bool>,
        padding: &Tensor<(Batch<B>, Key<S>), bool>,
        mode: &mut impl Mode,
    ) -> (Tensor<(Batch<B>, Seq<T>, Model<M>)>, Weights<B, H, T, S>) {
        let y = x.add(&self.attention.forward(x, Causal & own, mode));
        let (c, weights) = self.cross.cross_with_weights(&y, memory, memory, padding, mode);
        (self.feed.forward(&y.add(&c), mode), weights)
    }
}

struct Translator<M: Size, H, F, ME: Size, HE, V> {
    tokens: Embedding<Vocab<V>, Model<M>>,
    encoder: Vec<Encode<ME, HE, F>>,
    decoder: Vec<Decode<M, H, F, ME>>,
    head: Linear<Model<M>, Vocab<V>>,
}

impl<M, H, F, ME, HE, V> Module for Translator<M, H, F, ME, HE, V>
where
    M: DivisibleBy<H>,
    ME: DivisibleBy<HE>,
    H: Static,
    HE: Static,
    F: Static,
    V: Static,
{
    parameters!(tokens, encoder, decoder, head);
}

impl<M, H, F, ME, HE, V> Translator<M, H, F, ME, HE, V>
where
    M: DivisibleBy<H>,
    ME: DivisibleBy<HE>,
    H: Static,
    HE: Static,
    F: Static,
    V: Static,
{
    fn zeros(layers: usize) -> Self {
        Translator {
            tokens: Embedding::zeros(),
            encoder: (0..layers).map(|_| Encode::zeros()).collect(),
            decoder: (0..layers).map(|_| Decode::zeros()).collect(),
            head: Linear::zeros(),
        }
    }

    fn forward<B: Size, S: Size, T: Size>(
        &self,
        source: &Tensor<(Batch<B>, Seq<S>, Model<ME>)>,
        target: &Tensor<(Batch<B>, Seq<T>), u32>,
        masks: (&Tensor<(Batch<B>, Key<S>), bool>, &Tensor<(Batch<B>, Key<T>), bool>),
        mode: &mut impl Mode,
    ) -> (Tensor<(Batch<B>, Seq<T>, Vocab<V>)>, Vec<Weights<B, H, T, S>>) {
        let mut x = source.clone();
        for layer in &self.encoder {
            x = layer.forward(&x, masks.0, mode);
        }
        let mut y = self.tokens.try_forward(target, mode).unwrap();
        let mut all = vec![];
        for layer in &self.decoder {
            let (z, weights) = layer.forward(&y, &x, masks.1, masks.0, mode);
            y = z;
            all.push(weights);
        }
        (self.head.forward(&y, mode), all)
    }
}

/// The number of layers may be a const generic as well.
struct Stack<M: Size, H, F, const L: usize> {
    layers: [Encode<M, H, F>; L],
}

fn main() {
    let mut model = Translator::<C<12>, C<3>, C<13>, C<8>, C<4>, C<30>>::zeros(2);
    dyn_size!(batch = 2, source = 5, target = 3);
    let x = Tensor::zeros_in((Batch(batch), Seq(source), Model(C::<8>)));
    let tokens = Tensor::zeros_in((Batch(batch), Seq(target)));
    let keep = Tensor::full_in((Batch(batch), Key(source)), true);
    let own = Tensor::full_in((Batch(batch), Key(target)), true);
    let (y, weights) = model.forward(&x, &tokens, (&keep, &own), &mut Infer);
    assert_eq!(y.dims(), [2, 3, 30]);
    assert_eq!(weights[1].dims(), [2, 3, 3, 5]);
    assert_eq!(parameters(&model)[1].0, "encoder.0.self_attn.q_proj.weight");
    assert_eq!(parameters_mut(&mut model).len(), 75);

    let stack = Stack::<C<8>, C<2>, C<9>, 3> { layers: std::array::from_fn(|_| Encode::zeros()) };
    assert_eq!(stack.layers.len(), 3);
    let _any: &dyn Module = &model;
}
