//! Making tensors.

use generic_array::GenericArray;
use shapeproof::{
    Batch, C, DivisibleBy, Generator, HeadDim, HeadDimOf, Heads, Key, Model, Query, Row, Seq,
    Shape, Static, Tensor, dyn_size,
};

type Two = (Batch<C<2>>, Model<C<3>>);

#[test]
fn constants_fill_every_element() {
    assert_eq!(Tensor::<Two>::zeros().to_vec(), [0.0; 6]);
    assert_eq!(Tensor::<Two, f64>::ones().to_vec(), [1.0; 6]);
    assert_eq!(Tensor::<Two, i64>::full(-7).to_vec(), [-7; 6]);
    assert_eq!(Tensor::<Two, bool>::zeros().to_vec(), [false; 6]);
    assert_eq!(Tensor::<(), u8>::full(9).value(), 9);
    assert_eq!(Tensor::scalar(2.5f64).value(), 2.5);
    dyn_size!(batch = 2);
    let shape = (Batch(batch), Model(C::<3>));
    assert_eq!(Tensor::<_, f32>::ones_in(shape).dims(), [2, 3]);
    assert_eq!(Tensor::<_, usize>::zeros_in(shape).to_vec(), [0; 6]);
    assert_eq!(Tensor::full_in(shape, b'x').to_vec(), [b'x'; 6]);
}

#[test]
fn a_function_of_the_index_is_called_in_row_major_order() {
    let mut calls = Vec::new();
    let x = Tensor::<Two, usize>::from_fn(|at| {
        calls.push(at.to_vec());
        at[0] * 10 + at[1]
    });
    assert_eq!(x.to_vec(), [0, 1, 2, 10, 11, 12]);
    assert_eq!(calls, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
    let once = Tensor::<(), usize>::from_fn(|at| at.len() + 5);
    assert_eq!(once.value(), 5);
}

#[test]
fn nested_arrays_of_one_to_four_axes_are_tensors() {
    assert_eq!(Tensor::<(Key<C<2>>,), i32>::from([1, 2]).to_vec(), [1, 2]);
    assert_eq!(Tensor::<Two, i32>::from([[1, 2, 3], [4, 5, 6]]).to_vec(), [1, 2, 3, 4, 5, 6]);
    let three = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<2>>), u32>::from([[[1, 2], [3, 4]]]);
    assert_eq!((three.dims(), three.to_vec()), (&[1, 2, 2][..], vec![1, 2, 3, 4]));
    type Four = (Batch<C<1>>, Heads<C<2>>, Query<C<1>>, Key<C<2>>);
    let four = Tensor::<Four, u8>::from([[[[1, 2]], [[3, 4]]]]);
    assert_eq!(four.try_at(&[0, 1, 0, 1]).unwrap(), 4);
    assert_eq!(Tensor::<(Key<C<0>>,)>::from([]).count(), 0);
}

#[test]
fn generic_arrays_whose_length_was_computed_are_tensors() {
    fn ramp<M: DivisibleBy<H>, H: Static>() -> Tensor<(HeadDim<HeadDimOf<M, H>>,), usize> {
        let row: Row<usize, HeadDimOf<M, H>> = (0..HeadDimOf::<M, H>::N).collect();
        Tensor::from(row)
    }
    assert_eq!(ramp::<C<12>, C<3>>().to_vec(), [0, 1, 2, 3]);
    let rows = GenericArray::from_array([
        GenericArray::from_array([1.0, 2.0, 3.0]),
        GenericArray::from_array([4.0, 5.0, 6.0]),
    ]);
    let x = Tensor::<Two>::from(rows);
    assert_eq!(x.to_vec(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(x.as_rows().unwrap()[1].as_slice(), [4.0, 5.0, 6.0]);
    assert_eq!(x.as_arrays().unwrap(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert!(x.transpose(Batch, Model).as_rows().is_none());
    assert!(x.transpose(Batch, Model).as_arrays().is_none());
}

#[test]
fn a_vector_of_the_wrong_length_is_refused_with_both_numbers() {
    dyn_size!(batch = 2);
    let shape = (Batch(batch), Model(C::<3>));
    let error = Tensor::try_from_vec(shape, vec![0.0; 5]).unwrap_err();
    assert!(error.is_shape());
    assert_eq!(error.to_string(), "shape [2, 3] needs 6 elements, found 5");
    assert_eq!(format!("{error:?}"), error.to_string());
    assert_eq!(
        Tensor::try_from_vec((), vec![1.0, 2.0]).unwrap_err().to_string(),
        "shape [] needs 1 elements, found 2"
    );
}

#[test]
fn more_elements_than_can_be_counted_are_an_error_and_never_a_wrapped_number() {
    dyn_size!(batch = usize::MAX / 2, length = 3, none = 0);
    let error = (Batch(batch), Seq(length)).try_count().unwrap_err();
    assert!(error.is_overflow() && !error.is_shape());
    assert!(error.to_string().contains("multiply to more than isize::MAX elements"), "{error}");
    // An empty axis beside them does not make the others countable.
    assert!((Batch(batch), Seq(length), Model(none)).try_count().is_err());
    assert!(
        Tensor::try_from_vec((Batch(batch), Seq(length)), vec![0.0f32; 3])
            .unwrap_err()
            .is_overflow()
    );
    assert_eq!((Batch(none), Seq(length)).try_count().unwrap(), 0);
}

#[test]
fn the_generator_gives_the_same_numbers_everywhere() {
    let mut generator = Generator::seeded(7);
    let bits: Vec<u64> = (0..3).map(|_| generator.bits()).collect();
    assert_eq!(bits, BITS);
    let mut generator = Generator::seeded(7);
    let uniform: Vec<f64> = (0..3).map(|_| generator.uniform()).collect();
    assert_eq!(uniform, UNIFORM);
    let mut generator = Generator::seeded(7);
    let normal: Vec<f64> = (0..3).map(|_| generator.normal()).collect();
    assert_eq!(normal, NORMAL);
    let x = Tensor::<(Model<C<3>>,), f64>::normal(1.0, 2.0, &mut Generator::seeded(7));
    assert_eq!(x.to_vec(), NORMAL.map(|x| 1.0 + 2.0 * x));
    let x = Tensor::<(Model<C<3>>,), f64>::uniform(-1.0, 3.0, &mut Generator::seeded(7));
    assert_eq!(x.to_vec(), UNIFORM.map(|x| -1.0 + 4.0 * x));
}

const BITS: [u64; 3] = [2910824217569608635, 3098856782162503994, 12991601491111613745];
const UNIFORM: [f64; 3] = [0.15779609702061936, 0.1679893627721013, 0.7042761280364565];
const NORMAL: [f64; 3] = [-0.7753719332177971, -1.3834217200084091, 0.8897130187430372];

#[test]
fn a_seed_gives_one_sequence_and_another_seed_another() {
    type Many = (Model<C<1000>>,);
    let draw = |seed| Tensor::<Many>::normal(0.0, 1.0, &mut Generator::seeded(seed));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let mut generator = Generator::seeded(1);
    let mut copy = generator.clone();
    let first = Tensor::<Many>::normal(0.0, 1.0, &mut generator);
    assert_ne!(Tensor::<Many>::normal(0.0, 1.0, &mut generator), first);
    assert_eq!(Tensor::<Many>::normal(0.0, 1.0, &mut copy), first);
}

#[test]
fn random_tensors_have_the_moments_they_were_asked_for() {
    type Many = (Batch<C<100>>, Model<C<1000>>);
    let mut generator = Generator::seeded(3);
    let moments = |x: &Tensor<Many, f64>| {
        let mean = x.mean_all().value();
        (mean, x.sub_scalar(mean).pow_scalar(2.0).mean_all().value().sqrt())
    };
    // 100 000 draws: the mean is off by some 0.003 deviations.
    let (mean, deviation) = moments(&Tensor::normal(5.0, 0.5, &mut generator));
    assert!((mean - 5.0).abs() < 0.01 && (deviation - 0.5).abs() < 0.01);
    let x = Tensor::<Many, f64>::uniform(-2.0, 4.0, &mut generator);
    let (mean, deviation) = moments(&x);
    assert!((mean - 1.0).abs() < 0.03 && (deviation - 6.0 / 12f64.sqrt()).abs() < 0.03);
    assert!(x.to_vec().iter().all(|x| (-2.0..4.0).contains(x)));
}

/// Names that a macro might use for itself.
mod letters {
    shapeproof::axis!(N, T, A, E, Size, AxisName);
}

#[test]
fn axes_may_have_any_name() {
    let x = Tensor::<(letters::N<C<2>>, letters::T<C<3>>, letters::Size<C<1>>)>::ones();
    assert_eq!(x.sum(letters::T).to_vec(), [3.0, 3.0]);
}
