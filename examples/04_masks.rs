//! Masks: which keys each query may see, and how they are joined.
//!
//! ```text
//! cargo run --example 04_masks
//! ```

use shapeproof::{
    Batch, C, Causal, Heads, Infer, Key, Mask, MaskFor, Model, MultiHeadAttention, NoMask, Query,
    Result, Seq, SlidingWindow, Tensor,
};

type Layer = MultiHeadAttention<C<4>, C<1>>;
type Scores = (Batch<C<2>>, Heads<C<1>>, Query<C<5>>, Key<C<5>>);

fn main() -> Result<()> {
    println!("Shows: what masks let a query see. A row is a query, a column a key, # is seen.\n");

    // The second sample has 3 positions and is padded to 5.
    let lengths = Tensor::<(Batch<C<2>>,), usize>::from([5, 3]);
    let padding = Mask::try_lengths(&lengths, Key(C::<5>))?;

    draw("NoMask", NoMask);
    draw("Causal", Causal);
    draw("Mask::try_lengths, 5 and 3", &padding);
    draw("Causal & padding: both must allow it", Causal & &padding);
    draw(
        "SlidingWindow::causal::<C<2>>, which counts the query itself",
        SlidingWindow::causal::<C<2>>(),
    );

    let none = Tensor::<(Key<C<5>>,), bool>::full(false);
    let (y, weights) = Layer::zeros().forward_with_weights(&input(), &none, &mut Infer);
    let is_zero = |all: Vec<f32>| all.iter().all(|&x| x == 0.0);
    assert!(is_zero(y.to_vec()) && is_zero(weights.to_vec()));
    println!("A query that sees nothing gets 0, never NaN.");
    println!("A mask over the wrong axis does not compile: see mask_must_cover_query_by_key.");
    Ok(())
}

fn input() -> Tensor<(Batch<C<2>>, Seq<C<5>>, Model<C<4>>)> {
    Tensor::ones()
}

/// Both samples side by side. The weights of what is hidden are 0.
fn draw(name: &str, mask: impl MaskFor<Scores>) {
    let (_, weights) = Layer::zeros().forward_with_weights(&input(), mask, &mut Infer);
    println!("{name}");
    for query in 0..5 {
        let row = |sample: usize| {
            let seen = |key| weights.try_at(&[sample, 0, query, key]).is_ok_and(|w| w > 0.0);
            (0..5).map(|key| if seen(key) { " #" } else { " ." }).collect::<String>()
        };
        println!("   {}    {}", row(0), row(1));
    }
    println!();
}
