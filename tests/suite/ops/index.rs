//! Looking up, cutting and joining.

use shapeproof::{
    Batch, C, Embedding, Folded, Heads, Hidden, Infer, Key, Model, Seq, Shape, Tensor, Vocab, axis,
    dyn_size, try_stack,
};

axis!(Beam, Layer);

fn x() -> Tensor<(Batch<C<2>>, Seq<C<3>>), i32> {
    Tensor::from([[0, 1, 2], [3, 4, 5]])
}

#[test]
fn gathering_takes_entries_in_the_order_asked_for() {
    let places = Tensor::<(Beam<C<4>>,), u32>::from([2, 0, 0, 1]);
    let y: Tensor<(Batch<C<2>>, Beam<C<4>>), i32> = x().try_gather(Seq, &places).unwrap();
    assert_eq!(y.to_vec(), [2, 0, 0, 1, 5, 3, 3, 4]);
    let rows = Tensor::<(Beam<C<1>>,), i64>::from([1]);
    assert_eq!(x().try_gather(Batch, &rows).unwrap().to_vec(), [3, 4, 5]);
    let bytes = Tensor::<(Beam<C<1>>,), u8>::from([1]);
    assert_eq!(x().try_gather(Seq, &bytes).unwrap().to_vec(), [1, 4]);
}

#[test]
fn an_index_outside_is_refused_with_its_place() {
    let places = Tensor::<(Beam<C<3>>,), i64>::from([0, -1, 9]);
    let error = x().try_gather(Seq, &places).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "index -1, at [1], is outside of axis Seq of size 3");
    let table = Tensor::<(Vocab<C<2>>, Model<C<1>>)>::from([[1.0], [2.0]]);
    let tokens = Tensor::<(Batch<C<1>>, Seq<C<2>>), u32>::from([[1, 2]]);
    let error = table.try_embed(&tokens).unwrap_err();
    assert_eq!(error.to_string(), "index 2, at [0, 1], is outside of axis Vocab of size 2");
}

#[test]
fn an_embedding_reads_its_padding_row_and_tells_padding_apart() {
    let table = Tensor::<(Vocab<C<3>>, Model<C<2>>)>::from([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]]);
    let embedding: Embedding<_, _> = Embedding::new(table).try_with_padding(0).unwrap();
    let tokens = Tensor::<(Seq<C<3>>,), u8>::from([1, 0, 2]);
    let y = embedding.try_forward(&tokens, &mut Infer).unwrap();
    assert_eq!(y.to_vec(), [1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
    assert_eq!(embedding.keep(&tokens).to_vec(), [true, false, true]);
    let none = Embedding::<Vocab<C<3>>, Model<C<2>>>::zeros();
    assert_eq!(none.keep(&tokens).to_vec(), [true; 3]);
    let error = Embedding::<Vocab<C<3>>, Model<C<2>>>::zeros().try_with_padding(3).err().unwrap();
    assert_eq!(error.to_string(), "padding token 3 of a table of 3 rows");
}

#[test]
fn slices_and_selections_say_what_they_go_past() {
    let middle = x().try_slice(Seq, 1, C::<2>).unwrap();
    assert_eq!((middle.dims(), middle.to_vec()), (&[2, 2][..], vec![1, 2, 4, 5]));
    assert_eq!(x().try_select(Batch, 1).unwrap().to_vec(), [3, 4, 5]);
    assert_eq!(x().try_select(Seq, 2).unwrap().to_vec(), [2, 5]);
    let error = x().try_slice(Seq, 2, C::<2>).unwrap_err();
    assert_eq!(error.to_string(), "2 entries from 2 on go past the end of axis Seq of size 3");
    assert!(x().try_slice(Seq, usize::MAX, C::<2>).unwrap_err().is_index());
    let error = x().try_select(Batch, 2).unwrap_err();
    assert_eq!(error.to_string(), "entry 2 is outside of axis Batch of size 2");
    assert_eq!(x().try_at(&[1, 2]).unwrap(), 5);
    for index in [&[2, 0][..], &[0], &[0, 0, 0], &[]] {
        let error = x().try_at(index).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("expected one number below each of the sizes [2, 3], found {index:?}")
        );
    }
}

#[test]
fn chunks_are_equal_parts_in_order() {
    let x = Tensor::<(Batch<C<1>>, Model<C<6>>), i32>::from([[0, 1, 2, 3, 4, 5]]);
    let [q, k, v] = x.chunk(Model, C::<3>);
    assert_eq!([q.to_vec(), k.to_vec(), v.to_vec()], [[0, 1], [2, 3], [4, 5]]);
    let [whole] = x.chunk(Model, C::<1>);
    assert_eq!(whole, x);
    assert_eq!(x.chunk(Model, C::<6>).map(|one| one.to_vec()[0]), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn joined_axes_add_up_in_types_or_in_numbers() {
    let longer: Tensor<(Batch<C<2>>, Seq<C<6>>), i32> = x().concat(&x(), Seq);
    assert_eq!(longer.to_vec(), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    let deeper: Tensor<(Batch<C<4>>, Seq<C<3>>), i32> = x().concat(&x(), Batch);
    assert_eq!(deeper.to_vec(), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    dyn_size!(past = 1, new = 2);
    let a = Tensor::<_, u8>::zeros_in((Seq(past), Model(C::<1>)));
    let b = Tensor::<_, u8>::full_in((Seq(new), Model(C::<1>)), 1);
    let both = a.concat(&b, Seq);
    assert_eq!((both.dims(), both.to_vec()), (&[3, 1][..], vec![0, 1, 1]));
    let again = both.concat(&a, Seq);
    assert_eq!(again.dims(), [4, 1]);
}

#[test]
fn stacked_tensors_get_a_new_first_axis() {
    let both: Tensor<(Layer<C<2>>, Batch<C<2>>, Seq<C<3>>), i32> =
        try_stack([&x(), &x()], Layer).unwrap();
    assert_eq!(both.dims(), [2, 2, 3]);
    assert_eq!(both.try_select(Layer, 1).unwrap(), x());
    let error = try_stack::<(Key<C<1>>,), i32, Layer<C<0>>, 0>([], Layer).unwrap_err();
    assert_eq!(error.to_string(), "no tensors to stack");
}

#[test]
fn products_contract_the_named_axis_wherever_it_stands() {
    let x = Tensor::<(Batch<C<2>>, Model<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    let w = Tensor::<(Model<C<2>>, Hidden<C<2>>)>::from([[5.0, 6.0], [7.0, 8.0]]);
    let want = [19.0, 22.0, 43.0, 50.0];
    assert_eq!(x.dot(&w, Model).to_vec(), want);
    assert_eq!(x.matmul(&w).to_vec(), want);
    assert_eq!(x.dot(&w.transpose(Model, Hidden), Model).to_vec(), want);
    assert_eq!(x.transpose(Batch, Model).dot(&w, Model).to_vec(), want);
    let v = Tensor::<(Model<C<2>>,)>::from([1.0, -1.0]);
    assert_eq!(x.dot(&v, Model).to_vec(), [-1.0, -1.0]);
    assert_eq!(v.dot(&v, Model).value(), 2.0);
    // Two axes are shared and one is in the middle.
    type Rows = (Batch<C<2>>, Model<C<2>>, Seq<C<3>>);
    let rows = Tensor::<Rows>::from_fn(|at| {
        f32::from(u8::try_from(at[0] * 6 + at[1] * 3 + at[2]).unwrap())
    });
    let product: Tensor<(Batch<C<2>>, Seq<C<3>>, Hidden<C<2>>)> = rows.dot(&w, Model);
    assert_eq!(product.try_at(&[1, 2, 0]).unwrap(), 8.0 * 5.0 + 11.0 * 7.0);
    assert_eq!(product.shape().try_count().unwrap(), 12);
}

#[test]
fn assigning_writes_one_entry_and_leaves_clones_and_views_alone() {
    let mut y = x();
    let (clone, column) = (y.clone(), y.try_select(Seq, 1).unwrap());
    y.try_assign(Seq, 1, &Tensor::from([8, 9])).unwrap();
    assert_eq!(y.to_vec(), [0, 8, 2, 3, 9, 5]);
    assert_eq!((clone, column.to_vec()), (x(), vec![1, 4]));
    y.try_assign(Batch, 0, &Tensor::from([6, 6, 6])).unwrap();
    assert_eq!(y.to_vec(), [6, 6, 6, 3, 9, 5]);
    let mut turned: Tensor<(Seq<C<3>>, Batch<C<2>>), i32> = x().permute();
    turned.try_assign(Seq, 2, &Tensor::from([7, 8])).unwrap();
    assert_eq!(turned.to_vec(), [0, 3, 1, 4, 7, 8]);
}

#[test]
fn assigning_writes_in_place_where_nothing_shares_the_elements() {
    let mut y = x();
    let place = y.as_slice().unwrap().as_ptr();
    y.try_assign(Batch, 1, &Tensor::from([7, 8, 9])).unwrap();
    assert_eq!(y.as_slice().unwrap().as_ptr(), place);
    let row = y.try_select(Batch, 1).unwrap();
    y.try_assign(Batch, 0, &row).unwrap();
    assert_eq!(y.to_vec(), [7, 8, 9, 7, 8, 9]);
    assert_ne!(y.as_slice().unwrap().as_ptr(), place);
}

#[test]
fn assigning_outside_of_an_axis_is_refused_and_writes_nothing() {
    let mut y = x();
    let error = y.try_assign(Seq, 3, &Tensor::from([8, 9])).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "entry 3 is outside of axis Seq of size 3");
    assert_eq!(y, x());
    let mut none = Tensor::<(Batch<C<0>>, Seq<C<3>>), i32>::zeros();
    none.try_assign(Seq, 0, &Tensor::zeros()).unwrap();
    assert!(none.try_assign(Batch, 0, &Tensor::zeros()).unwrap_err().is_index());
}

/// As PyTorch folds them in a mask over (batch · heads, L, S).
#[test]
fn the_first_of_two_folded_axes_is_the_outer_one() {
    let folded = Folded::try_new(Batch(C::<2>), Heads(C::<3>)).unwrap();
    let mask = Tensor::try_from_vec((folded, Key(C::<1>)), vec![0, 1, 2, 10, 11, 12]).unwrap();
    let by_name = mask.unfold(Batch, Heads);
    assert_eq!(by_name.try_at(&[1, 2, 0]).unwrap(), 12);
    assert_eq!(by_name.try_at(&[0, 2, 0]).unwrap(), 2);
    assert_eq!(by_name.fold(Batch, Heads).to_vec(), mask.to_vec());
}
