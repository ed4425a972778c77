use shapeproof::{Batch, C, Model, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(width = 512);
    let x = Tensor::<_, f32>::zeros_in((Batch(C::<2>), Seq(C::<5>), Model(width)));
    let _heads = x.split_heads::<C<8>>();
}
