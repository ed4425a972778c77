//! Axes with names, sizes that are types, and what the compiler works out of them.
//!
//! ```text
//! cargo run --example 01_shapes
//! ```

use shapeproof::{Batch, C, HeadDim, Heads, Model, Query, Seq, Tensor};

fn main() {
    println!(
        "Shows: a tensor's type names its axes and their sizes, and the compiler checks them.\n"
    );

    // Two samples of three positions, each a vector of width 8.
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::from_fn(|at| at[2] as f32);
    println!("x                        {:?}  {:?}", x.shape(), x.dims());

    // An axis is named, not numbered, and what is left of the shape is a type again.
    let mean: Tensor<(Batch<C<2>>, Seq<C<3>>)> = x.mean(Model);
    println!("x.mean(Model)            {:?}  {:?}", mean.shape(), mean.to_vec());

    // Broadcasting goes by name: a bias over Model is repeated over Batch and Seq.
    let bias = Tensor::<(Model<C<8>>,)>::ones();
    println!("x.add(&bias)             {:?}", x.add(&bias).shape());

    // 8 features are 4 heads of width 2: the quotient is computed by the compiler. No data moves.
    let heads: Tensor<(Batch<C<2>>, Heads<C<4>>, Seq<C<3>>, HeadDim<C<2>>)> = x.split_heads();
    println!("x.split_heads()          {:?}", heads.shape());

    // And back: the product is computed too.
    let merged: Tensor<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)> = heads.merge_heads();
    assert_eq!(merged, x);
    println!(".merge_heads()           {:?}, the same elements", merged.shape());

    // Scores have two roles for positions. A renamed axis is another axis.
    let queries = x.rename(Seq, Query);
    println!("x.rename(Seq, Query)     {:?}", queries.shape());

    println!(
        "\nNot one of these shapes is checked while this runs: what does not fit does not compile."
    );
}
