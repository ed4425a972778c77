//! Masks in the library's types.

use shapeproof::{
    AnyParameter, Batch, BlockMask, Float, HeadBlockMask, Heads, Key, MaskFor, Mode, NoMask,
    Parameter, ParameterId, Query, ScoreBias, Size, Tensor, Train,
};

use super::{Over, narrowed};

pub(crate) type Scores<B, H, Q, K> = (Batch<B>, Heads<H>, Query<Q>, Key<K>);
pub(crate) type Typed<'a, B, H, Q, K, E> = Box<dyn MaskFor<Scores<B, H, Q, K>, E> + 'a>;

pub(super) fn blocks<'a, B, H, Q, K, E>(
    size: usize,
    by_head: bool,
    visible: &[bool],
    (_, heads, query, key): Scores<B, H, Q, K>,
) -> Typed<'a, B, H, Q, K, E>
where
    B: Size + 'a,
    H: Size + 'a,
    Q: Size + 'a,
    K: Size + 'a,
    E: Float,
{
    let [rows, columns] = [query.0.get() / size, key.0.get() / size];
    let at = |h, row, column| visible[(h * rows + row) * columns + column];
    match by_head {
        true => Box::new(HeadBlockMask::try_from_fn(size, heads, query, key, at).unwrap()),
        false => {
            let of_all = |row, column| at(0, row, column);
            Box::new(BlockMask::try_from_fn(size, query, key, of_all).unwrap())
        }
    }
}

/// The mask that `$wrap` makes of a tensor of `$values` over the axes of `$over`.
macro_rules! by_axes {
    ($over:ident, $shape:ident, $values:expr, $wrap:expr; $([$($has:literal)+] ($($at:tt)+);)+) => {
        match $over.axes {
            $( [$($has),+] => {
                let tensor = Tensor::try_from_vec(($($shape.$at,)+), $values).unwrap();
                Box::new($wrap(tensor))
            } )+
            axes => panic!("a mask over {axes:?} does not name the keys"),
        }
    };
    ($over:ident, $shape:ident, $values:expr, $wrap:expr) => {
        by_axes! { $over, $shape, $values, $wrap;
            [false false false true] (3);
            [true false false true] (0 3);
            [false true false true] (1 3);
            [false false true true] (2 3);
            [true true false true] (0 1 3);
            [true false true true] (0 2 3);
            [false true true true] (1 2 3);
            [true true true true] (0 1 2 3);
        }
    };
}

pub(super) use by_axes;

/// As a parameter that is read: what it is called, and the mask.
pub(crate) fn learned<'a, B, H, Q, K, E>(
    over: &Over<f64>,
    shape: Scores<B, H, Q, K>,
    train: &mut Train,
) -> (ParameterId, Typed<'a, B, H, Q, K, E>)
where
    B: Size + 'a,
    H: Size + 'a,
    Q: Size + 'a,
    K: Size + 'a,
    E: Float,
{
    let mut id = None;
    let mask: Typed<'a, B, H, Q, K, E> = by_axes!(over, shape, narrowed(&over.values), |bias| {
        let parameter = Parameter::new(bias);
        id = Some(parameter.id());
        ScoreBias(train.read(&parameter))
    });
    (id.unwrap(), mask)
}

/// `parts`, up to three of them, joined by `&`.
pub(crate) fn joined<'m, 'a, S, E: Float>(
    parts: &'m [Box<dyn MaskFor<S, E> + 'a>],
) -> impl MaskFor<S, E> + use<'m, 'a, S, E> {
    let part = |at: usize| -> &'m (dyn MaskFor<S, E> + 'a) {
        parts.get(at).map_or(&NoMask, |part| &**part)
    };
    assert!(parts.len() <= 3, "{} masks", parts.len());
    NoMask & part(0) & part(1) & part(2)
}
