//! Sizes read at run time: one type, one number.

use super::Size;
use crate::error::{Error, Result};
use generativity::{Guard, Id};
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

/// A size read once at run time and then carried in the type; made by [`dyn_size!`](crate::dyn_size).
///
/// `'id` is a brand that no other `Dyn` has, so two tensors over the same `Dyn` type have the same
/// size, and two sizes that merely happen to be equal are different types. `Name` is what a compile
/// error calls it.
///
/// A `Dyn` lives as long as the scope it was made in: it cannot be returned or stored beyond it.
/// Functions take sizes from their caller (`fn f<B: Size>(…)`), structs are generic over
/// [`Size`], and what must leave the scope is erased ([`AnyTensor`](crate::AnyTensor)).
pub struct Dyn<'id, Name>(usize, Id<'id>, PhantomData<fn() -> Name>);

impl<'id, Name> Dyn<'id, Name> {
    /// A size of `n`, of a type of its own. [`dyn_size!`](crate::dyn_size) calls this.
    pub fn new(n: usize, guard: Guard<'id>) -> Self {
        Dyn(n, guard.into(), PhantomData)
    }
}

impl<Name> Clone for Dyn<'_, Name> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Name> Copy for Dyn<'_, Name> {}

impl<Name> PartialEq for Dyn<'_, Name> {
    fn eq(&self, _: &Self) -> bool {
        true // one type is one number
    }
}

impl<Name> Debug for Dyn<'_, Name> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[diagnostic::do_not_recommend]
impl<Name> Size for Dyn<'_, Name> {
    fn get(self) -> usize {
        self.0
    }
}

/// The sum of two sizes of which at least one is read at run time.
#[derive(Clone, Copy, PartialEq)]
pub struct Sum<A, B> {
    parts: (A, B),
    total: usize,
}

impl<A: Size, B: Size> Sum<A, B> {
    /// `a + b`, or an error where that exceeds `usize`.
    pub(super) fn try_new(a: A, b: B) -> Result<Self> {
        let total =
            a.get().checked_add(b.get()).ok_or_else(|| Error::size_overflow("+", &a, &b))?;
        Ok(Sum { parts: (a, b), total })
    }
}

/// The product of two sizes, as a [`Folded`](crate::Folded) axis has it; the type remembers both.
#[derive(Clone, Copy, PartialEq)]
pub struct Product<A, B> {
    parts: (A, B),
    total: usize,
}

impl<A: Size, B: Size> Product<A, B> {
    /// `a · b`, or an error where that exceeds `usize`.
    pub(crate) fn try_new(a: A, b: B) -> Result<Self> {
        let total =
            a.get().checked_mul(b.get()).ok_or_else(|| Error::size_overflow("*", &a, &b))?;
        Ok(Product { parts: (a, b), total })
    }
}

impl<A: Size, B: Size> Debug for Sum<A, B> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}+{:?}", self.parts.0, self.parts.1)
    }
}

impl<A: Size, B: Size> Debug for Product<A, B> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}*{:?}", self.parts.0, self.parts.1)
    }
}

#[diagnostic::do_not_recommend]
impl<A: Size, B: Size> Size for Sum<A, B> {
    fn get(self) -> usize {
        self.total
    }
}

#[diagnostic::do_not_recommend]
impl<A: Size, B: Size> Size for Product<A, B> {
    fn get(self) -> usize {
        self.total
    }
}

/// Makes sizes that are read at run time: `dyn_size!(batch = ids.len(), keys = n)`.
///
/// Each name becomes a variable of a type of its own, and compile errors call it by that name:
/// ``expected `batch`, found `keys` ``.
///
/// The sizes live to the end of the scope, and so does every tensor over them: rustc says "temporary
/// value dropped while borrowed" where one is returned or kept. Take sizes from the caller instead
/// (`fn f<B: Size>(…)`), or give out numbers or [`erase`](crate::Tensor::erase) the tensor.
///
/// ```
/// use shapeproof::{dyn_size, Batch, C, Model, Tensor};
///
/// fn scale(rows: usize) -> usize {
///     dyn_size!(batch = rows);
///     let x = Tensor::<_, f32>::ones_in((Batch(batch), Model(C::<4>)));
///     x.add(&x).count()
/// }
/// assert_eq!(scale(3), 12);
/// ```
#[macro_export]
macro_rules! dyn_size {
    ($($name:ident = $size:expr),+ $(,)?) => { $(
        #[allow(non_camel_case_types, dead_code)]
        enum $name {}
        $crate::__private::make_guard!(guard);
        let $name = $crate::Dyn::<$name>::new($size, guard);
    )+ };
}
