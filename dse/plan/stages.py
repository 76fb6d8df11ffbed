"""Which layers each pipeline stage has, and the few kinds of stages that differ."""

from functools import cache
from typing import NamedTuple

from dse.plan.model import Transformer


class StageKind(NamedTuple):
    """Stages of one composition.

    Attributes:
        first: the first stage of this kind, which keeps the most microbatches.
        number: how many there are.
        dense, sparse: layers without and with experts.
        has_embedding, has_head: whether the ends lie here.
    """

    first: int
    number: int
    dense: int
    sparse: int
    has_embedding: bool
    has_head: bool


@cache
def stage_layers(layers: int, pipeline: int) -> tuple[int, ...]:
    """Layers of each stage: equal, and where they are not, those in the middle have one more than the ends."""
    each, rest = divmod(layers, pipeline)
    order = [*range(pipeline - 2, 0, -1), 0, pipeline - 1][:pipeline] if pipeline > 1 else [0]
    larger = set(order[:rest])
    return tuple(each + (stage in larger) for stage in range(pipeline))


def chunk_layers(counts: tuple[int, ...], interleave: int) -> tuple[tuple[int, ...], ...]:
    """Layers of each chunk, by round and stage: a stage's first chunks have one more where they are not equal."""
    return tuple(
        tuple(count // interleave + (chunk < count % interleave) for count in counts) for chunk in range(interleave)
    )


@cache
def _dense_layers(layers: int, dense: int, pipeline: int, interleave: int) -> tuple[int, ...]:
    """Layers without experts of each stage: they come first, and chunks go round the stages."""
    found, left = [0] * pipeline, dense
    for sizes in chunk_layers(stage_layers(layers, pipeline), interleave):
        for stage, size in enumerate(sizes):
            taken = min(left, size)
            found[stage] += taken
            left -= taken
    return tuple(found)


def stage_kinds(model: Transformer, pipeline: int, interleave: int) -> tuple[StageKind, ...]:
    """The distinct stages, in the order of their first one."""
    counts = stage_layers(model.layers, pipeline)
    dense = _dense_layers(model.layers, model.dense_layers, pipeline, interleave)
    kinds: dict[tuple[int, int, bool, bool], list[int]] = {}
    for stage, (count, plain) in enumerate(zip(counts, dense, strict=True)):
        kinds.setdefault((plain, count - plain, stage == 0, stage == pipeline - 1), []).append(stage)
    return tuple(StageKind(stages[0], len(stages), *kind) for kind, stages in kinds.items())
