//! Training: schedules.

mod schedule;

pub use schedule::Schedule;
