//! Eight callers on one pool: none waits for ever, and each gets the bits that it gets alone.

use crate::masks::bits;
use rayon::ThreadPoolBuilder;
use shapeproof::{
    Batch, C, Causal, EncoderConfig, EncoderLayer, Generator, GroupedAttention, HeadDim, Infer,
    Key, KvCache, KvHeads, Model, NoMask, Seq, Tensor, Train, dyn_size,
    scaled_dot_product_attention,
};
use std::thread;

const CALLERS: usize = 8;
const ROUNDS: usize = 6;

/// Layers that all callers share, and so the packed weights that the first of them makes.
struct Shared {
    layer: EncoderLayer<C<48>, C<4>, C<96>>,
    grouped: GroupedAttention<C<48>, C<4>, C<12>, KvHeads<C<2>>>,
}

impl Shared {
    fn new() -> Self {
        let mut generator = Generator::seeded(1);
        let layer = EncoderLayer::xavier(EncoderConfig::new(1e-5), &mut generator);
        Shared { layer, grouped: GroupedAttention::xavier(&mut generator) }
    }

    /// What one caller does in one round: of each caller another size, so that small work and work that is
    /// cut in pieces meet.
    fn work(&self, caller: usize) -> Vec<u64> {
        let mut generator = Generator::seeded(caller as u64);
        dyn_size!(length = 1 + caller * 20);
        let shape = (Batch(C::<2>), Seq(length), Model(C::<48>));
        let x: Tensor<_> = Tensor::normal_in(shape, 0.0, 1.0, &mut generator);
        match caller % 4 {
            0 => bits(&self.layer.forward(&x, Causal, &mut Infer).to_vec()),
            1 => bits(&self.grouped.forward(&x, NoMask, &mut Infer).to_vec()),
            2 => {
                let mut train = Train::seeded(2);
                let loss = self.layer.forward(&x, NoMask, &mut train).mean_all();
                let gradients = train.backward(&loss);
                bits(&gradients.of(&self.layer.attention.q.weight).to_vec())
            }
            _ => self.decoded(&x.to_vec()),
        }
    }

    fn decoded(&self, rows: &[f32]) -> Vec<u64> {
        let mut cache = KvCache::<C<1>, KvHeads<C<2>>, C<400>, C<12>>::try_new(1).unwrap();
        let mut all = Vec::new();
        for row in rows.chunks(48).take(12) {
            let x = Tensor::try_from_vec((Batch(C), Seq(C::<1>), Model(C)), row.to_vec()).unwrap();
            let (q, k, v) = self.grouped.project(&x, &mut Infer);
            let mut step = cache.begin(Seq(C::<1>)).unwrap();
            step.append(0, &k, &v).unwrap();
            dyn_size!(keys = step.keys());
            let (k, v) = step.view(0, Key(keys)).unwrap();
            let y: Tensor<(_, _, _, HeadDim<C<12>>)> =
                scaled_dot_product_attention(&q, &k, &v, Causal);
            all.extend(bits(&self.grouped.output(&y, &mut Infer).to_vec()));
            step.commit().unwrap();
        }
        all
    }
}

#[test]
fn eight_callers_on_one_pool_get_what_they_get_alone() {
    let alone = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone: Vec<_> =
        (0..CALLERS).map(|caller| alone.install(|| Shared::new().work(caller))).collect();
    for threads in [1, 3] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for _ in 0..ROUNDS {
            let shared = Shared::new();
            let call = |caller| pool.install(|| shared.work(caller));
            thread::scope(|scope| {
                let calls: Vec<_> =
                    (0..CALLERS).map(|caller| scope.spawn(move || call(caller))).collect();
                for (caller, one) in calls.into_iter().enumerate() {
                    assert!(one.join().unwrap() == alone[caller], "caller {caller} of {threads}");
                }
            });
        }
    }
}

#[test]
fn eight_callers_within_a_parallel_loop_get_what_they_get_alone() {
    use rayon::prelude::*;
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let alone: Vec<_> = (0..CALLERS).map(|caller| Shared::new().work(caller)).collect();
    for _ in 0..ROUNDS {
        let shared = Shared::new();
        let inside = || (0..CALLERS).into_par_iter().map(|caller| shared.work(caller)).collect();
        let all: Vec<_> = pool.install(inside);
        assert!(all == alone);
    }
}
