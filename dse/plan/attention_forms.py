"""How a layer attends: keys that a token sees, and the widths in which its kernel multiplies; arrays of shape [P]."""

from typing import NamedTuple

import numpy as np

from dse.plan.model import Transformer
from dse.plan.model_parts import LayerKind
from dse.plan.plan_arrays import Floats
from hardware.machines import Machines
from hardware.mapped_kernels import attention_tile_bytes


class AttentionForm(NamedTuple):
    """How a layer attends: keys that a token sees on average, heads of keys, widths of keys and values.

    Attributes:
        is_absorbed: whether all heads share what keys and values are made from, and queries and results have the
            products that would make these.
    """

    seen: float
    keys: Floats
    wide: float
    deep: float
    is_absorbed: bool = False


def form_of(model: Transformer, kind: LayerKind, sequence: int, keys: Floats, fused: bool) -> AttentionForm:
    """The form of ``kind`` on samples of ``sequence`` tokens, of a rank with so many heads of ``keys``.

    Chosen tokens differ by token, so a kernel that skips others reads what keys and values are made from, once for all
    heads; one that masks them sees all tokens in the heads' own widths. The one with fewer FLOPs counts.
    """
    wide, deep = float(model.key_width), float(model.context_width)
    if model.indexer is None or model.latent is None:
        return AttentionForm(model.attended(sequence, kind), keys, wide, deep)
    masked, rank = (sequence + 1) / 2, float(model.latent.key_value_rank)
    whole, seen = rank + model.latent.rotary_width, model.indexer.seen(sequence)
    if not fused or masked * (wide + deep) <= seen * (whole + rank):
        return AttentionForm(masked, keys, wide, deep)
    return AttentionForm(seen, np.ones_like(keys), whole, rank, is_absorbed=True)


def fuses_attention(template: Machines, model: Transformer) -> bool:
    """Whether attention is fused on a template: on one of a node, the memory of whose cores holds a tile of it.

    The template of the PHAZE paper, which has no node, passes scores through memory.
    """
    if template.process_nm is None:
        return False
    sizes = template.core_width, template.core_depth, model.key_width, model.context_width, template.element_bytes
    return bool(np.all(attention_tile_bytes(*sizes) <= template.tensor_l2_bytes))
