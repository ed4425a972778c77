//! From run-time sizes to types and back; from one element type to another.

use shapeproof::{
    AnyTensor, Axis, Batch, C, Flat, FloatTensor, Heads, Key, Model, Query, Seq, Shape, Size,
    Tensor, axis, dyn_size,
};

#[test]
fn sizes_are_checked_once_and_both_shapes_are_named() {
    let read = AnyTensor::try_from_vec(&[2, 3], vec![1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!((read.dims(), read.rank(), read.count()), (&[2, 3][..], 2, 6));
    let x: Tensor<(Batch<C<2>>, Model<C<3>>), i32> = read.try_typed(Default::default()).unwrap();
    assert_eq!(x.erase(), read);
    let error = read.try_typed((Batch(C::<3>), Model(C::<2>))).unwrap_err();
    assert!(error.is_shape());
    assert_eq!(error.to_string(), "expected shape (Batch 3, Model 2), found sizes [2, 3]");
    let error = read.try_typed((Model(C::<6>),)).unwrap_err();
    assert_eq!(error.to_string(), "expected shape (Model 6), found sizes [2, 3]");
    assert_eq!(
        read.try_typed(()).unwrap_err().to_string(),
        "expected shape (), found sizes [2, 3]"
    );
}

#[test]
fn other_sizes_for_the_same_axes_are_checked_with_their_names() {
    dyn_size!(batch = 2, other = 3);
    let x = Tensor::<_, f32>::ones_in((Batch(batch), Model(C::<3>)));
    let fixed: Tensor<(Batch<C<2>>, Model<C<3>>)> = x.try_with_sizes(Default::default()).unwrap();
    assert_eq!(fixed.try_with_sizes((Batch(batch), Model(other))).unwrap().dims(), [2, 3]);
    let error = x.try_with_sizes((Batch(C::<5>), Model(C::<3>))).unwrap_err();
    assert_eq!(error.to_string(), "expected shape (Batch 5, Model 3), found (Batch 2, Model 3)");
    let error = x.try_with_sizes((Seq(C::<2>), Model(C::<3>))).unwrap_err();
    assert_eq!(error.to_string(), "expected shape (Seq 2, Model 3), found (Batch 2, Model 3)");
}

#[test]
fn reshaping_checks_the_count() {
    dyn_size!(n = 6, m = 4);
    let x = Tensor::<(Query<C<2>>, Key<C<3>>), i32>::from([[1, 2, 3], [4, 5, 6]]);
    assert_eq!(x.try_reshape((Flat(n),)).unwrap().to_vec(), [1, 2, 3, 4, 5, 6]);
    let error = x.try_reshape((Flat(m),)).unwrap_err();
    assert_eq!(error.to_string(), "sizes [2, 3] cannot become [4]: the counts differ");
    let large = usize::MAX / 2;
    dyn_size!(large = large);
    assert!(x.try_reshape((Batch(large), Seq(large))).unwrap_err().is_shape());
}

#[test]
fn an_erased_tensor_has_at_most_six_axes() {
    let error = AnyTensor::try_from_vec(&[1; 7], vec![0.0]).unwrap_err();
    assert_eq!(error.to_string(), "7 axes, a tensor has at most 6");
    let error = AnyTensor::try_from_vec(&[2, 2], vec![0.0]).unwrap_err();
    assert_eq!(error.to_string(), "shape [2, 2] needs 4 elements, found 1");
    assert_eq!(AnyTensor::try_from_vec(&[1; 6], vec![0.0]).unwrap().rank(), 6);
    assert!(AnyTensor::try_from_vec(&[usize::MAX, 2], vec![0.0]).unwrap_err().is_overflow());
    assert!(
        AnyTensor::try_from_vec(&[usize::MAX, 2, 0], Vec::<f32>::new()).unwrap_err().is_overflow()
    );
}

#[test]
fn element_types_convert_with_rounding() {
    let x = Tensor::<(Key<C<2>>,), f64>::from([0.1, 1e300]);
    assert_eq!(x.to::<f32>().to_vec(), [0.1f32, f32::INFINITY]);
    assert_eq!(x.to::<f64>(), x);
    assert_eq!(x.map(|x| x > 1.0).to_vec(), [false, true]);
    assert_eq!(x.map(|x| if x > 1.0 { 7u32 } else { 0 }).to_vec(), [0, 7]);
    let float = FloatTensor::new(x.erase());
    assert_eq!((float.dims(), float.element()), (&[2][..], "f64"));
    assert_eq!(float.to::<f32>().to_vec(), [0.1f32, f32::INFINITY]);
    assert_eq!(float.to::<f64>(), x.erase());
    assert!(matches!(FloatTensor::new(x.to::<f32>().erase()), FloatTensor::F32(_)));
}

#[test]
fn clones_and_views_share_and_packed_copies_only_where_it_must() {
    let x = Tensor::<(Query<C<2>>, Key<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    let address = |x: &Tensor<_, f32>| x.as_slice().map(<[f32]>::as_ptr);
    assert_eq!(address(&x.clone()), address(&x));
    assert_eq!(address(&x.packed()), address(&x));
    let turned = x.transpose(Query, Key);
    assert!(turned.as_slice().is_none() && turned.packed().as_slice().is_some());
    assert_eq!(turned.transpose(Query, Key).as_slice(), x.as_slice());
    // Axes of one do not make a view strided.
    let one = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<3>>), u8>::from([[[1, 2, 3]]]);
    assert_eq!(one.transpose(Batch, Key).as_slice(), Some(&[1, 2, 3][..]));
}

axis!(
    /// One's own axis, with a documentation of its own.
    Speaker,
    Frame
);

#[test]
fn axes_of_ones_own_behave_as_the_crates() {
    assert_eq!(<Speaker<C<2>> as Axis>::NAME, "Speaker");
    assert_eq!(<(Speaker<C<2>>, Frame<C<3>>) as Shape>::NAMES, ["Speaker", "Frame"]);
    let x = Tensor::<(Speaker<C<2>>, Frame<C<3>>)>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert_eq!(x.mean(Frame).to_vec(), [2.0, 5.0]);
    assert_eq!(
        x.transpose(Speaker, Frame).to_string().lines().next(),
        Some("(Frame 3, Speaker 2) f32")
    );
    assert_eq!(x.rename(Speaker, Batch).shape(), (Batch(C::<2>), Frame(C::<3>)));
    assert_eq!(Speaker(C::<2>).size().get(), 2);
}

#[test]
fn a_size_that_was_read_prints_and_compares_as_its_number() {
    dyn_size!(batch = 3, length = 4);
    assert_eq!((batch.get(), format!("{batch:?}")), (3, "3".to_owned()));
    assert_eq!(format!("{:?}", (Batch(batch), Seq(length))), "(Batch(3), Seq(4))");
    let sum =
        Tensor::<_, u8>::zeros_in((Seq(batch),)).concat(&Tensor::zeros_in((Seq(length),)), Seq);
    assert_eq!(format!("{:?}", sum.shape()), "(Seq(3+4),)");
    let folded = Tensor::<_, u8>::zeros_in((Batch(batch), Seq(length))).fold(Batch, Seq);
    assert_eq!(folded.shape().0.size().get(), 12);
    assert_eq!(format!("{:?}", folded.shape().0.size()), "3*4");
    assert_eq!(folded.shape().0.parts(), (Batch(batch), Seq(length)));
}

#[test]
fn folded_sizes_that_overflow_are_an_error() {
    use shapeproof::Folded;
    dyn_size!(large = usize::MAX, two = 2);
    let error = Folded::try_new(Batch(large), Heads(two)).unwrap_err();
    assert!(error.is_overflow());
    assert_eq!(error.to_string(), format!("the size {} * 2 exceeds usize::MAX", usize::MAX));
}
