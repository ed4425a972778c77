use shapeproof::{
    Batch, C, HeadDim, Heads, Key, NoMask, Query, Tensor, dyn_size, scaled_dot_product_attention,
};

fn main() {
    dyn_size!(keys = 3, values = 4);
    let q = Tensor::zeros_in((Batch(C::<1>), Heads(C::<2>), Query(C::<2>), HeadDim(C::<8>)));
    let k = Tensor::<_, f32>::zeros_in((Batch(C::<1>), Heads(C::<2>), Key(keys), HeadDim(C::<8>)));
    let v = Tensor::zeros_in((Batch(C::<1>), Heads(C::<2>), Key(keys), HeadDim(C::<8>)));
    scaled_dot_product_attention(&q, &k, &v, NoMask);
    let _ = values;
}
