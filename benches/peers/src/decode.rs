//! Setting F, one step of decoding: the keys and values of a new token join a cache, and the token
//! attends to all of it. The cache starts full but for that place, which each run writes again.

use crate::ours::multi_head;
use crate::setting::{CACHED, Case, Weights};
use crate::{Contestant, Result};
use candle_core::{Device, Tensor as CandleTensor};
use candle_nn::{Linear, Module, ops::softmax_last_dim};
use shapeproof::{
    Batch, C, HeadDim, Heads, Infer, Key, Model, MultiHeadAttention, NoMask, Query, Seq, Tensor,
    scaled_dot_product_attention,
};
use std::cell::RefCell;
use std::hint::black_box;

const WIDTH: usize = 768;
const HEADS: usize = 12;
const KEYS: usize = CACHED + 1;

type Token = Tensor<(Batch<C<1>>, Seq<C<1>>, Model<C<WIDTH>>)>;
type Cache = Tensor<(Batch<C<1>>, Heads<C<HEADS>>, Key<C<KEYS>>, HeadDim<C<64>>)>;

/// shapeproof's step.
pub fn ours(weights: &Weights) -> Box<dyn Contestant> {
    let cache = |values: &[f32]| {
        Cache::try_from_vec(<_>::default(), with_place(values)).expect("the setting's sizes")
    };
    let [keys, values] = &weights.cached;
    Box::new(Ours {
        layer: multi_head(weights),
        x: Tensor::try_from_vec(<_>::default(), weights.x.clone()).expect("one token"),
        caches: RefCell::new([cache(keys), cache(values)]),
    })
}

struct Ours {
    layer: MultiHeadAttention<C<WIDTH>, C<HEADS>>,
    x: Token,
    caches: RefCell<[Cache; 2]>,
}

impl Ours {
    fn step(&self) -> Result<Token> {
        let x = black_box(&self.x);
        let q = self.layer.q.forward(x, &mut Infer).rename(Seq, Query).split_heads::<C<HEADS>>();
        let [keys, values] = &mut *self.caches.borrow_mut();
        for (cache, linear) in [(&mut *keys, &self.layer.k), (&mut *values, &self.layer.v)] {
            let entry = linear.forward(x, &mut Infer).split_heads::<C<HEADS>>();
            cache.try_assign(Key, CACHED, &entry.try_select(Seq, 0)?)?;
        }
        let y = scaled_dot_product_attention(&q, keys, values, NoMask);
        Ok(self.layer.out.forward(&y.merge_heads().rename(Query, Seq), &mut Infer))
    }
}

impl Contestant for Ours {
    fn name(&self) -> &str {
        "shapeproof"
    }
    fn run(&self) -> Result<()> {
        black_box(self.step()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<f32>> {
        Ok(self.step()?.to_vec())
    }
}

/// candle's step.
pub fn candle(
    case: &Case,
    weights: &Weights,
    qkv: Linear,
    out: Linear,
) -> Result<Box<dyn Contestant>> {
    let tensor =
        |values: &[f32], dims: &[usize]| CandleTensor::from_slice(values, dims, &Device::Cpu);
    let dims = [1, HEADS, KEYS, case.width / HEADS];
    let [keys, values] = &weights.cached;
    Ok(Box::new(Candle {
        qkv,
        out,
        x: tensor(&weights.x, &[1, 1, case.width])?,
        keys: tensor(&with_place(keys), &dims)?,
        values: tensor(&with_place(values), &dims)?,
    }))
}

struct Candle {
    qkv: Linear,
    out: Linear,
    x: CandleTensor,
    keys: CandleTensor,
    values: CandleTensor,
}

impl Candle {
    fn step(&self) -> candle_core::Result<CandleTensor> {
        let qkv = self.qkv.forward(black_box(&self.x))?.reshape((1, 3, HEADS, 1, WIDTH / HEADS))?;
        let part = |i: usize| qkv.narrow(1, i, 1)?.squeeze(1);
        self.keys.slice_set(&part(1)?, 2, CACHED)?;
        self.values.slice_set(&part(2)?, 2, CACHED)?;
        let scale = 1.0 / ((WIDTH / HEADS) as f64).sqrt();
        let scores = (part(0)?.matmul(&self.keys.t()?)? * scale)?;
        let y = softmax_last_dim(&scores)?.matmul(&self.values)?;
        self.out.forward(&y.reshape((1, 1, WIDTH))?)
    }
}

impl Contestant for Candle {
    fn name(&self) -> &str {
        "candle"
    }
    fn run(&self) -> Result<()> {
        black_box(self.step()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<f32>> {
        Ok(self.step()?.flatten_all()?.to_vec1()?)
    }
}

/// Each head's positions, and a place for one more.
fn with_place(cached: &[f32]) -> Vec<f32> {
    let (positions, place) = (CACHED * WIDTH / HEADS, [0.0; WIDTH / HEADS]);
    cached.chunks_exact(positions).flat_map(|head| head.iter().chain(&place)).copied().collect()
}
