//! What attention records of itself in training.

use super::MaskParts;
use super::parts::Start;
use super::scaled::Attention;
use crate::element::Float;
use crate::kernel::attention::{
    Forward, Out, Relative, Settings, attention, attention_backward, attention_to,
};
use crate::kernel::layout::{Layout, View, count};
use crate::tensor::AnyTensor;

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
    let recorded = {
        let relative = relative.iter().flat_map(RelativeParts::inputs);
        heads.into_iter().chain(mask.inputs()).chain(relative).any(AnyTensor::is_recorded)
    };
    if !recorded {
        let relative = relative.as_ref().map(RelativeParts::lent);
        let settings = Settings { relative, ..attention_of.settings(queries.dims()[3]) };
        attention(heads.map(AnyTensor::view), &settings, &mask.lent(), &mut out);
        return AnyTensor::in_layout(layout, out);
    }
    let operands = Operands { heads: heads.map(Clone::clone), mask: mask.clone(), relative };
    let mut log_sums = vec![E::default(); count(&queries.dims()[..3])];
    let to = Out { out: &mut out, weights: None, log_sums: Some(&mut log_sums) };
    attention_to(operands.views(), &operands.settings(attention_of), &mask.lent(), to);
    let out = AnyTensor::in_layout(layout, out);
    let attention_of = *attention_of;
    out.clone().recorded(&operands.inputs(), || {
        let wanted: Vec<bool> = operands.inputs().iter().map(|input| input.is_recorded()).collect();
        let operands = operands.detached();
        move |d_out| gradients(&attention_of, &operands, (&out, &log_sums), d_out, &wanted)
    })
}

/// The gradients of the inputs, in their order.
fn gradients<E: Float>(
    attention_of: &Attention,
    operands: &Operands<E>,
    (out, log_sums): (&AnyTensor<E>, &[E]),
    d_out: &AnyTensor<E>,
    wanted: &[bool],
) -> Vec<Option<AnyTensor<E>>> {
    let (settings, mask) = (operands.settings(attention_of), operands.mask.lent());
    let forward = Forward {
        views: operands.views(),
        settings: &settings,
        mask: &mask,
        out: out.view(),
        log_sums,
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
