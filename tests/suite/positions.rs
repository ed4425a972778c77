//! Absolute positions: sinusoidal ones against reference values, and learned ones.

use shapeproof::{
    Batch, C, Float, Generator, Infer, LearnedPositions, Model, Seq, Size, Tensor, bf16, dyn_size,
    f16, try_sinusoidal_positions,
};

use crate::fixtures::{Report, Run, close};
use crate::masks::widened;
use crate::modules::names;
use crate::rotary::positions;

#[test]
fn sinusoidal_positions_are_those_of_the_reference() {
    Report::run("sinusoidal", &positions("sinusoid_"), |case| {
        assert!((case.config.float("base") - 10_000.0).abs() < 1e-9);
        let (length, width) = (case.config.usize("length"), case.config.usize("d_model"));
        let want = case.tensors.f64("out64.table");
        for (got, atol) in [
            (table::<f32>(0, length, width), 1e-7),
            (table::<f64>(0, length, width), 1e-14),
            // Half of the last place of numbers just below 1.
            (table::<f16>(0, length, width), 2f64.powi(-12)),
            (table::<bf16>(0, length, width), 2f64.powi(-9)),
        ] {
            close("table", &got, &want, 0.0, atol)?;
        }
        for offset in 0..length {
            let later = table::<f64>(offset, length - offset, width);
            close("later positions", &later, &want[offset * width..], 0.0, 1e-14)?;
        }
        Ok(Run::Passed)
    });
}

fn table<E: Float>(offset: usize, length: usize, width: usize) -> Vec<f64> {
    dyn_size!(length = length, width = width);
    widened(
        &try_sinusoidal_positions::<_, _, E>(Seq(length), Model(width), offset).unwrap().to_vec(),
    )
}

#[test]
fn sinusoidal_positions_may_be_none_and_must_be_countable() {
    assert!(table::<f32>(3, 0, 5).is_empty() && table::<f32>(3, 5, 0).is_empty());
    assert_eq!(table::<f32>(0, 1, 1), [0.0]);
    dyn_size!(huge = usize::MAX / 2);
    let of = |offset| try_sinusoidal_positions::<_, _, f32>(Seq(huge), Model(C::<4>), offset);
    assert!(of(0).unwrap_err().is_overflow() && of(usize::MAX).unwrap_err().is_overflow());
}

#[test]
fn learned_positions_are_rows_of_their_table_and_end_with_it() {
    let mut generator = Generator::seeded(3);
    let positions = LearnedPositions::<Seq<C<5>>, Model<C<3>>>::normal(1.0, &mut generator);
    let all = positions.weight.value().to_vec();
    for offset in 0..=5 {
        for length in 0..=5 - offset {
            dyn_size!(length = length);
            let rows = positions.try_forward(offset, Seq(length), &mut Infer).unwrap();
            assert_eq!(rows.to_vec(), all[offset * 3..][..length.get() * 3]);
        }
    }
    let of = |offset| positions.try_forward(offset, Seq(C::<2>), &mut Infer).unwrap_err();
    assert_eq!(of(4).to_string(), "expected positions within a table of 5, found 2 from 4 on");
    assert!(of(6).is_index() && of(usize::MAX).is_index());

    let own = Tensor::<(Batch<C<2>>, Seq<C<2>>), u32>::from([[4, 0], [1, 1]]);
    let rows = positions.try_at(&own, &mut Infer).unwrap().to_vec();
    assert_eq!(rows, [&all[12..], &all[..3], &all[3..6], &all[3..6]].concat());
    let beyond = Tensor::<(Batch<C<1>>, Seq<C<1>>), u32>::from([[5]]);
    assert!(positions.try_at(&beyond, &mut Infer).unwrap_err().is_index());
    assert_eq!(names(&positions), ["weight"]);
}
