//! The few failures that are left to run time.

use std::fmt::{self, Debug, Display, Formatter};

/// What the compiler could not rule out: data of the wrong length, a file that is not what it
/// claims, a size read at run time that does not fit.
///
/// The message says what was expected and what was found. The kind of failure is asked for with
/// the `is_…` methods.
///
/// ```
/// use shapeproof::{Batch, Tensor, C};
///
/// let error = Tensor::try_from_vec((Batch(C::<3>),), vec![1.0, 2.0]).unwrap_err();
/// assert!(error.is_shape());
/// assert_eq!(error.to_string(), "shape [3] needs 3 elements, found 2");
/// ```
pub struct Error(Box<Kind>);

enum Kind {
    Shape(String),
    Index(String),
    Overflow(String),
    Unlisted(String),
    Value(String),
    #[cfg_attr(not(feature = "files"), expect(dead_code, reason = "nothing reads or writes files"))]
    File(String),
}

/// The result of what can fail at run time.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A shape, length or size does not fit.
    pub fn is_shape(&self) -> bool {
        matches!(*self.0, Kind::Shape(_))
    }

    /// An index, token or range lies outside its axis.
    pub fn is_index(&self) -> bool {
        matches!(*self.0, Kind::Index(_))
    }

    /// Sizes multiply or add up to more than the machine can count.
    pub fn is_overflow(&self) -> bool {
        matches!(*self.0, Kind::Overflow(_))
    }

    /// Sizes read at run time are none of those that [`dispatch!`](crate::dispatch) lists.
    pub fn is_unlisted(&self) -> bool {
        matches!(*self.0, Kind::Unlisted(_))
    }

    /// A setting lies outside of what it can be, such as a probability above 1.
    pub fn is_value(&self) -> bool {
        matches!(*self.0, Kind::Value(_))
    }

    /// A file cannot be read or written, is not what it claims, or does not fit the model.
    pub fn is_file(&self) -> bool {
        matches!(*self.0, Kind::File(_))
    }

    pub(crate) fn shape(message: impl Into<String>) -> Self {
        Error(Box::new(Kind::Shape(message.into())))
    }

    pub(crate) fn index(message: impl Into<String>) -> Self {
        Error(Box::new(Kind::Index(message.into())))
    }

    pub(crate) fn value(message: impl Into<String>) -> Self {
        Error(Box::new(Kind::Value(message.into())))
    }

    #[cfg(feature = "files")]
    pub(crate) fn file(path: &std::path::Path, message: impl Display) -> Self {
        let (path, message) = (path.display().to_string(), message.to_string());
        let message = match message.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message,
        };
        Error(Box::new(Kind::File(format!("{}: {}", in_one_line(&path), in_one_line(&message)))))
    }

    /// The same failure, with the parameter that it is about.
    #[cfg(feature = "files")]
    pub(crate) fn for_parameter(self, name: &str) -> Self {
        Error(Box::new(Kind::File(format!("{self} (for parameter {name:?})"))))
    }

    pub(crate) fn count_overflow(dims: &[usize]) -> Self {
        Error(Box::new(Kind::Overflow(format!(
            "the sizes {dims:?} multiply to more than isize::MAX elements"
        ))))
    }

    pub(crate) fn size_overflow(operator: &str, a: &dyn Debug, b: &dyn Debug) -> Self {
        Error(Box::new(Kind::Overflow(format!(
            "the size {a:?} {operator} {b:?} exceeds usize::MAX"
        ))))
    }

    /// Called by [`dispatch!`](crate::dispatch).
    #[doc(hidden)]
    pub fn unlisted(names: &str, asked: &dyn Debug, listed: &dyn Debug) -> Self {
        Error(Box::new(Kind::Unlisted(format!(
            "{names} = {asked:?} is not among the compiled sizes {listed:?}; to have it, add it \
             to the list of this `dispatch!`"
        ))))
    }
}

/// Characters of a message about a file, which may have come from the file.
#[cfg(feature = "files")]
const LONGEST: usize = 1500;

/// The text with its control characters, such as ends of lines, as escapes.
#[cfg(feature = "files")]
fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Shape(message)
            | Kind::Index(message)
            | Kind::Overflow(message)
            | Kind::Unlisted(message)
            | Kind::Value(message)
            | Kind::File(message) => f.write_str(message),
        }
    }
}

/// The message, so that a `main` that returns the error prints it plainly.
impl Debug for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
