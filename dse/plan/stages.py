"""Which layers each pipeline stage has, and the few kinds of stages that differ."""

from functools import cache
from typing import NamedTuple

from dse.plan.model import Transformer


class StageKind(NamedTuple):
    """Stages of one composition.

    Attributes:
        first: the first stage of this kind, which keeps the most microbatches.
        number: how many there are.
        dense, sparse: layers without and with experts; of the last stage also those that predict later tokens.
        has_embedding, has_head: whether the ends lie here.
        partner: the kind of the stage on the same device; itself where each has its own.
    """

    first: int
    number: int
    dense: int
    sparse: int
    has_embedding: bool
    has_head: bool
    partner: int


@cache
def stage_layers(layers: int, pipeline: int, first: int = 0, last: int = 0) -> tuple[int, ...]:
    """Layers of each stage: equal, and where they are not, those in the middle have one more than the ends.

    Where ``first`` or ``last`` is not 0, that stage has so many, and the others are equal among themselves.
    """
    given = {stage: count for stage, count in ((0, first), (pipeline - 1, last)) if count}
    order = [*range(pipeline - 2, 0, -1), 0, pipeline - 1][:pipeline] if pipeline > 1 else [0]
    order = [stage for stage in order if stage not in given]
    each, rest = divmod(layers - sum(given.values()), max(1, len(order)))
    larger = set(order[:rest])
    return tuple(given.get(stage, each + (stage in larger)) for stage in range(pipeline))


def chunk_layers(counts: tuple[int, ...], interleave: int) -> tuple[tuple[int, ...], ...]:
    """Layers of each chunk, by round and stage: a stage's first chunks have one more where they are not equal."""
    return tuple(
        tuple(count // interleave + (chunk < count % interleave) for count in counts) for chunk in range(interleave)
    )


@cache
def _dense_layers(counts: tuple[int, ...], dense: int, interleave: int) -> tuple[int, ...]:
    """Layers without experts of each stage: they come first, and chunks go round the stages."""
    totals, left = [0] * len(counts), dense
    for sizes in chunk_layers(counts, interleave):
        for stage, size in enumerate(sizes):
            taken = min(left, size)
            totals[stage] += taken
            left -= taken
    return tuple(totals)


def stage_kinds(
    model: Transformer, pipeline: int, interleave: int, first: int = 0, last: int = 0, paired: bool = False
) -> tuple[StageKind, ...]:
    """The distinct stages, in the order of their first one.

    Where they are ``paired``, a device has stages i and p − 1 − i, and stages whose partners differ are distinct too.
    """
    counts = stage_layers(model.layers, pipeline, first, last)
    dense = _dense_layers(counts, model.dense_layers, interleave)
    stages: list[tuple[int, int, bool, bool]] = []
    for stage, (count, plain) in enumerate(zip(counts, dense, strict=True)):
        is_last, with_experts = stage == pipeline - 1, count - plain
        if is_last and model.has_expert_layers:
            with_experts += model.prediction_layers
        elif is_last:
            plain += model.prediction_layers
        stages.append((plain, with_experts, stage == 0, is_last))
    partners = stages[::-1] if paired else stages
    kinds: dict[tuple[tuple[int, int, bool, bool], tuple[int, int, bool, bool]], list[int]] = {}
    for stage, pair in enumerate(zip(stages, partners, strict=True)):
        kinds.setdefault(pair, []).append(stage)
    places = {pair: place for place, pair in enumerate(kinds)}
    return tuple(
        StageKind(those[0], len(those), *own, places[other, own] if paired else places[own, other])
        for (own, other), those in kinds.items()
    )
