//! Numbers from the bytes of a file, in pieces: a tensor is never in memory twice.

use super::unreadable;
use crate::element::{Float, bf16, f16};
use safetensors::Dtype;
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Bytes read at a time; a multiple of every element's size.
const PIECE: usize = 1 << 16;

/// Which bytes of a file to read: `runs` times `length` bytes, each `step` after the last.
pub(super) struct Runs {
    pub(super) start: u64,
    pub(super) runs: usize,
    pub(super) length: usize,
    pub(super) step: usize,
}

impl Runs {
    /// Shows the bytes to `each`, in pieces that are multiples of 8 bytes or end a run.
    pub(super) fn for_each(
        &self,
        file: impl Read + Seek,
        mut each: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.runs == 0 || self.length == 0 {
            return Ok(());
        }
        let gap = i64::try_from(self.step - self.length).map_err(|error| error.to_string())?;
        let mut file = BufReader::with_capacity(PIECE, file);
        file.seek(SeekFrom::Start(self.start)).map_err(unreadable)?;
        let mut piece = vec![0; PIECE.min(self.length)];
        for run in 0..self.runs {
            if run > 0 {
                file.seek_relative(gap).map_err(unreadable)?;
            }
            let mut left = self.length;
            while left > 0 {
                let piece = &mut piece[..PIECE.min(left)];
                file.read_exact(piece).map_err(unreadable)?;
                each(piece)?;
                left -= piece.len();
            }
        }
        Ok(())
    }
}

/// Appends the elements that little-endian bytes stand for.
pub(super) type Decode<E> = fn(&[u8], &mut Vec<E>);

/// How elements of one kind are read, whichever of its types a file has.
pub(super) struct Kind<E> {
    /// `None` for types that are not of this kind.
    pub(super) decode: fn(Dtype) -> Option<Decode<E>>,
    /// The types that are.
    pub(super) types: &'static str,
}

/// Floats, each rounded to `E`.
pub(super) fn floats<E: Float>() -> Kind<E> {
    Kind { decode: float, types: "F64, F32, F16 or BF16 numbers" }
}

/// Whole numbers, and booleans as 0 and 1.
pub(super) fn integers() -> Kind<i64> {
    Kind { decode: integer, types: "I64, I32, I16, I8, U32, U16, U8 or BOOL numbers" }
}

fn float<E: Float>(dtype: Dtype) -> Option<Decode<E>> {
    Some(match dtype {
        Dtype::F64 => |bytes, to| extend(bytes, to, |chunk| rounded(f64::from_le_bytes(chunk))),
        Dtype::F32 => |bytes, to| extend(bytes, to, |chunk| rounded(f32::from_le_bytes(chunk))),
        Dtype::F16 => |bytes, to| extend(bytes, to, |chunk| rounded(f16::from_le_bytes(chunk))),
        Dtype::BF16 => |bytes, to| extend(bytes, to, |chunk| rounded(bf16::from_le_bytes(chunk))),
        _ => return None,
    })
}

fn integer(dtype: Dtype) -> Option<Decode<i64>> {
    Some(match dtype {
        Dtype::I64 => |bytes, to| extend(bytes, to, i64::from_le_bytes),
        Dtype::I32 => |bytes, to| extend(bytes, to, |chunk| i32::from_le_bytes(chunk).into()),
        Dtype::U32 => |bytes, to| extend(bytes, to, |chunk| u32::from_le_bytes(chunk).into()),
        Dtype::I16 => |bytes, to| extend(bytes, to, |chunk| i16::from_le_bytes(chunk).into()),
        Dtype::U16 => |bytes, to| extend(bytes, to, |chunk| u16::from_le_bytes(chunk).into()),
        Dtype::I8 => |bytes, to| extend(bytes, to, |chunk| i8::from_le_bytes(chunk).into()),
        Dtype::U8 | Dtype::BOOL => |bytes, to| extend(bytes, to, |[byte]| byte.into()),
        _ => return None,
    })
}

fn extend<const N: usize, E>(bytes: &[u8], to: &mut Vec<E>, make: impl Fn([u8; N]) -> E) {
    to.extend(bytes.as_chunks().0.iter().map(|&chunk| make(chunk)));
}

fn rounded<F: Float, E: Float>(number: F) -> E {
    E::from_f64(number.to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn runs_are_read_in_order_and_without_what_lies_between() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3 * PIECE + 100).collect();
        for (start, runs, length, step) in
            [(5, 4, 3, 7), (0, 1, bytes.len(), bytes.len()), (9, 3, PIECE + 8, PIECE + 20)]
        {
            let mut read = Vec::new();
            let wanted = Runs { start, runs, length, step };
            let add = |piece: &[u8]| {
                read.extend_from_slice(piece);
                Ok(())
            };
            wanted.for_each(Cursor::new(&bytes), add).unwrap();
            let start = usize::try_from(start).unwrap();
            let expected = (0..runs).flat_map(|i| &bytes[start + i * step..][..length]);
            assert!(read.iter().eq(expected));
        }
    }

    #[test]
    fn bytes_that_are_not_there_are_an_error() {
        let wanted = Runs { start: 6, runs: 1, length: 4, step: 4 };
        assert!(wanted.for_each(Cursor::new([0; 8]), |_| Ok(())).is_err());
    }
}
