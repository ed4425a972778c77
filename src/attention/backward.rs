//! What attention records of itself in training.

use super::MaskParts;
use super::parts::Start;
use super::scaled::{Attention, scores as scores_of};
use crate::element::Float;
use crate::kernel::attention::{
    Forward, Out, Relative, Settings, Stage, Sums, attention, attention_backward, attention_to,
    scores,
};
use crate::kernel::gemm::gemm;
use crate::kernel::layout::{Layout, View, count};
use crate::kernel::reduce::sum;
use crate::kernel::softmax::{Softmax, softmax_backward};
use crate::tensor::AnyTensor;
use num_traits::Zero;

/// Learned relative positions: each query's products with the table of keys, and the table of values.
#[derive(Clone)]
pub(super) struct RelativeParts<E> {
    pub(super) products: AnyTensor<E>,
    pub(super) values: Option<AnyTensor<E>>,
    pub(super) max: usize,
    pub(super) start: Start,
}

impl<E: Float> RelativeParts<E> {
    fn lent(&self) -> Relative<'_, E> {
        Relative {
            products: Some(self.products.view()),
            values: self.values.as_ref().map(AnyTensor::view),
            max: self.max,
            offset: self.start.offset(),
        }
    }

    fn inputs(&self) -> impl Iterator<Item = &AnyTensor<E>> {
        [&self.products].into_iter().chain(&self.values)
    }

    fn detached(&self) -> Self {
        let values = self.values.as_ref().map(AnyTensor::detached);
        RelativeParts { products: self.products.detached(), values, ..self.clone() }
    }
}

/// Whether a gradient would come through what attention computes from.
fn is_recorded<E: Float>(heads: [&AnyTensor<E>; 3], mask: &MaskParts<E>) -> bool {
    heads.into_iter().chain(mask.inputs()).any(AnyTensor::is_recorded)
}

/// The weights, recorded as computed from queries, keys and biases. (Their gradient with regard to what
/// else a mask adds is not taken: they are an output to be looked at.)
fn record_weights<E: Float>(
    weights: AnyTensor<E>,
    attention_of: &Attention,
    [queries, keys]: [&AnyTensor<E>; 2],
    mask: &MaskParts<E>,
) -> AnyTensor<E> {
    let inputs: Vec<_> = [queries, keys].into_iter().chain(&mask.bias).collect();
    let attention_of = *attention_of;
    weights.clone().recorded(&inputs, || {
        let (queries, keys, mask) = (queries.detached(), keys.detached(), mask.detached());
        move |d_weights| {
            let heads = [&queries, &keys];
            let d_scores = of_scores(&attention_of, heads, &mask, (&weights, d_weights));
            let own = d_scores.layout().sliced(3, mask.extra, keys.dims()[2] - mask.extra);
            let biases = mask.bias.iter().map(|_| Some(d_scores.viewed(own)));
            let [d_queries, d_keys] = of_products(&attention_of, heads, &mask, &d_scores);
            [Some(d_queries), Some(d_keys)].into_iter().chain(biases).collect()
        }
    })
}

/// The gradient of the scores, given that of the weights after dropout: dS = P ∘ (dP − Σ dP ∘ P).
fn of_scores<E: Float>(
    attention_of: &Attention,
    [queries, keys]: [&AnyTensor<E>; 2],
    mask: &MaskParts<E>,
    (weights, d_weights): (&AnyTensor<E>, &AnyTensor<E>),
) -> AnyTensor<E> {
    let factor = attention_of.kept();
    let mut before = weights.to_vec();
    if factor.is_some() {
        let whole = attention_of.without_dropout();
        let settings = whole.settings(queries.dims()[3]);
        let none = AnyTensor::from_packed(&keys.layout().dims.replaced(3, 0), Vec::new());
        let views = [queries.view(), keys.view(), none.view()];
        let to = Out { out: &mut [], weights: Some(&mut before), sums: Sums::Nothing };
        attention_to(views, &settings, &mask.lent(), to);
    }
    let before = AnyTensor::from_packed(weights.dims(), before);
    let d_before = match factor {
        None => d_weights.clone(),
        Some(factor) => {
            let factor = E::Wide::from_f64(factor);
            // What was dropped has the weight 0 afterwards, and no gradient.
            weights.paired(d_weights, |weight, d| match weight.wide().is_zero() {
                true => E::default(),
                false => E::narrow(d.wide() * factor),
            })
        }
    };
    let scores = softmax_backward(Softmax::Weights, before.view(), d_before.view(), 3);
    AnyTensor::from_packed(weights.dims(), scores)
}

/// The gradients of queries and keys, given that of the scores.
fn of_products<E: Float>(
    attention_of: &Attention,
    [queries, keys]: [&AnyTensor<E>; 2],
    mask: &MaskParts<E>,
    d_scores: &AnyTensor<E>,
) -> [AnyTensor<E>; 2] {
    let settings = attention_of.settings(queries.dims()[3]);
    let mut d = d_scores.to_vec();
    if let Some(cap) = settings.softcap {
        let views = [queries.view(), keys.view()];
        let capped = scores(views, &settings, &mask.lent(), Stage::Capped);
        for (d, capped) in d.iter_mut().zip(capped) {
            let tanh = capped.to_f64() / cap;
            *d = E::narrow(d.wide() * E::Wide::from_f64(1.0 - tanh * tanh));
        }
    }
    let scale = E::Wide::from_f64(settings.scale);
    d.iter_mut().for_each(|d| *d = E::narrow(d.wide() * scale));
    let [batch, heads, query, width] = [0, 1, 2, 3].map(|axis| queries.dims()[axis]);
    let [groups, key] = [1, 2].map(|axis| keys.dims()[axis]);
    if count(&[batch, heads, query, key, width]) == 0 {
        return [queries, keys]
            .map(|x| AnyTensor::from_packed(x.dims(), vec![E::default(); x.count()]));
    }
    // Over [B, G, H/G, …], in which the keys repeat over the third axis.
    let share = heads / groups;
    let d = AnyTensor::from_packed(&[batch, groups, share, query, key], d);
    let shared = keys.layout().repeated(2, share);
    let of_queries = gemm(d.view(), View { layout: shared, ..keys.view() }, None);
    let split = queries.layout().split(1, groups, share);
    let turned = View { layout: d.layout().transposed(), ..d.view() };
    let by_head = gemm(turned, View { layout: split, ..queries.view() }, None);
    let by_head = AnyTensor::from_packed(&[batch, groups, share, key, width], by_head);
    let of_keys = sum(by_head.view(), 2);
    [
        AnyTensor::from_packed(queries.dims(), of_queries),
        AnyTensor::from_packed(keys.dims(), of_keys),
    ]
}

/// All that attention computes from.
#[derive(Clone)]
struct Operands<E> {
    /// Q, K and V.
    heads: [AnyTensor<E>; 3],
    mask: MaskParts<E>,
    relative: Option<RelativeParts<E>>,
}

impl<E: Float> Operands<E> {
    fn inputs(&self) -> Vec<&AnyTensor<E>> {
        let relative = self.relative.iter().flat_map(RelativeParts::inputs);
        self.heads.iter().chain(self.mask.inputs()).chain(relative).collect()
    }

    fn detached(&self) -> Self {
        Operands {
            heads: self.heads.each_ref().map(AnyTensor::detached),
            mask: self.mask.detached(),
            relative: self.relative.as_ref().map(RelativeParts::detached),
        }
    }

    fn views(&self) -> [View<'_, E>; 3] {
        self.heads.each_ref().map(AnyTensor::view)
    }

    fn settings(&self, attention: &Attention) -> Settings<'_, E> {
        let relative = self.relative.as_ref().map(RelativeParts::lent);
        Settings { relative, ..attention.settings(self.heads[0].dims()[3]) }
    }
}

/// The output over (batch, heads, queries, value width), laid out so that merging its heads moves no data.
/// Where an input is recorded, so is the output, by a rule that makes the weights again.
pub(super) fn attend<E: Float>(
    attention_of: &Attention,
    heads: [&AnyTensor<E>; 3],
    mask: &MaskParts<E>,
    relative: Option<RelativeParts<E>>,
) -> AnyTensor<E> {
    let [queries, _, values] = heads;
    let (layout, mut out) = heads_inside(queries, values);
    let positions = relative.iter().flat_map(RelativeParts::inputs).any(AnyTensor::is_recorded);
    if !positions && !is_recorded(heads, mask) {
        let relative = relative.as_ref().map(RelativeParts::lent);
        let settings = Settings { relative, ..attention_of.settings(queries.dims()[3]) };
        attention(heads.map(AnyTensor::view), &settings, &mask.lent(), &mut out);
        return AnyTensor::in_layout(layout, out);
    }
    let operands = Operands { heads: heads.map(Clone::clone), mask: mask.clone(), relative };
    let mut sums = SumsKept::of(queries);
    let to = Out { out: &mut out, weights: None, sums: sums.lent() };
    attention_to(operands.views(), &operands.settings(attention_of), &mask.lent(), to);
    record(AnyTensor::in_layout(layout, out), attention_of, operands, sums)
}

/// As [`attend`], with the weights over (batch, heads, queries, keys).
pub(super) fn attend_with_weights<E: Float>(
    attention_of: &Attention,
    heads: [&AnyTensor<E>; 3],
    mask: &MaskParts<E>,
) -> (AnyTensor<E>, AnyTensor<E>) {
    let [queries, keys, values] = heads;
    let (layout, mut out) = heads_inside(queries, values);
    let scores = scores_of(queries, keys);
    let mut weights = vec![E::default(); count(&scores)];
    let recorded = is_recorded(heads, mask);
    let mut sums = recorded.then(|| SumsKept::of(queries));
    let sums_to = sums.as_mut().map_or(Sums::Nothing, SumsKept::lent);
    let to = Out { out: &mut out, weights: Some(&mut weights), sums: sums_to };
    let settings = attention_of.settings(queries.dims()[3]);
    attention_to(heads.map(AnyTensor::view), &settings, &mask.lent(), to);
    let out = AnyTensor::in_layout(layout, out);
    let weights = AnyTensor::from_packed(&scores, weights);
    let Some(sums) = sums else { return (out, weights) };
    let operands = Operands { heads: heads.map(Clone::clone), mask: mask.clone(), relative: None };
    let weights = record_weights(weights, attention_of, [queries, keys], mask);
    (record(out, attention_of, operands, sums), weights)
}

/// The sums' logarithms in two parts, over (batch, heads, queries).
struct SumsKept<E: Float>([Vec<E::Wide>; 2]);

impl<E: Float> SumsKept<E> {
    fn of(queries: &AnyTensor<E>) -> Self {
        SumsKept([0; 2].map(|_| vec![E::Wide::zero(); count(&queries.dims()[..3])]))
    }

    fn lent(&mut self) -> Sums<'_, E> {
        Sums::Parts(self.0.each_mut().map(|part| &mut part[..]))
    }
}

/// The output, recorded with the sums that its gradients need.
fn record<E: Float>(
    out: AnyTensor<E>,
    attention_of: &Attention,
    operands: Operands<E>,
    sums: SumsKept<E>,
) -> AnyTensor<E> {
    let attention_of = *attention_of;
    out.clone().recorded(&operands.inputs(), || {
        let wanted: Vec<bool> = operands.inputs().iter().map(|input| input.is_recorded()).collect();
        let operands = operands.detached();
        move |d_out| gradients(&attention_of, &operands, (&out, &sums.0), d_out, &wanted)
    })
}

/// The gradients of the inputs, in their order.
fn gradients<E: Float>(
    attention_of: &Attention,
    operands: &Operands<E>,
    (out, sums): (&AnyTensor<E>, &[Vec<E::Wide>; 2]),
    d_out: &AnyTensor<E>,
    wanted: &[bool],
) -> Vec<Option<AnyTensor<E>>> {
    let (settings, mask) = (operands.settings(attention_of), operands.mask.lent());
    let forward = Forward {
        views: operands.views(),
        settings: &settings,
        mask: &mask,
        out: out.view(),
        sums: sums.each_ref().map(|part| &part[..]),
    };
    let biases = operands.mask.bias.len();
    let of_scores = wanted[3..3 + biases].contains(&true);
    let found = attention_backward(&forward, d_out.view(), of_scores);
    let typed = |like: &AnyTensor<E>, data| AnyTensor::from_packed(like.dims(), data);
    let [q, k, v] = &operands.heads;
    let mut all = vec![typed(q, found.q), typed(k, found.k), typed(v, found.v)];
    if of_scores {
        let extra = operands.mask.extra;
        let dims = out.layout().dims.replaced(3, k.dims()[2]);
        let scores = AnyTensor::from_packed(&dims, found.scores);
        let own = scores.viewed(scores.layout().sliced(3, extra, k.dims()[2] - extra));
        all.extend(operands.mask.bias.iter().map(|_| own.clone()));
    } else {
        all.extend(operands.mask.bias.iter().map(Clone::clone));
    }
    let tables = operands.mask.distances.iter().map(|(table, ..)| table);
    all.extend(tables.zip(found.distances).map(|(table, data)| typed(table, data)));
    let slopes = operands.mask.slopes.iter().map(|(each, _)| each);
    all.extend(slopes.zip(found.slopes).map(|(each, data)| typed(each, data)));
    all.extend(operands.mask.sinks.iter().zip(found.sinks).map(|(x, data)| typed(x, data)));
    if let Some(relative) = &operands.relative {
        all.push(typed(&relative.products, found.products));
        all.extend(relative.values.iter().map(|values| typed(values, found.values.clone())));
    }
    all.into_iter().zip(wanted).map(|(gradient, &wanted)| wanted.then_some(gradient)).collect()
}

/// Room for an output over (batch, heads, queries, value width) that lies in memory as (batch,
/// queries, heads, value width).
pub(super) fn heads_inside<E: Float>(
    queries: &AnyTensor<E>,
    values: &AnyTensor<E>,
) -> (Layout, Vec<E>) {
    let [batch, heads, query, _] = *queries.dims() else { unreachable!("queries have four axes") };
    let dims = [batch, query, heads, values.dims()[3]];
    (Layout::packed(&dims).permuted(&[0, 2, 1, 3]), vec![E::default(); count(&dims)])
}
