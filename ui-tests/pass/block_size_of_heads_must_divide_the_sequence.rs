use shapeproof::{C, HeadBlockMask, Heads, Key, Query};

fn main() {
    let (heads, query, key) = (Heads(C::<2>), Query(C::<100>), Key(C::<192>));
    HeadBlockMask::from_fn::<C<4>>(heads, query, key, |_, query, key| key <= query);
}
