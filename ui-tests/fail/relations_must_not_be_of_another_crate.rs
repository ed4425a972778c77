use shapeproof::{BroadcastsTo, C, Dims, Model};

struct Mine;
impl BroadcastsTo<(Model<C<8>>,), Mine> for (Model<C<7>>,) {
    fn positions() -> Dims {
        Dims::default()
    }
}
fn main() {
    let _mine: (Mine, Dims) = (Mine, Dims::default());
}
