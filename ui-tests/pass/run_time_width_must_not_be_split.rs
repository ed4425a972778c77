use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let width = C::<512>;
    let x = Tensor::<_, f32>::zeros_in((Batch(C::<2>), Seq(C::<5>), Model(width)));
    let _heads = x.split_heads::<C<8>>();
}
