//! From attention weights to the atom mapping.

use std::fmt;

use super::smiles::Reaction;

/// Where one atom of the product comes from. Positions count tokens, `[CLS]` being 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MappedAtom {
    pub(crate) product: usize,
    pub(crate) product_atom: String,
    /// `None` where no reactant has an atom of this element.
    pub(crate) source: Option<Source>,
}

/// An atom of the reactants, and the attention that the product's atom pays to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) reactant: usize,
    pub(crate) reactant_atom: String,
    pub(crate) weight: f32,
}

/// For each product atom, the reactant atom of the same element with the largest
/// attention weight, the first of equals.
///
/// `attention` has a row for each token as query and a column for each as key.
pub(crate) fn map_atoms(reaction: &Reaction, attention: &[f32]) -> Vec<MappedAtom> {
    let length = reaction.tokens.len();
    assert_eq!(attention.len(), length * length, "attention weights of {length} tokens");
    let is_atom = |at: &usize| reaction.elements[*at].is_some();
    let map = |product: usize| {
        let row = &attention[product * length..][..length];
        let same = |at: &usize| reaction.elements[*at] == reaction.elements[product];
        let mut strongest: Option<usize> = None;
        for at in (0..reaction.arrow).filter(same) {
            if strongest.is_none_or(|best| row[at] > row[best]) {
                strongest = Some(at);
            }
        }
        MappedAtom {
            product,
            product_atom: reaction.tokens[product].clone(),
            source: strongest.map(|reactant| Source {
                reactant,
                reactant_atom: reaction.tokens[reactant].clone(),
                weight: row[reactant],
            }),
        }
    };
    (reaction.arrow + 1..length).filter(is_atom).map(map).collect()
}

/// `PRODUCT_TOKEN_POSITION ATOM <- REACTANT_TOKEN_POSITION ATOM WEIGHT`, with dashes
/// where there is no source.
impl fmt::Display for MappedAtom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} <- ", self.product, self.product_atom)?;
        match &self.source {
            Some(it) => write!(f, "{} {} {:.6}", it.reactant, it.reactant_atom, it.weight),
            None => write!(f, "- - -"),
        }
    }
}
