//! Tables of vectors.

use super::{AnyParameter, Mode, Module, Packing, Parameter};
use crate::axis::Axis;
use crate::element::{Float, Index};
use crate::error::{Error, Result};
use crate::parameters;
use crate::shape::{Appends, EndsWith, FixedSizes, Shape};
use crate::tensor::{AnyTensor, Generator, Tensor};

/// A vector for each entry of a vocabulary: row t of the table for token t.
///
/// # Shapes
/// Tokens over `(Batch, Seq)` and a table over `(V, M)` give `(Batch, Seq, M)`.
///
/// # Errors
/// `try_forward` fails where a token lies outside of the table.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Embedding, Infer, Model, Seq, Tensor, Vocab, C};
///
/// let table = Tensor::<(Vocab<C<3>>, Model<C<2>>)>::from([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]);
/// let embedding: Embedding<_, _> = Embedding::new(table);
/// let tokens = Tensor::<(Batch<C<1>>, Seq<C<2>>), u32>::from([[2, 1]]);
/// assert_eq!(embedding.try_forward(&tokens, &mut Infer)?.to_vec(), [3.0, 4.0, 1.0, 2.0]);
///
/// let tokens = Tensor::<(Batch<C<1>>, Seq<C<2>>), u32>::from([[2, 3]]);
/// assert!(embedding.try_forward(&tokens, &mut Infer).unwrap_err().is_index());
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub struct Embedding<V, M, E = f32> {
    /// The table.
    pub weight: Parameter<(V, M), E>,
    padding: Option<usize>,
    /// Of the transposed table, for `unembed`.
    packing: Packing<E>,
}

impl<V: Axis, M: Axis, E: Float> Embedding<V, M, E> {
    /// An embedding with this table.
    pub fn new(table: Tensor<(V, M), E>) -> Self {
        Embedding { weight: Parameter::new(table), padding: None, packing: Packing::default() }
    }

    /// An embedding of zeros, to be loaded.
    pub fn zeros() -> Self
    where
        (V, M): FixedSizes,
    {
        Self::new(Tensor::zeros())
    }

    /// Vectors drawn from the normal distribution of mean 0 and this standard deviation.
    pub fn normal(deviation: f64, generator: &mut Generator) -> Self
    where
        (V, M): FixedSizes,
    {
        Self::new(Tensor::normal(0.0, deviation, generator))
    }

    /// With a token that stands for no token: its vector is set to 0 and learns nothing, and
    /// [`keep`](Self::keep) tells it from the others. A table that is loaded later brings its own.
    ///
    /// What [`unembed`](Self::unembed) makes of the vector does reach it.
    ///
    /// # Errors
    /// Where the token lies outside of the table.
    pub fn try_with_padding(mut self, token: usize) -> Result<Self> {
        let table = self.weight.value();
        let [rows, width] = *table.dims() else { unreachable!("a table has two axes") };
        if token >= rows {
            return Err(Error::index(format!("padding token {token} of a table of {rows} rows")));
        }
        let mut data = table.to_vec();
        data[token * width..(token + 1) * width].fill(E::default());
        self.weight.set(Tensor::try_from_vec(table.shape(), data)?);
        self.padding = Some(token);
        Ok(self)
    }

    /// Which tokens are tokens: `false` for padding.
    pub fn keep<S: Shape, T: Index>(&self, tokens: &Tensor<S, T>) -> Tensor<S, bool> {
        let padding = self.padding;
        tokens.map(move |token| padding.is_none() || token.to_index() != padding)
    }

    /// The vector of each token.
    ///
    /// # Errors
    /// Where a token lies outside of the table: the first such token and its place.
    pub fn try_forward<S: Shape, T: Index>(
        &self,
        tokens: &Tensor<S, T>,
        mode: &mut impl Mode,
    ) -> Result<Tensor<S::Output, E>>
    where
        S: Appends<(M,)>,
    {
        let vectors = mode.read(&self.weight).try_embed_with_padding(tokens, self.padding)?;
        mode.note(self.weight.id(), vectors.any());
        Ok(vectors)
    }

    /// x · tableᵀ: how much each token's vector is like x, the logits of a model whose output head is its
    /// embedding ("tied"). The table is a parameter of one name, listed, counted and saved once.
    ///
    /// # Shapes
    /// `x` ends with `M`, which becomes `V`.
    ///
    /// # Numerics
    /// The transposed table is packed for the product at first use and again when it has changed; the
    /// packed copy takes as much memory as the table.
    ///
    /// # Compile errors
    /// `unembedded_width_must_be_that_of_the_table`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Embedding, Infer, Model, Tensor, Vocab, C, count_parameters};
    ///
    /// let table = Tensor::<(Vocab<C<3>>, Model<C<2>>)>::from([[0.0, 1.0], [1.0, 2.0], [3.0, 4.0]]);
    /// let embedding: Embedding<_, _> = Embedding::new(table);
    /// let x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[10.0, 1.0]]);
    /// assert_eq!(embedding.unembed(&x, &mut Infer).to_vec(), [1.0, 12.0, 34.0]);
    /// assert_eq!(count_parameters(&embedding), 6);
    /// ```
    ///
    /// # References
    /// Press and Wolf, "Using the Output Embedding to Improve Language Models", 2017.
    pub fn unembed<S: EndsWith<(M,)>>(
        &self,
        x: &Tensor<S, E>,
        mode: &mut impl Mode,
    ) -> Tensor<S::WithTail<V>, E> {
        let shape = x.shape().with_tail(self.weight.shape().0);
        let table = mode.read(&self.weight);
        let logits = unembedded(x.any(), table.any(), &self.packing);
        mode.note_step(self.weight.id(), "unembed", &logits);
        Tensor::typed(shape, logits)
    }
}

/// x · tableᵀ. Knows no shape, so that it is compiled once for all.
fn unembedded<E: Float>(
    x: &AnyTensor<E>,
    table: &AnyTensor<E>,
    packing: &Packing<E>,
) -> AnyTensor<E> {
    let transposed = table.viewed(table.layout().transposed());
    packing.apply(x, &[(&transposed, None)])
}

#[diagnostic::do_not_recommend]
impl<V: Axis, M: Axis, E: Float> Module for Embedding<V, M, E> {
    parameters!(weight);
}
