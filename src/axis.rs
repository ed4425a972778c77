//! Axes: a name around a size.

use crate::error::Result;
use crate::size::{Product, Size};
use std::fmt::Debug;

/// One axis of a shape: a name and a [`Size`], such as `Batch<C<32>>`.
///
/// Two axes with different names are different types, also where their sizes are equal. The
/// constructor names the axis where a method asks for one: `x.mean(Seq)`. [`axis!`](crate::axis)
/// makes axes of one's own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an axis",
    label = "not an axis",
    note = "an axis is a name around a size: `Batch<B>`, `Seq<S>`, `Model<C<512>>`"
)]
pub trait Axis: Copy + PartialEq + Debug + Send + Sync {
    /// The size's type.
    type Size: Size;
    /// The same axis with another size.
    type With<T: Size>: Axis<Size = T>;
    /// The axis as errors and printed tensors call it.
    const NAME: &'static str;
    /// The axis's size.
    fn size(self) -> Self::Size;
    /// The same axis with another size.
    fn with<T: Size>(size: T) -> Self::With<T>;
}

/// Makes axes of one's own: `axis!(Speaker, Frame)`.
///
/// ```
/// use shapeproof::{axis, C, Seq, Tensor};
///
/// axis!(Speaker);
///
/// let x = Tensor::<(Speaker<C<2>>, Seq<C<5>>)>::ones();
/// assert_eq!(x.sum(Seq).to_vec(), [5.0, 5.0]);
/// ```
#[macro_export]
macro_rules! axis {
    ($($(#[$meta:meta])* $Axis:ident),+ $(,)?) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        #[allow(missing_docs)]
        pub struct $Axis<AxisSize>(pub AxisSize);
        impl<AxisSize: $crate::Size> $crate::Axis for $Axis<AxisSize> {
            type Size = AxisSize;
            type With<OtherSize: $crate::Size> = $Axis<OtherSize>;
            const NAME: &'static str = stringify!($Axis);
            fn size(self) -> AxisSize {
                self.0
            }
            fn with<OtherSize: $crate::Size>(size: OtherSize) -> $Axis<OtherSize> {
                $Axis(size)
            }
        }
    )+ };
}

axis! {
    /// Independent samples.
    Batch,
    /// Positions of a sequence, as activations have them; scores have [`Query`] and [`Key`].
    Seq,
    /// Positions that ask: the rows of the attention scores.
    Query,
    /// Positions that are asked: the columns of the attention scores.
    Key,
    /// Attention heads.
    Heads,
    /// Key/value heads, where fewer than the query heads.
    KvHeads,
    /// The width of one head's queries and keys: d_k in the literature.
    HeadDim,
    /// The width of one head's values, where it differs from [`HeadDim`]: d_v in the literature.
    ValueDim,
    /// The width of the activations: d_model in the literature.
    Model,
    /// The inner width of a feed-forward layer: d_ff in the literature.
    Hidden,
    /// Entries of a table, such as the tokens of a vocabulary.
    Vocab,
    /// What is left of a [`Folded`] axis whose factors are gone, or of a flattened tensor.
    Flat,
    /// The k entries that `top_k` keeps.
    Rank,
}

/// Two neighbouring axes in one, of size A · B; the type remembers both.
///
/// `x.fold(Batch, Heads)` makes one, `x.unfold(Batch, Heads)` takes it apart again. The entries
/// come in row-major order: A outside, B inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Folded<A: Axis, B: Axis> {
    outer: A,
    inner: B,
    size: Product<A::Size, B::Size>,
}

impl<A: Axis, B: Axis> Folded<A, B> {
    /// The axis of size `outer · inner`.
    ///
    /// # Errors
    /// Where the product exceeds `usize::MAX`.
    pub fn try_new(outer: A, inner: B) -> Result<Self> {
        Ok(Folded { outer, inner, size: Product::try_new(outer.size(), inner.size())? })
    }

    /// The two axes that were folded.
    pub fn parts(self) -> (A, B) {
        (self.outer, self.inner)
    }
}

impl<A: Axis + Default, B: Axis + Default> Default for Folded<A, B> {
    fn default() -> Self {
        match Folded::try_new(A::default(), B::default()) {
            Ok(folded) => folded,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<A: Axis, B: Axis> Axis for Folded<A, B> {
    type Size = Product<A::Size, B::Size>;
    type With<T: Size> = Flat<T>;
    const NAME: &'static str = "Folded";
    fn size(self) -> Self::Size {
        self.size
    }
    fn with<T: Size>(size: T) -> Flat<T> {
        Flat(size)
    }
}
