//! Schedules, the beginning of parameters, optimizers, and runs that are interrupted.

mod init;
mod schedules;
