//! What the features add: arrays of `ndarray`, and configurations by `serde`.

#[cfg(feature = "ndarray")]
mod ndarray {
    use ndarray::{Array, ArrayD, IxDyn, array, s};
    use shapeproof::{AnyTensor, Batch, C, Model, Seq, Tensor};

    #[test]
    fn an_array_comes_and_goes_without_a_copy() {
        let array = Array::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 100 + j * 10 + k) as f64);
        let (address, copy) = (array.as_ptr(), array.clone());
        let x = AnyTensor::try_from_ndarray(array).unwrap();
        assert_eq!(x.as_slice().unwrap().as_ptr(), address);
        assert_eq!(x.as_ndarray(), copy.view().into_dyn());
        assert_eq!(x.as_ndarray().as_ptr(), address);
    }

    #[test]
    fn every_order_of_axes_keeps_its_elements_and_its_memory() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for sizes in [(2, 3, 4), (1, 1, 5), (3, 3, 3)] {
                let of = |(i, j, k)| i * 100 + j * 10 + k;
                let array = Array::from_shape_fn(sizes, of).permuted_axes(order);
                let (copy, address) = (array.clone().into_dyn(), array.as_ptr());
                let x = AnyTensor::try_from_ndarray(array).unwrap();
                assert_eq!(x.to_vec(), copy.iter().copied().collect::<Vec<_>>());
                assert_eq!(x.as_ndarray(), copy.view());
                assert_eq!(x.as_ndarray().as_ptr(), address);
            }
        }
    }

    #[test]
    fn slices_and_reversed_arrays_keep_their_elements() {
        let mut cut = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
        cut.slice_collapse(s![1.., ..;2]);
        assert_eq!(AnyTensor::try_from_ndarray(cut).unwrap().to_vec(), [4.0, 6.0, 7.0, 9.0]);
        let mut reversed = array![1u32, 2, 3];
        reversed.invert_axis(ndarray::Axis(0));
        assert_eq!(AnyTensor::try_from_ndarray(reversed).unwrap().to_vec(), [3, 2, 1]);
    }

    #[test]
    fn views_of_tensors_are_views_of_arrays() {
        let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>::from_fn(|at| {
            (at[0] * 100 + at[1] * 10 + at[2]) as f32
        });
        let turned: Tensor<(Seq<C<3>>, Model<C<4>>, Batch<C<2>>)> = x.permute();
        assert_eq!(turned.as_ndarray()[[2, 1, 1]], 121.0);
        let row = Tensor::<(Model<C<4>>,)>::from([1.0, 2.0, 3.0, 4.0]);
        assert_eq!(row.as_ndarray().as_ptr(), row.as_slice().unwrap().as_ptr());
        assert_eq!(Tensor::scalar(7i32).as_ndarray()[IxDyn(&[])], 7);
    }

    #[test]
    fn empty_axes_are_legal() {
        let x = Tensor::<(Batch<C<0>>, Seq<C<3>>, Model<C<4>>)>::ones();
        assert_eq!(x.as_ndarray().shape(), [0, 3, 4]);
        let turned: Tensor<(Model<C<4>>, Seq<C<3>>, Batch<C<0>>)> = x.permute();
        assert_eq!(turned.as_ndarray().shape(), [4, 3, 0]);
        let back = AnyTensor::try_from_ndarray(turned.as_ndarray().to_owned()).unwrap();
        assert_eq!((back.dims(), back.count()), (&[4, 3, 0][..], 0));
    }

    #[test]
    fn seven_axes_are_refused() {
        let error = AnyTensor::try_from_ndarray(ArrayD::<f32>::zeros(IxDyn(&[1; 7]))).unwrap_err();
        assert!(error.is_shape());
        assert_eq!(error.to_string(), "7 axes, a tensor has at most 6");
    }
}

#[cfg(feature = "serde")]
mod serde {
    use ::serde::{Serialize, de::DeserializeOwned};
    use shapeproof::{
        Activation, Adam, AdamW, Dropout, EncoderConfig, NormPlacement, RotaryScaling, Sgd,
        Tolerance, WeightLayout,
    };
    use std::fmt::Debug;

    #[track_caller]
    fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
    }

    #[test]
    fn configurations_come_back_from_json() {
        comes_back(EncoderConfig {
            norm: NormPlacement::Pre,
            activation: Activation::GeluTanh,
            epsilon: 1e-12,
            dropout: Dropout::try_new(0.25).unwrap(),
        });
        comes_back(Sgd { momentum: 0.5, ..Sgd::default() });
        comes_back(Adam { epsilon: 1e-7, ..Adam::default() });
        comes_back(AdamW { weight_decay: 0.125, ..AdamW::default() });
        comes_back([WeightLayout::InOut, WeightLayout::OutIn]);
        comes_back(Tolerance { absolute: 0.5, relative: 0.0 });
        comes_back(RotaryScaling::default());
    }

    #[test]
    fn a_probability_out_of_range_is_refused() {
        assert_eq!(serde_json::to_string(&Dropout::NONE).unwrap(), "0.0");
        let error = serde_json::from_str::<Dropout>("1.5").unwrap_err().to_string();
        assert!(error.contains("expected a probability in 0..=1, found 1.5"), "{error}");
    }
}
