//! Whether a layer has a bias, as a type.

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Bias {}
    impl Sealed for super::NoBias {}
}

/// Whether a [`Linear`](crate::Linear) layer has a bias: [`Bias`] or [`NoBias`].
///
/// A file without a bias does not load into a layer that has one, and the other way round: a bias
/// cannot get lost in silence.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether there is a bias",
    label = "write `Bias` or `NoBias`"
)]
pub trait BiasKind: sealed::Sealed {
    /// What the layer holds: `T`, or nothing.
    type Of<T>;
    /// What `make` returns, where there is a bias.
    fn make<T>(make: impl FnOnce() -> T) -> Self::Of<T>;
    /// The bias, where there is one.
    fn get<T>(of: &Self::Of<T>) -> Option<&T>;
    /// The bias, where there is one, to be changed.
    fn get_mut<T>(of: &mut Self::Of<T>) -> Option<&mut T>;
}

/// With a bias.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bias;

/// Without a bias.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBias;

/// The place of a bias that is not there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absent;

#[diagnostic::do_not_recommend]
impl BiasKind for Bias {
    type Of<T> = T;
    fn make<T>(make: impl FnOnce() -> T) -> T {
        make()
    }
    fn get<T>(of: &T) -> Option<&T> {
        Some(of)
    }
    fn get_mut<T>(of: &mut T) -> Option<&mut T> {
        Some(of)
    }
}

#[diagnostic::do_not_recommend]
impl BiasKind for NoBias {
    type Of<T> = Absent;
    fn make<T>(_: impl FnOnce() -> T) -> Absent {
        Absent
    }
    fn get<T>(_: &Absent) -> Option<&T> {
        None
    }
    fn get_mut<T>(_: &mut Absent) -> Option<&mut T> {
        None
    }
}
