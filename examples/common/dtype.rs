//! The option `--dtype`: the elements that an example computes with.

/// What `--dtype` can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dtype {
    #[default]
    F32,
    F16,
    Bf16,
}

impl Dtype {
    /// Reads the option's value. The `Err` is one line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Dtype::F32),
            "f16" => Ok(Dtype::F16),
            "bf16" => Ok(Dtype::Bf16),
            _ => Err(format!("--dtype is `{text}`, expected f32, f16 or bf16")),
        }
    }
}

/// An expression with the type `$E` that a [`Dtype`] names.
macro_rules! with_dtype {
    ($dtype:expr, $E:ident => $result:expr) => {
        match $dtype {
            $crate::dtype::Dtype::F32 => {
                type $E = f32;
                $result
            }
            $crate::dtype::Dtype::F16 => {
                type $E = shapeproof::f16;
                $result
            }
            $crate::dtype::Dtype::Bf16 => {
                type $E = shapeproof::bf16;
                $result
            }
        }
    };
}
pub(crate) use with_dtype;
