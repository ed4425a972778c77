use shapeproof::{
    AnyTensor, Batch, DivisibleBy, Infer, Model, MultiHeadAttention, NoMask, Result, Seq, Static,
    Tensor, dispatch, dyn_size,
};

trait Encode {
    fn encode(&self, x: &AnyTensor) -> Result<AnyTensor>;
}

impl<M: DivisibleBy<H>, H: Static> Encode for MultiHeadAttention<M, H> {
    fn encode(&self, x: &AnyTensor) -> Result<AnyTensor> {
        dyn_size!(batch = x.dims()[0], length = x.dims()[1]);
        let x: Tensor<_> = x.try_typed((Batch(batch), Seq(length), Model(M::default())))?;
        Ok(self.forward(&x, NoMask, &mut Infer).erase())
    }
}

fn build<M: DivisibleBy<H>, H: Static>() -> Box<dyn Encode> {
    Box::new(MultiHeadAttention::<M, H>::zeros())
}

fn open(width: usize, heads: usize) -> Result<Box<dyn Encode>> {
    dispatch!(
        (width, heads) as (M, H) in [(8, 2), (10, 2), (9, 3), (384, 12), (768, 12)] =>
        build::<M, H>()
    )
}

/// Inside generic code, with `?` and values from outside.
fn rank<T: Clone>(path: T, width: usize, heads: usize) -> Result<usize> {
    let more = 1;
    dispatch!((width, heads) as (M, H) in [(8, 2), (10, 2)] => {
        let _path = path.clone();
        let x = AnyTensor::try_from_vec(&[1, 2, M::N], vec![0.0; 2 * M::N])?;
        open(M::N, H::N)?.encode(&x)?.rank() + more
    })
}

fn main() {
    let x = AnyTensor::try_from_vec(&[1, 2, 384], vec![0.0; 768]).unwrap();
    assert_eq!(open(384, 12).unwrap().encode(&x).unwrap().dims(), [1, 2, 384]);
    assert!(open(8, 2).unwrap().encode(&x).err().unwrap().is_shape());
    assert!(open(7, 7).err().unwrap().is_unlisted());
    assert_eq!(rank((), 8, 2).unwrap(), 4);
    assert!(rank("x", 9, 2).unwrap_err().is_unlisted());
}
