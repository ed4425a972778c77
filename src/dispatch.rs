//! From numbers read at run time to compiled sizes.

/// Carries numbers onto compiled sizes: the arm of the tuple that they equal runs, with a type for
/// each number.
///
/// `dispatch!((width, heads) as (M, H) in [(384, 12), (768, 12)] => build::<M, H>())` gives
/// `Ok(build::<C<384>, C<12>>())` for 384 and 12, and an error that lists the compiled sizes for
/// numbers that are not among them. Every arm is compiled, so every tuple obeys the rules.
///
/// ```
/// use shapeproof::{dispatch, DivisibleBy, HeadDimOf, Static};
///
/// fn head_dim<M: DivisibleBy<H>, H: Static>() -> usize {
///     HeadDimOf::<M, H>::N
/// }
///
/// let of = |width: usize, heads: usize| {
///     dispatch!((width, heads) as (M, H) in [(384, 12), (768, 12)] => head_dim::<M, H>())
/// };
/// assert_eq!(of(768, 12)?, 64);
/// assert_eq!(
///     of(512, 8).unwrap_err().to_string(),
///     "(width, heads) = (512, 8) is not among the compiled sizes [(384, 12), (768, 12)]; to have it, \
///      add it to the list of this `dispatch!`"
/// );
///
/// // One number alone; a constant in the place of a literal.
/// const WIDE: usize = 512;
/// fn size<N: Static>() -> usize {
///     N::N
/// }
/// let of = |width: usize| dispatch!((width) as (M) in [(64), (WIDE)] => size::<M>());
/// assert_eq!(of(512)?, WIDE);
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[macro_export]
macro_rules! dispatch {
    (($($value:expr),+ $(,)?) as ($($T:ident),+) in [$($sizes:tt),+ $(,)?] => $body:expr) => {
        $crate::dispatch!(@arms ($($value),+) ($($T),+) [$($sizes)+] $body)
    };
    (@arms $values:tt $types:tt [$($sizes:tt)+] $body:expr) => {{
        let asked = $values;
        $(
            if asked == $sizes {
                $crate::dispatch!(@types $types $sizes);
                $crate::Result::Ok($body)
            } else
        )+
        {
            $crate::Result::Err($crate::Error::unlisted(stringify!($values), &asked, &[$($sizes),+]))
        }
    }};
    (@types ($($T:ident),+) ($($n:expr),+)) => { $( type $T = $crate::C<{ $n }>; )+ };
}
