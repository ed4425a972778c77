//! A weight's order in the file is said by the caller; a square one in the other order loads.

use super::{Folder, assert_says, in_out, out_in, refusal, tensor};
use shapeproof::{
    Batch, C, Embedding, Hidden, Infer, Linear, Model, NoBias, Source, Tensor, Vocab, WeightLayout,
    save_tensors,
};

type Square = Linear<Model<C<2>>, Model<C<2>>, NoBias>;
type Wide = Linear<Model<C<4>>, Hidden<C<6>>, NoBias>;

#[test]
fn a_square_weight_gives_the_numbers_of_the_declared_order() {
    let folder = Folder::new();
    let path = folder.path("square");
    save_tensors(&path, [("weight", tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))]).unwrap();
    let x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[1.0, 0.0]]);
    let mut map = Square::zeros();
    in_out().load(&mut map, &path).unwrap();
    assert_eq!(map.forward(&x, &mut Infer).to_vec(), [1.0, 2.0]);
    out_in().load(&mut map, &path).unwrap();
    assert_eq!(map.forward(&x, &mut Infer).to_vec(), [1.0, 3.0]);
}

#[test]
fn a_weight_that_is_not_square_gives_the_same_numbers_from_either_order() {
    let folder = Folder::new();
    let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
    let turned: Vec<f32> = (0..24).map(|i| numbers[i % 4 * 6 + i / 4]).collect();
    let (wide, tall) = (folder.path("4x6"), folder.path("6x4"));
    save_tensors(&wide, [("weight", tensor(&[4, 6], &numbers))]).unwrap();
    save_tensors(&tall, [("weight", tensor(&[6, 4], &turned))]).unwrap();
    let x = Tensor::<(Batch<C<1>>, Model<C<4>>)>::from([[1.0, 10.0, 100.0, 1000.0]]);
    for (checkpoint, path) in [(in_out(), &wide), (out_in(), &tall)] {
        let mut map = Wide::zeros();
        checkpoint.load(&mut map, path).unwrap();
        let y = map.forward(&x, &mut Infer).to_vec();
        assert_eq!(y, [19260.0, 20371.0, 21482.0, 22593.0, 23704.0, 24815.0]);
        assert_eq!(map.weight.value().to_vec(), numbers);
    }
}

#[test]
fn the_wrong_order_is_named_with_both_shapes() {
    let folder = Folder::new();
    let path = folder.path("wide");
    save_tensors(&path, [("weight", tensor(&[4, 6], &[0.5; 24]))]).unwrap();
    let message = refusal(&out_in(), &mut Wide::zeros(), &path);
    assert_eq!(
        message,
        "key \"weight\": expected sizes [6, 4] for (Model 4, Hidden 6) as [out, in], found [4, 6]; transposed? \
         its layout may be the other one (for parameter \"weight\")"
    );
    save_tensors(&path, [("weight", tensor(&[6, 5], &[0.5; 30]))]).unwrap();
    let message = refusal(&out_in(), &mut Wide::zeros(), &path);
    assert_says(&message, &["expected sizes [6, 4]", "found [6, 5]"]);
    assert!(!message.contains("transposed"));
}

#[test]
fn a_table_in_the_other_order_is_asked_about_without_blaming_the_layout() {
    let folder = Folder::new();
    let path = folder.path("table");
    save_tensors(&path, [("weight", tensor(&[4, 6], &[0.5; 24]))]).unwrap();
    let mut table = Embedding::<Vocab<C<6>>, Model<C<4>>>::zeros();
    for checkpoint in [in_out(), out_in()] {
        let message = refusal(&checkpoint, &mut table, &path);
        assert_says(&message, &["expected sizes [6, 4]", "found [4, 6]; transposed? (for"]);
        assert!(!message.contains("layout"));
    }
}

#[test]
fn a_key_may_have_an_order_of_its_own() {
    let rule = |name: &str| match name {
        "weight" => Source::key("conv1d.weight").layout(WeightLayout::InOut),
        other => Source::key(other),
    };
    let folder = Folder::new();
    let mut map = Wide::zeros();
    super::fill(&mut map, 1);
    out_in().sources(rule).save(&map, folder.path("own")).unwrap();
    let mut other = Wide::zeros();
    let whole = in_out().sources(|_| Source::key("conv1d.weight"));
    whole.load(&mut other, folder.path("own")).unwrap();
    assert_eq!(super::bits(&map), super::bits(&other));
    let mut third = Wide::zeros();
    out_in().sources(rule).load(&mut third, folder.path("own")).unwrap();
    assert_eq!(super::bits(&map), super::bits(&third));
}
