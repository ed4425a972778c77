//! What holds for any sizes and any values: drawn at random, shrunk where it fails.
//!
//! The draws are the same in every run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` give
//! others, and more.

mod batches;
mod blocks;
mod empty;
mod hidden;
mod huge;
mod in_place;
mod loops;
mod rearranged;
mod strided;
pub(crate) mod threads;

use proptest::test_runner::{Config, RngSeed};
use shapeproof::{Axis, Element, Shape, Tensor, axis, try_stack};

/// How many draws, and from which seed.
pub(crate) fn draws(cases: u32) -> Config {
    let asked = Config::default();
    Config {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases },
        rng_seed: match asked.rng_seed {
            RngSeed::Random => RngSeed::Fixed(2017),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        failure_persistence: None,
        ..asked
    }
}

/// A tensor's sizes and bits, so that NaN and −0 compare.
trait Bits {
    fn bits(&self) -> (Vec<usize>, Vec<u64>);
}

macro_rules! bits {
    ($($E:ty: $x:ident => $bits:expr;)+) => { $(
        impl<S: Shape> Bits for Tensor<S, $E> {
            fn bits(&self) -> (Vec<usize>, Vec<u64>) {
                (self.dims().to_vec(), self.to_vec().into_iter().map(|$x| $bits).collect())
            }
        }
    )+ };
}
bits! {
    f32: x => u64::from(x.to_bits());
    f64: x => x.to_bits();
    bool: x => u64::from(x);
    usize: x => u64::try_from(x).unwrap();
}

axis!(Gap);

/// The same tensor laid out in other ways: axes reversed, axes rotated, with an offset,
/// with gaps between its elements and between its first entries. Gaps hold `junk`,
/// which must reach nothing.
trait Scattered<E>: Sized {
    fn scattered(&self, junk: E) -> Vec<Self>;
}

macro_rules! scattered {
    ($([$($A:ident)+] [$($Reversed:ident)+] [$First:ident $($Rest:ident)*])+) => { $(
        impl<$($A: Axis,)+ E: Element> Scattered<E> for Tensor<($($A,)+), E> {
            fn scattered(&self, junk: E) -> Vec<Self> {
                let reversed: Tensor<($($Reversed,)+), E> = self.permute();
                let rotated: Tensor<($($Rest,)* $First,), E> = self.permute();
                let gaps = try_stack([&self.map(|_| junk), self], Gap).unwrap();
                let inside: Tensor<($($A,)+ Gap<_>,), E> = gaps.permute();
                let between: Tensor<($First, Gap<_>, $($Rest,)*), E> = gaps.permute();
                vec![
                    reversed.packed().permute(),
                    rotated.packed().permute(),
                    gaps.try_select(Gap, 1).unwrap(),
                    inside.packed().try_select(Gap, 1).unwrap(),
                    between.packed().try_select(Gap, 1).unwrap(),
                ]
            }
        }
    )+ };
}
scattered! {
    [A] [A] [A]
    [A B] [B A] [A B]
    [A B C] [C B A] [A B C]
    [A B C D] [D C B A] [A B C D]
}

#[test]
fn scattered_tensors_are_strided_and_equal() {
    use shapeproof::{Batch, C, Seq};
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>), i32>::from([[0, 1, 2], [3, 4, 5]]);
    let all = x.scattered(-1);
    assert!(all.iter().all(|y| *y == x));
    // All but the one that has an offset alone are no slice.
    assert_eq!(all.iter().filter(|y| y.as_slice().is_none()).count(), 4);
}
