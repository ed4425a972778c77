//! A layer of multi-head attention: what goes in, what comes out, and what each step costs.
//!
//! ```text
//! cargo run --example 03_self_attention
//! ```

use shapeproof::{
    Batch, C, Generator, Heads, Infer, Key, Model, MultiHeadAttention, NoMask, Query, Seq, Tensor,
    count_parameters,
};

fn main() {
    println!("Shows: self attention of width 64 with 4 heads over 2 samples of 5 positions.\n");

    let mut generator = Generator::seeded(7);
    let attention = MultiHeadAttention::<C<64>, C<4>>::xavier(&mut generator);
    println!("{attention:#?}");
    println!("{} parameters\n", count_parameters(&attention));

    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<64>>)>::normal(0.0, 1.0, &mut generator);
    let (y, weights) = attention.forward_with_weights(&x, NoMask, &mut Infer);
    println!("x        {:?}", x.shape());
    println!("y        {:?}", y.shape());
    println!("weights  {:?}\n", weights.shape());

    // How much the first query of the first sample looks at each key, head by head.
    let first: Tensor<(Heads<C<4>>, Key<C<5>>)> =
        weights.try_select(Batch, 0).and_then(|w| w.try_select(Query, 0)).expect("both are there");
    for (head, row) in first.packed().as_arrays().expect("packed").iter().enumerate() {
        println!("head {head}   {row:.3?}   sum {:.3}", row.iter().sum::<f32>());
    }

    println!("\n{}", attention.explain(Batch(C::<2>), Seq(C::<5>), Seq(C::<5>)));
}
