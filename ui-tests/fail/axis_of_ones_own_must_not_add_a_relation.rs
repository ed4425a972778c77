use shapeproof::{At, Axis, Batch, C, HasAxis, axis};

axis!(Speaker);

impl HasAxis<Speaker<C<3>>, At<0>> for (Batch<C<2>>,) {
    const AT: usize = 0;
    type Without = ();
    type With<T: Axis> = (T,);
    fn without(self) {}
    fn with<T: Axis>(self, axis: T) -> (T,) {
        (axis,)
    }
    fn axis(self) -> Speaker<C<3>> {
        Speaker(C)
    }
}
fn main() {}
