//! Schedules against the values of other implementations.

use crate::fixtures::{fixtures_dir, read_json};
use shapeproof::Schedule;

/// The (step, rate) pairs of one schedule of the reference; what it leaves out is left out.
fn reference(name: &str) -> (serde_json::Value, Vec<(usize, f64)>) {
    let entry = read_json(&fixtures_dir().join("torch/schedules.json"))[name].clone();
    let rates = entry["lr"].as_object().expect("rates by step");
    let pairs =
        rates.iter().filter_map(|(step, rate)| Some((step.parse().unwrap(), rate.as_f64()?)));
    let pairs: Vec<_> = pairs.collect();
    assert!(pairs.len() > 5, "{name}");
    (entry, pairs)
}

fn number(entry: &serde_json::Value, key: &str) -> f64 {
    entry[key].as_f64().unwrap_or_else(|| panic!("no {key} in {entry}"))
}

fn count(entry: &serde_json::Value, key: &str) -> usize {
    usize::try_from(entry[key].as_u64().unwrap()).unwrap()
}

/// Compares, where the reference's step `n + offset` is our update `n`.
fn check(name: &str, schedule: Schedule, rates: &[(usize, f64)], offset: usize) {
    let mut compared = 0;
    for &(step, want) in rates {
        let Some(update) = step.checked_sub(offset) else { continue };
        let got = schedule.rate(update);
        assert!(
            (got - want).abs() <= 1e-12 * want.abs() + 1e-18,
            "{name} {step}: {got:e} {want:e}"
        );
        compared += 1;
    }
    assert!(compared + offset >= rates.len(), "{name}: {compared} compared");
}

#[test]
fn noam_is_that_of_the_paper() {
    let (entry, rates) = reference("noam");
    let schedule = Schedule::noam(count(&entry, "d_model")).warm_up(count(&entry, "warmup"));
    check("noam", schedule, &rates, 1);
}

#[test]
fn linear_and_cosine_are_those_of_the_reference_one_step_on() {
    for (name, make) in [
        ("linear_warmup_linear_decay", Schedule::linear as fn(f64, usize) -> Schedule),
        ("linear_warmup_cosine", Schedule::cosine),
    ] {
        let (entry, rates) = reference(name);
        let schedule = make(number(&entry, "peak"), count(&entry, "total"));
        check(name, schedule.warm_up(count(&entry, "warmup")), &rates, 1);
    }
}

#[test]
fn a_cosine_without_warm_up_falls_from_its_first_update_to_its_floor() {
    let (entry, rates) = reference("cosine_annealing");
    let schedule = Schedule::cosine(number(&entry, "peak"), count(&entry, "T_max") + 1);
    check("cosine_annealing", schedule.floor(number(&entry, "eta_min")), &rates, 0);
}

#[test]
fn the_first_update_of_a_warm_up_is_not_wasted() {
    let peak = 1e-3;
    for schedule in
        [Schedule::constant(peak), Schedule::linear(peak, 90), Schedule::cosine(peak, 90)]
    {
        let rates: Vec<_> = (0..4).map(|n| schedule.warm_up(4).rate(n)).collect();
        assert_eq!(rates, [2.5e-4, 5e-4, 7.5e-4, 1e-3]);
        for warm_up in [0, 1] {
            assert_eq!(schedule.warm_up(warm_up).rate(0).to_bits(), peak.to_bits(), "{schedule:?}");
        }
    }
    let noam = Schedule::noam(64);
    assert_eq!(noam.rate(0).to_bits(), 0.125f64.to_bits());
    assert_eq!(noam.warm_up(1).rate(0).to_bits(), 0.125f64.to_bits());
    let rates: Vec<_> = (0..4).map(|n| noam.warm_up(4).rate(n)).collect();
    assert_eq!(rates, [0.015_625, 0.031_25, 0.046_875, 0.0625]);
}

#[test]
fn rates_are_finite_and_fall_to_the_floor_whatever_the_counts() {
    let counts = [0, 1, 2, 3, 10, usize::MAX];
    for warm_up in counts {
        for updates in counts {
            for schedule in [
                Schedule::constant(0.5),
                Schedule::linear(0.5, updates).floor(0.25),
                Schedule::cosine(0.5, updates).floor(0.25),
                Schedule::noam(updates),
            ] {
                let schedule = schedule.warm_up(warm_up);
                let mut last = 0.0;
                for update in [0, 1, 2, 3, 4, 9, 10, 11, 1000, usize::MAX - 1, usize::MAX] {
                    let rate = schedule.rate(update);
                    assert!(rate.is_finite() && rate > 0.0, "{schedule:?} {update} {rate}");
                    if update < warm_up && warm_up < 100 {
                        assert!(rate > last, "{schedule:?} {update}: {rate} after {last}");
                    }
                    last = rate;
                }
            }
        }
    }
    for schedule in [Schedule::linear(0.5, 10), Schedule::cosine(0.5, 10)] {
        let schedule = schedule.floor(0.125).warm_up(3);
        assert_eq!([schedule.rate(2), schedule.rate(9), schedule.rate(10)], [0.5, 0.125, 0.125]);
        assert!((3..9).all(|n| schedule.rate(n) < schedule.rate(n - 1)));
    }
}

#[test]
fn scaling_multiplies_peak_and_floor() {
    let schedule = Schedule::linear(0.5, 5).floor(0.25).warm_up(2);
    for update in 0..8 {
        let (rate, twice) = (schedule.rate(update), schedule.scaled(2.0).rate(update));
        assert_eq!(twice.to_bits(), (2.0 * rate).to_bits());
    }
}
