"""Which layers each pipeline stage has, and the few kinds of stages that differ."""

from functools import cache, lru_cache
from typing import NamedTuple


class StageKind(NamedTuple):
    """Stages of one composition.

    Attributes:
        first: the first stage of this kind, which keeps the most microbatches.
        number: how many there are.
        has_embedding, has_head: whether the ends lie here.
        partner: the kind of the stage on the same device; itself where each has its own.
        layers: of each kind of the model; of the last stage also those that predict later tokens.
        recomputed: of these, the first of every K.
    """

    first: int
    number: int
    has_embedding: bool
    has_head: bool
    partner: int
    layers: tuple[int, ...]
    recomputed: tuple[int, ...]


class Cut(NamedTuple):
    """How a model is cut into stages: of how many chunks each, with what ends (0: as the others).

    ``is_paired``: a device has stages i and p − 1 − i. ``every``: the first of so many layers of a stage is recomputed.
    """

    pipeline: int
    interleave: int = 1
    first: int = 0
    last: int = 0
    is_paired: bool = False
    every: int = 1


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


class _Stage(NamedTuple):
    layers: tuple[int, ...]
    recomputed: tuple[int, ...]
    is_first: bool
    is_last: bool


@lru_cache(maxsize=4096)
def stage_kinds(kinds: tuple[int, ...], later: int, cut: Cut) -> tuple[StageKind, ...]:
    """The distinct stages, in the order of their first one; where they are paired, by their partners too.

    Args:
        kinds: of each layer, its number among the model's kinds.
        later: layers like the last one that follow it.
        cut: into stages.
    """
    counts = stage_layers(len(kinds), cut.pipeline, cut.first, cut.last)
    those: list[list[int]] = [[] for _ in counts]
    done = 0
    for sizes in chunk_layers(counts, cut.interleave):
        for stage, size in enumerate(sizes):
            those[stage] += kinds[done : done + size]
            done += size
    those[-1] += [kinds[-1]] * later
    number, last = max(kinds) + 1, cut.pipeline - 1
    stages = [
        _Stage(_counts(each, number), _counts(each[:: cut.every], number), stage == 0, stage == last)
        for stage, each in enumerate(those)
    ]
    partners = stages[::-1] if cut.is_paired else stages
    places: dict[tuple[_Stage, _Stage], list[int]] = {}
    for stage, pair in enumerate(zip(stages, partners, strict=True)):
        places.setdefault(pair, []).append(stage)
    order = {pair: place for place, pair in enumerate(places)}
    return tuple(
        StageKind(
            those_of[0], len(those_of), own.is_first, own.is_last,
            order[other, own] if cut.is_paired else order[own, other], own.layers, own.recomputed,
        )
        for (own, other), those_of in places.items()
    )  # fmt: skip


def _counts(layers: list[int], kinds: int) -> tuple[int, ...]:
    """How many of the layers are of each kind."""
    return tuple(map(layers.count, range(kinds)))
