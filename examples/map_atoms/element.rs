//! Which tokens are atoms, and of which element.

/// The elements by atomic number.
const ELEMENTS: &str = "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co \
    Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce \
    Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac \
    Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og";

/// Those that SMILES writes in small letters where they are aromatic.
const AROMATIC: &str = "b c n o p s as se si te";

/// The element of an atom token in small letters, so that aromatic and aliphatic
/// atoms compare equal; `None` where the token is no atom.
///
/// Brackets, isotope, chirality, hydrogens, charge and class are left out:
/// `[13C@@H]`, `[cH-]` and `C` are all `c`.
pub(crate) fn element(token: &str) -> Option<String> {
    let Some(inner) = token.strip_prefix('[') else {
        // Outside brackets the pattern knows a few elements only, each a whole token.
        return symbol_at_start(token).filter(|symbol| symbol.len() == token.len()).map(lower);
    };
    let inner = inner.strip_suffix(']')?.trim_start_matches(|it: char| it.is_ascii_digit());
    let symbol = symbol_at_start(inner)?;
    let rest = &inner[symbol.len()..];
    let decoration = |it: char| it.is_ascii_digit() || "@H+-:".contains(it);
    // `@TH1`, `@AL2`, `@SP3`, `@TB4`, `@OH5` are the long names of chirality.
    let chirality = |it: char| rest.starts_with('@') && "TALSPBO".contains(it);
    rest.chars().all(|it| decoration(it) || chirality(it)).then(|| lower(symbol))
}

/// The longest element symbol that the text starts with.
fn symbol_at_start(text: &str) -> Option<&str> {
    let known = |symbol: &&str| {
        let mut names = ELEMENTS.split_ascii_whitespace().chain(AROMATIC.split(' '));
        names.any(|name| name == *symbol)
    };
    [2, 1].into_iter().filter_map(|length| text.get(..length)).find(known)
}

fn lower(symbol: &str) -> String {
    symbol.to_ascii_lowercase()
}
