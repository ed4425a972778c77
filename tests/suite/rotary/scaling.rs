//! Frequencies for longer contexts, against the published formulas.

use shapeproof::{
    Batch, C, Float, HeadDim, Heads, Query, Rotary, RotaryScaling, RotaryWidth, Seq, Tensor, bf16,
    dispatch, f16,
};

use crate::fixtures::{Config, assert_close, fixtures_dir, read_json};
use crate::masks::widened;

#[test]
fn scaled_frequencies_and_turns_are_the_published_ones() {
    let file = Config::new(read_json(&fixtures_dir().join("rotary/scaling.json")));
    let positions = file.usizes("positions");
    let cases = file.objects("cases");
    assert!(cases.len() > 10);
    for case in &cases {
        let check = dispatch!((case.usize("width")) as (R) in [(2), (4), (6), (8), (10), (16), (64), (128)]
            => scaled::<R>(case, &positions));
        check.unwrap();
    }
}

fn scaled<R: RotaryWidth>(case: &Config, positions: &[usize]) {
    let settings = Config::new(case.value("settings").unwrap().clone());
    let name = case.text("name");
    let scaling = match case.text("kind") {
        "none" => RotaryScaling::None,
        "linear" => RotaryScaling::Interpolation { factor: settings.float("factor") },
        "ntk" => RotaryScaling::Ntk { factor: settings.float("factor") },
        "yarn" => yarn(&settings),
        "llama3" => RotaryScaling::Llama3 {
            factor: settings.float("factor"),
            low_freq_factor: settings.float("low_freq_factor"),
            high_freq_factor: settings.float("high_freq_factor"),
            original_length: settings.usize("original_length"),
        },
        other => panic!("{other}"),
    };
    let rotary = Rotary::<R>::try_scaled(case.float("base"), scaling).unwrap();
    assert_close(name, rotary.frequencies(), &floats(case, "frequencies"), 1e-14, 0.0);
    let factor = [rotary.attention_factor()];
    assert_close(name, &factor, &[case.float("attention_factor")], 1e-15, 0.0);
    // The angle at position p is off by p units in the last place of θ.
    turns::<R, f64>(&rotary, case, positions, 1e-7);
    turns::<R, f32>(&rotary, case, positions, 2e-7);
    // The table is rounded: half of the last place of numbers between 1 and 2.
    turns::<R, f16>(&rotary, case, positions, 2f64.powi(-11) + 2e-7);
    turns::<R, bf16>(&rotary, case, positions, 2f64.powi(-8) + 2e-7);
}

/// The first half of the features 1, the second 0: they become the cosines and the sines.
fn turns<R: RotaryWidth, E: Float>(
    rotary: &Rotary<R>,
    case: &Config,
    positions: &[usize],
    atol: f64,
) {
    let half = R::N / 2;
    let x = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<R>), E>::from_fn_in(
        (Batch(C), Heads(C), Query(C), HeadDim(R::default())),
        |at| E::from_f64(if at[3] < half { 1.0 } else { 0.0 }),
    );
    let (cos, sin) = (floats(case, "cos"), floats(case, "sin"));
    for (row, &position) in positions.iter().enumerate() {
        let y = widened(&rotary.try_at(position, Seq(C::<1>)).unwrap().rotate(&x).to_vec());
        let at = row * half..(row + 1) * half;
        assert_close(case.text("name"), &y[..half], &cos[at.clone()], 0.0, atol);
        assert_close(case.text("name"), &y[half..], &sin[at], 0.0, atol);
    }
}

fn yarn(settings: &Config) -> RotaryScaling {
    let mut scaling =
        RotaryScaling::yarn(settings.float("factor"), settings.usize("original_length"));
    if let RotaryScaling::Yarn { beta_fast, beta_slow, attention_factor, truncate, .. } =
        &mut scaling
    {
        *beta_fast = settings.maybe_float("beta_fast").unwrap_or(*beta_fast);
        *beta_slow = settings.maybe_float("beta_slow").unwrap_or(*beta_slow);
        *attention_factor = settings.maybe_float("attention_factor");
        *truncate = settings.value("truncate").is_none_or(|it| it.as_bool().unwrap());
    }
    scaling
}

fn floats(case: &Config, key: &str) -> Vec<f64> {
    let list = case.value(key).and_then(serde_json::Value::as_array).expect("a list");
    list.iter().map(|value| value.as_f64().expect("a number")).collect()
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    let of = |base, scaling| Rotary::<C<8>>::try_scaled(base, scaling).unwrap_err();
    for base in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = of(base, RotaryScaling::None);
        assert!(error.is_value());
        assert_eq!(error.to_string(), format!("expected a rotary base above 0, found {base}"));
    }
    for factor in [0.0, -2.0, f64::NAN, f64::INFINITY] {
        let bad = [
            RotaryScaling::Interpolation { factor },
            RotaryScaling::Ntk { factor },
            RotaryScaling::yarn(factor, 4096),
        ];
        for scaling in bad {
            let text = of(1e4, scaling).to_string();
            assert_eq!(text, format!("expected a factor above 0, found {factor}"));
        }
    }
    assert!(of(1e4, RotaryScaling::yarn(2.0, 0)).to_string().contains("original length"));
    // log(1) is no denominator.
    assert!(of(1.0, RotaryScaling::yarn(2.0, 4096)).to_string().contains("finite"));
    let llama3 = RotaryScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 4.0,
        high_freq_factor: 4.0,
        original_length: 8192,
    };
    assert!(of(1e4, llama3).to_string().contains("below the high_freq_factor"));
}
