//! Grouped attention against multi-head attention, plain loops and files.

use shapeproof::{
    Adjacent, Attention, AttentionBias, Axis, Batch, Bias, BiasKind, C, Causal, Checkpoint, Float,
    Generator, GroupedAttention, Heads, Infer, KvHeads, KvOf, Linear, Mask, Model, Module,
    MultiHeadAttention, NoBias, NoKeyBias, NoMask, QkvBias, Rotary, RotaryTable, RotaryWidth, Seq,
    Size, Static, Tensor, WeightLayout, dyn_size,
};

use crate::fixtures::assert_close;
use crate::masks::{Over, Part, Sizes, narrowed, widened};
use crate::modules::{names, set_each};
use crate::oracle::{self, Rotation};
use crate::random::Random;

type Activations<const B: usize, const S: usize, const M: usize, E> =
    Tensor<(Batch<C<B>>, Seq<C<S>>, Model<C<M>>), E>;

/// Gives every parameter numbers that f32 holds exactly.
fn fill(layer: &mut impl Module, random: &mut Random) {
    set_each(layer, |_| random.value());
}

#[test]
fn as_many_key_value_heads_of_the_usual_width_are_multi_head_attention() {
    fn copied<I: Axis, O: Axis, J: Axis, P: Axis>(
        from: &Linear<I, O, Bias>,
        to: &mut Linear<J, P, Bias>,
    ) {
        let shape = to.weight.shape();
        to.weight.set(Tensor::try_from_vec(shape, from.weight.value().to_vec()).unwrap());
        to.bias.set(Tensor::try_from_vec((shape.1,), from.bias.value().to_vec()).unwrap());
    }
    let mut whole = MultiHeadAttention::<C<12>, C<3>>::zeros();
    fill(&mut whole, &mut Random::new(1));
    let mut grouped = GroupedAttention::<C<12>, C<3>, C<4>>::zeros();
    copied(&whole.q, &mut grouped.q);
    copied(&whole.k, &mut grouped.k);
    copied(&whole.v, &mut grouped.v);
    copied(&whole.out, &mut grouped.out);
    let x = Activations::<2, 5, 12, f32>::normal(0.0, 1.0, &mut Generator::seeded(2));
    let (y, weights) = grouped.forward_with_weights(&x, Causal, &mut Infer);
    let (whole_y, whole_weights) = whole.forward_with_weights(&x, Causal, &mut Infer);
    assert!(y.all_close(&whole_y, 1e-5, 1e-5));
    assert!(weights.all_close(&whole_weights, 1e-5, 1e-6));
    assert!(grouped.forward(&x, Causal, &mut Infer).all_close(&whole_y, 1e-5, 1e-5));
}

// onnx/onnx#7274
#[test]
fn neighbouring_heads_share_a_key_value_head() {
    let mut layer = GroupedAttention::<C<1>, C<4>, C<1>, KvHeads<C<2>>, NoBias>::zeros();
    let values = Tensor::try_from_vec(layer.v.weight.shape(), vec![1.0, 2.0]).unwrap();
    layer.v.weight.set(values);
    let x = Activations::<1, 1, 1, f32>::ones();
    let (q, k, v) = layer.project(&x, &mut Infer);
    assert_eq!(v.to_vec(), [1.0, 2.0]);
    assert_eq!(layer.attention.apply(&q, &k, &v, NoMask).to_vec(), [1.0, 1.0, 2.0, 2.0]);
    // The output projection sees them in that order.
    let out = Tensor::try_from_vec(layer.out.weight.shape(), vec![1.0, 10.0, 100.0, 1000.0]);
    layer.out.weight.set(out.unwrap());
    assert_eq!(layer.forward(&x, NoMask, &mut Infer).to_vec(), [2211.0]);
}

/// A layer's numbers, and the input's, for plain loops.
struct Twin {
    batch: usize,
    length: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    width: usize,
    /// Of the norms of queries and keys.
    epsilon: Option<f64>,
    /// Pairs by halves, base 100.
    positions: Option<usize>,
}

impl Twin {
    fn projected<I: Axis, O: Axis, B: BiasKind, E: Float>(
        &self,
        linear: &Linear<I, O, B, E>,
        x: &[f64],
    ) -> Vec<f64> {
        let [inputs, outputs] = *linear.weight.value().dims() else { panic!("two axes") };
        let weight = widened(&linear.weight.value().to_vec());
        let bias = B::get(&linear.bias).map(|bias| widened(&bias.value().to_vec()));
        let out_by_in = oracle::exchanged(&weight, [inputs, outputs, 1]);
        oracle::linear(x, &out_by_in, bias.as_deref(), inputs)
    }

    /// The heads of what is projected.
    fn by_head<I: Axis, O: Axis, B: BiasKind, E: Float>(
        &self,
        linear: &Linear<I, O, B, E>,
        x: &[f64],
        heads: usize,
    ) -> Vec<f64> {
        oracle::exchanged(&self.projected(linear, x), [self.length, heads, self.dim])
    }

    fn normed(&self, x: Vec<f64>, weight: Option<Vec<f64>>) -> Vec<f64> {
        let Some(weight) = weight else { return x };
        let epsilon = self.epsilon.unwrap();
        let mut out = Vec::new();
        for row in x.chunks(self.dim) {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / self.dim as f64;
            out.extend(row.iter().zip(&weight).map(|(x, g)| x / (mean + epsilon).sqrt() * g));
        }
        out
    }

    fn turned(&self, x: Vec<f64>, heads: usize) -> Vec<f64> {
        let Some(offset) = self.positions else { return x };
        let rotation = Rotation { width: self.dim / 2 * 2, adjacent: false, base: 100.0 };
        rotation.of(&x, [heads, self.length, self.dim], |_, place| offset + place)
    }

    /// The output and the weights: each query head with the key/value head h / (H/G).
    fn run<M: Size, H: Size, D: Size, KV: Axis, B: AttentionBias, E: Float>(
        &self,
        layer: &GroupedAttention<M, H, D, KV, B, E>,
        x: &[f64],
        parts: &[Part],
    ) -> (Vec<f64>, Vec<f64>) {
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        let norm = |norm: &Option<shapeproof::RmsNorm<_, E>>| {
            norm.as_ref().map(|norm| widened(&norm.weight.value().to_vec()))
        };
        let q = self.by_head(&layer.q, x, heads);
        let q = self.turned(self.normed(q, norm(&layer.q_norm)), heads);
        let k = self.by_head(&layer.k, x, kv_heads);
        let k = self.turned(self.normed(k, norm(&layer.k_norm)), kv_heads);
        let v = self.by_head(&layer.v, x, kv_heads);
        let (y, weights) = oracle::attention(self.sizes(), [&q, &k, &v], None, parts);
        let merged = oracle::exchanged(&y, [heads, self.length, self.dim]);
        (self.projected(&layer.out, &merged), weights)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            kv_heads: self.kv_heads,
            ..Sizes::new(self.batch, self.heads, self.length, self.length, self.dim)
        }
    }
}

/// All ways through a layer of these sizes.
fn check<M, H, D, KV, B, R, E>(kv_heads: usize, [batch, length]: [usize; 2], norms: bool)
where
    M: Static,
    H: Static,
    D: Static + shapeproof::RotatedBy<R>,
    KV: KvOf<Heads<H>> + Default,
    B: AttentionBias,
    R: RotaryWidth,
    E: Float,
{
    let mut random = Random::new((M::N * 1000 + H::N * 100 + D::N * 10 + batch) as u64);
    let mut layer = GroupedAttention::<M, H, D, KV, B, E>::zeros();
    if norms {
        layer = layer.with_norms(1e-3);
    }
    fill(&mut layer, &mut random);
    let mut twin = Twin {
        batch,
        length,
        heads: H::N,
        kv_heads,
        dim: D::N,
        width: M::N,
        epsilon: norms.then_some(1e-3),
        positions: None,
    };
    let values = random.values(batch * length * twin.width);
    let lengths: Vec<_> = (0..batch).map(|_| random.below(length + 1)).collect();
    let parts = [Part::Causal, padding(&twin, &lengths)];
    dyn_size!(b = batch, s = length);
    let shape = (Batch(b), Seq(s), Model(M::default()));
    let x = Tensor::try_from_vec(shape, narrowed::<E>(&values)).unwrap();
    let lengths = Tensor::try_from_vec((Batch(b),), lengths).unwrap();
    let mask = Mask::try_lengths(&lengths, shapeproof::Key(s)).unwrap() & Causal;
    // Sums of up to thirty products of numbers up to 2, one behind the other.
    let (rtol, atol) = if E::NAME == "f32" { (2e-4, 2e-3) } else { (1e-12, 1e-11) };
    let same = |how: &str, y: &[E], want: &[f64]| assert_close(how, &widened(y), want, rtol, atol);

    let (want, want_weights) = twin.run(&layer, &values, &parts);
    same("output", &layer.forward(&x, &mask, &mut Infer).to_vec(), &want);
    let (y, weights) = layer.forward_with_weights(&x, &mask, &mut Infer);
    same("output, with weights", &y.to_vec(), &want);
    same("weights", &weights.to_vec(), &want_weights);

    let q = layer.queries(&x, &mut Infer);
    let (k, v) = layer.keys_and_values(&x, &mut Infer);
    let by_parts = Attention::new().apply(&q, &k, &v, &mask);
    same("by parts", &layer.output(&by_parts, &mut Infer).to_vec(), &want);
    let strided = x.transpose(Batch, Seq).packed().transpose(Seq, Batch);
    assert!(layer.forward(&strided, &mask, &mut Infer) == layer.forward(&x, &mask, &mut Infer));

    twin.positions = Some(3);
    let rotary = Rotary::<R>::try_new(100.0).unwrap();
    let (want, _) = twin.run(&layer, &values, &parts);
    let table = rotary.try_at(3, Seq(s)).unwrap();
    same("rotated", &layer.forward_rotated(&x, &table, &mask, &mut Infer).to_vec(), &want);
    let own = Tensor::from_fn_in((Batch(b), Seq(s)), |at| 3 + at[1]);
    let own: RotaryTable<_, _, _, E> = rotary.try_at_positions(&own).unwrap();
    same("rotated, own", &layer.forward_rotated(&x, &own, &mask, &mut Infer).to_vec(), &want);
}

fn padding(twin: &Twin, lengths: &[usize]) -> Part {
    let mut entries = lengths.iter().flat_map(|&n| (0..twin.length).map(move |j| j < n));
    Part::Keep(Over::of(twin.sizes(), [true, false, false, true], || entries.next().unwrap()))
}

#[test]
fn grouped_attention_equals_plain_loops_that_repeat_the_key_value_heads() {
    fn both<E: Float>() {
        for norms in [false, true] {
            check::<C<7>, C<6>, C<5>, KvHeads<C<3>>, Bias, C<4>, E>(3, [2, 4], norms);
            check::<C<7>, C<6>, C<5>, KvHeads<C<2>>, NoBias, C<4>, E>(2, [3, 5], norms);
            check::<C<8>, C<4>, C<2>, KvHeads<C<1>>, QkvBias, C<2>, E>(1, [2, 3], norms);
            check::<C<5>, C<3>, C<4>, Heads<C<3>>, NoKeyBias, C<4>, E>(3, [2, 6], norms);
            // All the same; one of each; batch = heads; nothing.
            check::<C<3>, C<3>, C<3>, KvHeads<C<3>>, Bias, C<2>, E>(3, [3, 3], norms);
            check::<C<1>, C<1>, C<1>, KvHeads<C<1>>, Bias, C<0>, E>(1, [1, 1], norms);
            check::<C<4>, C<2>, C<6>, KvHeads<C<1>>, NoBias, C<6>, E>(1, [2, 70], norms);
            check::<C<4>, C<2>, C<6>, KvHeads<C<1>>, NoBias, C<6>, E>(1, [0, 3], norms);
            check::<C<4>, C<2>, C<6>, KvHeads<C<1>>, NoBias, C<6>, E>(1, [2, 0], norms);
        }
    }
    both::<f64>();
    both::<f32>();
}

#[test]
fn parameters_have_the_names_of_checkpoints_and_files_the_weights_out_by_in() {
    type Layer = GroupedAttention<C<7>, C<6>, C<5>, KvHeads<C<3>>, NoBias>;
    let mut layer = Layer::zeros().with_norms(1e-6);
    fill(&mut layer, &mut Random::new(5));
    let names = names(&layer);
    let projections = ["q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"];
    assert_eq!(names[..4], projections);
    assert_eq!(names[4..], ["q_norm.weight", "k_norm.weight"]);

    let folder = crate::io::Folder::new();
    let checkpoint = Checkpoint::new(WeightLayout::OutIn);
    checkpoint.save(&layer, folder.path("grouped")).unwrap();
    let mut file = shapeproof::TensorFile::open(folder.path("grouped")).unwrap();
    assert_eq!(file.read("q_proj.weight").unwrap().dims(), [30, 7]);
    assert_eq!(file.read("k_proj.weight").unwrap().dims(), [15, 7]);
    assert_eq!(file.read("out_proj.weight").unwrap().dims(), [7, 30]);
    assert_eq!(file.read("k_norm.weight").unwrap().dims(), [5]);
    // Row 5 · h + d of the file is feature d of head h.
    let row = file.read("q_proj.weight").unwrap().to::<f32>().to_vec()[7 * 13..][..7].to_vec();
    let weight = layer.q.weight.value().to_vec();
    assert_eq!(row, (0..7).map(|i| weight[i * 30 + 13]).collect::<Vec<_>>());

    let mut loaded = Layer::zeros().with_norms(1e-6);
    checkpoint.load(&mut loaded, folder.path("grouped")).unwrap();
    let x = Activations::<2, 3, 7, f32>::ones();
    assert_eq!(loaded.forward(&x, Causal, &mut Infer), layer.forward(&x, Causal, &mut Infer));

    let mut without = Layer::zeros();
    let error = checkpoint.load(&mut without, folder.path("grouped")).unwrap_err();
    assert!(error.to_string().contains("k_norm"), "{error}");
}

#[test]
fn the_scale_is_the_layers_own() {
    let mut layer = GroupedAttention::<C<4>, C<2>, C<3>, KvHeads<C<1>>>::zeros();
    fill(&mut layer, &mut Random::new(6));
    layer.attention = Attention::new().scale(0.0);
    let x = Activations::<1, 4, 4, f32>::normal(0.0, 1.0, &mut Generator::seeded(1));
    let (_, weights) = layer.forward_with_weights(&x, NoMask, &mut Infer);
    assert_eq!(weights.to_vec(), [0.25; 32]);
}

#[test]
fn rotations_move_attention_and_a_common_shift_of_positions_does_not() {
    let mut layer = GroupedAttention::<C<6>, C<2>, C<4>, KvHeads<C<1>>, NoBias, f64>::zeros();
    fill(&mut layer, &mut Random::new(8));
    let x = Activations::<2, 5, 6, f64>::normal(0.0, 1.0, &mut Generator::seeded(9));
    let rotary = Rotary::<C<4>, Adjacent>::try_new(10_000.0).unwrap();
    let at = |offset| {
        let table = rotary.try_at(offset, Seq(C::<5>)).unwrap();
        layer.forward_rotated(&x, &table, Causal, &mut Infer)
    };
    assert!(at(0).all_close(&at(1000), 1e-9, 1e-9));
    assert!(!at(0).all_close(&layer.forward(&x, Causal, &mut Infer), 1e-3, 1e-3));
}
