//! What attention records of itself in training.

use super::MaskParts;
use super::parts::Start;
use super::scaled::{Attention, scores as scores_of};
use crate::element::Float;
use crate::kernel::attention::{
    Forward, Given, Out, Relative, Settings, Stage, Sums, attention, attention_backward,
    attention_to, side_by_side,
};
use crate::kernel::layout::{Layout, View, count};
use crate::tensor::AnyTensor;
use std::f64::consts::LN_2;
use std::sync::Arc;

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

/// All that attention computes from.
#[derive(Clone)]
struct Operands<E> {
    /// Q, K and V.
    heads: [AnyTensor<E>; 3],
    /// The tensor over (batch, positions, 3 widths) whose parts they are, if they are to have one gradient.
    together: Option<AnyTensor<E>>,
    mask: MaskParts<E>,
    relative: Option<RelativeParts<E>>,
}

impl<E: Float> Operands<E> {
    fn new(heads: [&AnyTensor<E>; 3], mask: &MaskParts<E>) -> Self {
        let heads = heads.map(Clone::clone);
        Operands { heads, together: None, mask: mask.clone(), relative: None }
    }

    fn activations(&self) -> &[AnyTensor<E>] {
        self.together.as_ref().map_or(&self.heads[..], std::slice::from_ref)
    }

    fn inputs(&self) -> Vec<&AnyTensor<E>> {
        let relative = self.relative.iter().flat_map(RelativeParts::inputs);
        self.activations().iter().chain(self.mask.inputs()).chain(relative).collect()
    }

    fn detached(&self) -> Self {
        Operands {
            heads: self.heads.each_ref().map(AnyTensor::detached),
            together: self.together.as_ref().map(AnyTensor::detached),
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
    let positions = relative.iter().flat_map(RelativeParts::inputs).any(AnyTensor::is_recorded);
    if !positions && !is_recorded(heads, mask) {
        let relative = relative.as_ref().map(RelativeParts::lent);
        let settings = Settings { relative, ..attention_of.settings(heads[0].dims()[3]) };
        let (layout, mut out) = heads_inside(heads[0], heads[2]);
        attention(heads.map(AnyTensor::view), &settings, &mask.lent(), &mut out);
        return AnyTensor::in_layout(layout, out);
    }
    attend_recorded(attention_of, &Operands { relative, ..Operands::new(heads, mask) })
}

/// As [`attend`], of the queries, keys and values that lie side by side in a tensor over (batch, positions,
/// 3 widths), which has their gradients as one.
pub(super) fn attend_together<E: Float>(
    attention_of: &Attention,
    together: &AnyTensor<E>,
    heads: usize,
    mask: &MaskParts<E>,
) -> AnyTensor<E> {
    let [batch, positions, widths] = *together.dims() else {
        unreachable!("activations have three axes")
    };
    let detached = together.detached();
    let [q, k, v] = side_by_side([batch, positions, heads, widths / 3 / heads.max(1)])
        .map(|layout| detached.viewed(layout));
    let operands = Operands::new([&q, &k, &v], mask);
    attend_recorded(attention_of, &Operands { together: Some(together.clone()), ..operands })
}

/// [`attend`], recorded.
fn attend_recorded<E: Float>(attention_of: &Attention, operands: &Operands<E>) -> AnyTensor<E> {
    let [queries, _, values] = &operands.heads;
    let (layout, mut out) = heads_inside(queries, values);
    let mut sums = SumsKept::of(queries);
    let to = Out { out: &mut out, weights: None, sums: sums.lent() };
    let (settings, mask) = (operands.settings(attention_of), operands.mask.lent());
    attention_to(operands.views(), &settings, &mask, to);
    let out = AnyTensor::in_layout(layout, out);
    let kept = Kept::Out(out.clone());
    record(out, attention_of, operands, Some(&Arc::new(sums)), kept)
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
    let Some(sums) = sums.map(Arc::new) else { return (out, weights) };
    let operands = Operands::new(heads, mask);
    let kept = [Kept::Out(out.clone()), Kept::Weights(weights.clone())];
    let [of_out, of_weights] = kept;
    let out = record(out, attention_of, &operands, Some(&sums), of_out);
    (out, record(weights, attention_of, &operands, Some(&sums), of_weights))
}

/// As [`attend`], with the logarithms of the sums of e to the scores over (batch, heads, queries).
pub(super) fn attend_with_log_sums<E: Float>(
    attention_of: &Attention,
    heads: [&AnyTensor<E>; 3],
    mask: &MaskParts<E>,
) -> (AnyTensor<E>, AnyTensor<E>) {
    let [queries, _, values] = heads;
    let (layout, mut out) = heads_inside(queries, values);
    let rows = &queries.dims()[..3];
    let mut log_sums = vec![E::default(); count(rows)];
    let mut sums = SumsKept::of(queries);
    let recorded = is_recorded(heads, mask);
    let sums_to = if recorded { sums.lent() } else { Sums::Log(&mut log_sums) };
    let to = Out { out: &mut out, weights: None, sums: sums_to };
    let settings = attention_of.settings(queries.dims()[3]);
    attention_to(heads.map(AnyTensor::view), &settings, &mask.lent(), to);
    let out = AnyTensor::in_layout(layout, out);
    if !recorded {
        return (out, AnyTensor::from_packed(rows, log_sums));
    }
    let log_sums = AnyTensor::from_packed(rows, sums.log_sums());
    let operands = Operands::new(heads, mask);
    let (sums, of_out) = (Arc::new(sums), Kept::Out(out.clone()));
    let out = record(out, attention_of, &operands, Some(&sums), of_out);
    (out, record(log_sums, attention_of, &operands, Some(&sums), Kept::LogSums))
}

/// The scores over (batch, heads, queries, keys), as they are at this stage.
pub(super) fn scores_at<E: Float>(
    attention_of: &Attention,
    [queries, keys]: [&AnyTensor<E>; 2],
    mask: &MaskParts<E>,
    stage: Stage,
) -> AnyTensor<E> {
    let settings = attention_of.settings(queries.dims()[3]);
    let views = [queries.view(), keys.view()];
    let scores = E::scores(views, &settings, &mask.lent(), stage);
    let scores = AnyTensor::from_packed(&scores_of(queries, keys), scores);
    // What the stage does not reach, it has no gradient from.
    let mask = if stage == Stage::Masked { mask.clone() } else { mask.without_any() };
    let capped = if stage == Stage::Product { attention_of.softcap(0.0) } else { *attention_of };
    let none = AnyTensor::from_packed(&keys.layout().dims.replaced(3, 0), Vec::new());
    let heads = [queries.clone(), keys.clone(), none];
    let operands = Operands::new(heads.each_ref(), &mask);
    record(scores, &capped, &operands, None, Kept::Scores)
}

/// The sums' logarithms in two parts, over (batch, heads, queries).
struct SumsKept<E: Float>([Vec<E::Wide>; 2]);

impl<E: Float> SumsKept<E> {
    fn of(queries: &AnyTensor<E>) -> Self {
        SumsKept([0; 2].map(|_| vec![<_>::default(); count(&queries.dims()[..3])]))
    }

    fn lent(&mut self) -> Sums<'_, E> {
        Sums::Parts(self.0.each_mut().map(|part| &mut part[..]))
    }

    /// The natural logarithms, put together.
    fn log_sums(&self) -> Vec<E> {
        let [maxima, logs] = &self.0;
        let log_2 = E::Wide::from_f64(LN_2);
        let both = |(&max, &log): (&E::Wide, &E::Wide)| E::narrow((max + log) * log_2);
        maxima.iter().zip(logs).map(both).collect()
    }
}

/// What a rule keeps of the result that it is for.
enum Kept<E> {
    Out(AnyTensor<E>),
    LogSums,
    Weights(AnyTensor<E>),
    Scores,
}

impl<E: Float> Kept<E> {
    /// This result's gradient, in the words of the kernel.
    fn given<'g>(&'g self, d: &'g AnyTensor<E>) -> Given<'g, E> {
        match self {
            Kept::Out(out) => Given::Out(d.view(), out.view()),
            Kept::LogSums => Given::LogSums(d.view()),
            Kept::Weights(weights) => Given::Weights(d.view(), weights.view()),
            Kept::Scores => Given::Scores(d.view()),
        }
    }
}

/// One of the results, recorded with what its gradients need.
fn record<E: Float>(
    result: AnyTensor<E>,
    attention_of: &Attention,
    operands: &Operands<E>,
    sums: Option<&Arc<SumsKept<E>>>,
    kept: Kept<E>,
) -> AnyTensor<E> {
    result.recorded(&operands.inputs(), || {
        let wanted: Vec<bool> = operands.inputs().iter().map(|input| input.is_recorded()).collect();
        let (attention_of, operands, sums) = (*attention_of, operands.detached(), sums.cloned());
        move |d| {
            let sums = sums.as_ref().map(|sums| &sums.0);
            gradients(&attention_of, &operands, sums, kept.given(d), &wanted)
        }
    })
}

/// The gradients of the inputs, in their order.
fn gradients<E: Float>(
    attention_of: &Attention,
    operands: &Operands<E>,
    sums: Option<&[Vec<E::Wide>; 2]>,
    given: Given<E>,
    wanted: &[bool],
) -> Vec<Option<AnyTensor<E>>> {
    let (settings, mask) = (operands.settings(attention_of), operands.mask.lent());
    let sums = sums.map(|sums| sums.each_ref().map(|part| &part[..]));
    let together = operands.together.is_some();
    let forward =
        Forward { views: operands.views(), settings: &settings, mask: &mask, sums, together };
    let (first, biases) = (operands.activations().len(), operands.mask.bias.len());
    let of_scores = wanted[first..first + biases].contains(&true);
    let found = attention_backward(&forward, given, of_scores);
    let typed = |like: &AnyTensor<E>, data| Some(AnyTensor::from_packed(like.dims(), data));
    let [q, k, v] = &operands.heads;
    // Values have a part in the output alone.
    let of_values = matches!(given, Given::Out(..)).then_some(found.v);
    let mut all = match &operands.together {
        Some(together) => vec![typed(together, found.q)],
        None => {
            vec![typed(q, found.q), typed(k, found.k), of_values.and_then(|data| typed(v, data))]
        }
    };
    if of_scores {
        let (extra, dims) = (operands.mask.extra, scores_of(q, k));
        let scores = AnyTensor::from_packed(&dims, found.scores);
        let own = scores.viewed(scores.layout().sliced(3, extra, dims[3] - extra));
        all.extend(operands.mask.bias.iter().map(|_| Some(own.clone())));
    } else {
        all.extend(operands.mask.bias.iter().map(|_| None));
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
    all.into_iter().zip(wanted).map(|(gradient, &wanted)| gradient.filter(|_| wanted)).collect()
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
