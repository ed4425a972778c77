use shapeproof::{
    Batch, C, Causal, DivisibleBy, Infer, Linear, Mode, Model, Module, MultiHeadAttention,
    Parameter, Seq, Size, Static, Tensor, Train, Vocab, dyn_size, parameters, parameters_mut,
};

struct Net<M, H, V> {
    embed: Parameter<(Vocab<V>, Model<M>)>,
    layers: Vec<MultiHeadAttention<M, H>>,
    head: Option<Linear<Model<M>, Vocab<V>>>,
}

impl<M: DivisibleBy<H>, H: Static, V: Size> Module for Net<M, H, V> {
    parameters!(embed as "wte", layers as "h", head);
}

/// Sizes made inside; what is returned has none of them.
fn loss<M: DivisibleBy<H>, H: Static, V: Size>(
    net: &Net<M, H, V>,
    mode: &mut impl Mode,
) -> Tensor<()> {
    dyn_size!(batch = 2, length = 5);
    let x = Tensor::zeros_in((Batch(batch), Seq(length), Model(M::default())));
    let y = net.layers[0].forward(&x, Causal, mode);
    net.head.as_ref().unwrap().forward(&y, mode).mean_all()
}

fn main() {
    dyn_size!(vocab = 77);
    let mut net = Net::<C<16>, C<4>, _> {
        embed: Parameter::new(Tensor::zeros_in((Vocab(vocab), Model(C)))),
        layers: vec![MultiHeadAttention::zeros()],
        head: Some(Linear::zeros_in(Model(C), Vocab(vocab))),
    };
    assert_eq!(loss(&net, &mut Train::seeded(1)), loss(&net, &mut Infer));

    let found: Vec<_> =
        parameters(&net).iter().map(|(name, p)| (name.clone(), p.value())).collect();
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names[0], names[1], names[9]), ("wte", "h.0.q_proj.weight", "head.weight"));
    for ((_, parameter), (_, value)) in parameters_mut(&mut net).into_iter().zip(found) {
        parameter.try_set(value).unwrap();
    }

    let module: &mut dyn Module = &mut net;
    assert_eq!(parameters_mut(module).len(), 11);
    let several: Vec<Box<dyn Module>> = vec![
        Box::new(MultiHeadAttention::<C<8>, C<2>>::zeros()),
        Box::new(MultiHeadAttention::<C<10>, C<2>>::zeros()),
    ];
    assert_eq!(several.iter().map(|module| parameters(&**module).len()).sum::<usize>(), 16);
}
