//! The arguments of `map_atoms`.

use std::{ffi::OsString, path::PathBuf};

use crate::dtype::Dtype;

pub(crate) const HELP: &str = "\
Maps each atom of a reaction's product to the reactant atom it comes from.

Usage: map_atoms [options] ['REACTANTS>>PRODUCT' …]

Arguments:
  'REACTANTS>>PRODUCT'  reactions as SMILES; without any, an example is mapped

Options:
  --plot FILE.svg  draw the attention weights as a heat map; with several
                   reactions FILE-1.svg, FILE-2.svg, …
  --dtype TYPE     compute in f32 (unless given), f16 or bf16
  -h, --help       print this help

Prints one line an atom of the product, positions counting tokens from [CLS] = 0:
  PRODUCT_TOKEN_POSITION ATOM <- REACTANT_TOKEN_POSITION ATOM WEIGHT
with dashes where no reactant has an atom of that element. With several reactions
a line `# REACTION` comes before each one's atoms.

Exit code 2: an argument is wrong, or a text is no reaction; 1: anything else failed.
";

/// What is mapped when no reaction is given: an acid is freed from its tert-butyl
/// ester. The solvent, the acid and the butyl group leave no atom in the product.
pub(crate) const EXAMPLE: &str =
    "C1COCCO1.CC(C)(C)OC(=O)CONC(=O)NCc1cccc2ccccc12.Cl>>O=C(O)CONC(=O)NCc1cccc2ccccc12";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Map { reactions: Vec<String>, plot: Option<PathBuf>, dtype: Dtype },
}

/// Reads the arguments after the program's name. The `Err` is one line.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (mut reactions, mut plot, mut only_reactions) = (Vec::new(), None, false);
    let mut dtype = Dtype::default();
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str().map(str::to_owned) else {
            return Err(format!("argument {arg:?} is not UTF-8"));
        };
        match text.as_str() {
            _ if only_reactions || !text.starts_with('-') => reactions.push(text),
            "--" => only_reactions = true,
            "-h" | "--help" => return Ok(Command::Help),
            "--plot" => plot = Some(file(args.next())?),
            "--dtype" => {
                let name = args.next().unwrap_or_default();
                dtype = Dtype::parse(&name.to_string_lossy())?;
            }
            _ => match text.split_once('=') {
                Some(("--plot", name)) => plot = Some(file(Some(name.into()))?),
                Some(("--dtype", name)) => dtype = Dtype::parse(name)?,
                _ => return Err(format!("unknown option `{text}` (see --help)")),
            },
        }
    }
    if reactions.is_empty() {
        reactions.push(EXAMPLE.to_owned());
    }
    Ok(Command::Map { reactions, plot, dtype })
}

fn file(name: Option<OsString>) -> Result<PathBuf, String> {
    name.filter(|name| !name.is_empty() && !name.as_encoded_bytes().starts_with(b"-"))
        .map(PathBuf::from)
        .ok_or_else(|| "--plot needs a file name".into())
}
