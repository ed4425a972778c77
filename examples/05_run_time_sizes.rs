//! Sizes that are known at run time only: batches, lengths, and widths from a configuration.
//!
//! ```text
//! cargo run --example 05_run_time_sizes -- 768 12
//! ```

use shapeproof::{
    AnyTensor, Batch, C, DivisibleBy, Generator, Infer, Key, Mask, Model, MultiHeadAttention,
    Result, Seq, Static, Tensor, dispatch, dyn_size,
};

fn main() -> Result<()> {
    println!(
        "Shows: a size read at run time becomes a type, and what fits is checked all the same.\n"
    );

    let mut generator = Generator::seeded(1);
    let attention = MultiHeadAttention::<C<16>, C<4>>::xavier(&mut generator);
    for lengths in [vec![3, 7, 5], vec![2], vec![4, 4]] {
        let y = padded(&attention, &lengths)?;
        println!("samples of lengths {lengths:?} give {:?}", y.dims());
    }

    // Width and heads are numbers of the command line, and types behind this line.
    let numbers: Vec<usize> = std::env::args().skip(1).flat_map(|it| it.parse()).collect();
    let (width, heads) = match numbers[..] {
        [width, heads] => (width, heads),
        _ => (384, 12),
    };
    let parameters = dispatch!(
        (width, heads) as (M, H) in [(384, 12), (512, 8), (768, 12)] => parameters::<M, H>()
    );
    match parameters {
        Ok(count) => println!("\nwidth {width} with {heads} heads has {count} parameters"),
        Err(error) => println!("\n{error}"),
    }
    Ok(())
}

/// Samples of these lengths, padded to the longest. What leaves the scope of a run-time size is erased.
fn padded(attention: &MultiHeadAttention<C<16>, C<4>>, lengths: &[usize]) -> Result<AnyTensor> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    dyn_size!(batch = lengths.len(), length = longest);
    let x = Tensor::ones_in((Batch(batch), Seq(length), Model(C::<16>)));
    let lengths = Tensor::try_from_vec((Batch(batch),), lengths.to_vec())?;
    let mask = Mask::try_lengths(&lengths, Key(length))?;
    Ok(attention.forward(&x, &mask, &mut Infer).erase())
}

fn parameters<M: DivisibleBy<H>, H: Static>() -> usize {
    shapeproof::count_parameters(&MultiHeadAttention::<M, H>::zeros())
}
