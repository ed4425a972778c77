use shapeproof::Size;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Two;
impl Size for Two {
    fn get(self) -> usize {
        2
    }
}
fn main() {}
