use shapeproof::{BroadcastsTo, C, Dims, Marker, Model};

struct Mine;
impl Mine {
    fn fits<How: Marker>(&self, narrow: impl BroadcastsTo<(Model<C<8>>,), How>) -> Dims {
        narrow.dims()
    }
}
fn main() {
    assert_eq!(*Mine.fits((Model(C::<8>),)), [8]);
}
