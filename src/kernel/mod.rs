//! Loops over slices: sizes and strides, never shapes.
#![allow(unsafe_code, reason = "the one place where speed is worth a proof by hand")]

pub(crate) mod layout;
