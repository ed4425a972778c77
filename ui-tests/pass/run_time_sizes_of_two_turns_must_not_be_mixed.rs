use shapeproof::{Batch, Tensor, dyn_size};

fn main() {
    let mut last = None;
    for turn in 0..3 {
        dyn_size!(batch = turn);
        let x = Tensor::<_, f32>::zeros_in((Batch(batch),));
        last = Some(x.erase());
    }
    assert!(last.is_some());
}
