//! Setting F, one step of decoding: the keys and values of a new token join a cache, and the token
//! attends to all of it. The cache starts full but for that place, which each run writes again.

use super::{Multi, multi_head, single_floats, tensor};
use crate::Result;
use crate::race::Contestant;
use crate::setting::{CACHED, Case, Weights};
use shapeproof::{
    Batch, C, Float, HeadDim, Heads, Infer, Key, Model, NoMask, Query, Seq, Tensor,
    scaled_dot_product_attention,
};
use std::cell::RefCell;
use std::hint::black_box;

const KEYS: usize = CACHED + 1;
type Width = C<768>;
type HeadCount = C<12>;

type Token<E> = Tensor<(Batch<C<1>>, Seq<C<1>>, Model<Width>), E>;
type Cache<E> = Tensor<(Batch<C<1>>, Heads<HeadCount>, Key<C<KEYS>>, HeadDim<C<64>>), E>;

pub fn contestant<E: Float>(case: &Case, weights: &Weights) -> Box<dyn Contestant> {
    let caches = weights.cached_with_place(case).map(|values| tensor(<_>::default(), &values));
    let x = tensor(<_>::default(), &weights.x);
    Box::new(Step::<E> { layer: multi_head(weights), x, caches: RefCell::new(caches) })
}

struct Step<E: Float> {
    layer: Multi<Width, HeadCount, E>,
    x: Token<E>,
    caches: RefCell<[Cache<E>; 2]>,
}

impl<E: Float> Step<E> {
    fn step(&self) -> Result<Token<E>> {
        let x = black_box(&self.x);
        let q = self.layer.q.forward(x, &mut Infer).rename(Seq, Query).split_heads::<HeadCount>();
        let [keys, values] = &mut *self.caches.borrow_mut();
        for (cache, linear) in [(&mut *keys, &self.layer.k), (&mut *values, &self.layer.v)] {
            let entry = linear.forward(x, &mut Infer).split_heads::<HeadCount>();
            cache.try_assign(Key, CACHED, &entry.try_select(Seq, 0)?)?;
        }
        let y = scaled_dot_product_attention(&q, keys, values, NoMask);
        Ok(self.layer.out.forward(&y.merge_heads().rename(Query, Seq), &mut Infer))
    }
}

impl<E: Float> Contestant for Step<E> {
    fn name(&self) -> &str {
        "shapeproof"
    }
    fn run(&self) -> Result<()> {
        black_box(self.step()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![single_floats(&self.step()?)])
    }
}
