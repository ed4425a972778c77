//! A training step of attention alone, 8 heads of 64 over one sample, everything visible, at two lengths:
//! the time of its forward and backward passes, and how much more memory the process has at the peak than
//! before them.

use shapeproof::{
    Batch, C, Generator, HeadDim, Heads, Key, Mode, NoMask, Parameter, Query, Shape, Tensor, Train,
    dyn_size, scaled_dot_product_attention,
};
use std::process::Command;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// Each length in a process of its own, whose peak is that of nothing else.
fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [only, length] = &arguments[..]
        && only == "--length"
    {
        return measure(length.parse()?);
    }
    // Not under test.
    let lengths = if arguments.contains(&"--bench".into()) { [4096, 8192] } else { [64, 128] };
    for length in lengths {
        let own = Command::new(std::env::current_exe()?)
            .args(["--length".into(), length.to_string()])
            .status()?;
        assert!(own.success());
    }
    Ok(())
}

fn measure(length: usize) -> Result<(), Failure> {
    dyn_size!(n = length);
    let (batch, heads, dim) = (Batch(C::<1>), Heads(C::<8>), HeadDim(C::<64>));
    let q = normal((batch, heads, Query(n), dim), 1);
    let k = normal((batch, heads, Key(n), dim), 2);
    let v = normal((batch, heads, Key(n), dim), 3);
    let before = kibibytes("VmRSS:")?;
    let mut least = [Duration::MAX; 2];
    for _ in 0..3 {
        let mut train = Train::seeded(1);
        let start = Instant::now();
        let (q, k, v) = (train.read(&q), train.read(&k), train.read(&v));
        let loss = scaled_dot_product_attention(&q, &k, &v, NoMask).sum_all();
        let forward = start.elapsed();
        let gradients = train.backward(&loss);
        let both = [forward, start.elapsed() - forward];
        assert!(gradients.is_finite() && gradients.norm() > 0.0);
        least = [0, 1].map(|pass| least[pass].min(both[pass]));
    }
    let [forward, backward] = least.map(|time| time.as_secs_f64() * 1e3);
    let more = (kibibytes("VmHWM:")? - before) / 1024;
    println!("{length}: forward {forward:.0} ms, backward {backward:.0} ms, {more} MiB more");
    Ok(())
}

fn normal<S: Shape>(shape: S, seed: u64) -> Parameter<S> {
    Parameter::new(Tensor::normal_in(shape, 0.0, 1.0, &mut Generator::seeded(seed)))
}

/// What Linux says of this process.
fn kibibytes(what: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.ok_or("no such line in /proc/self/status")?.parse()?)
}
