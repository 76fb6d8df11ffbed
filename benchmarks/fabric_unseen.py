"""Placements of families of graphs that no learned cost was trained on, by which all cost models are judged.

Ten families (:data:`FAMILIES`), six graphs of each in random odd sizes: three of inference and three of training, as
far as the fabric holds them. Of each graph, ten placements by annealers with random rules and six by annealers that
follow the packaged student, simulated. They lie in ``benchmarks/data/fabric_unseen`` and stay as they are, so that all
models are judged by the same placements. After a change of the simulator, this module draws, places and simulates them
again.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from benchmarks.fabric_families import Attention, Convolutions, Experts, Gated, Layer, Mixer, Recurrent, StateSpace
from dse.fabric.search.expansion import Expansion, expand
from dse.fabric.search.sites import SitesMissingError
from dse.fabric.setting import tuned_for
from dse.graph.dataflow.graph import GraphPass
from dse.sources.dataflow import dataflow_of, resolve_dataflow
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Piece, labelled, provenance_of
from policies.fabric.data.distribution import expansion_record
from policies.fabric.data.placers import RandomAnnealer, StudentAnnealer
from policies.fabric.data.records import GraphRecord, Samples
from policies.fabric.data.tables import read_samples, write_samples
from policies.fabric.labelled_by import LABELLED_BY
from policies.fabric.methods import SHIPPED
from policies.fabric.student_checkpoint import load_student
from policies.fabric.study.labelled import Labelled

DATA = Path(__file__).parent / "data" / "fabric_unseen"
"""Where the placements are."""

FABRIC = fabric("plasticine-8x16")

GRAPHS = 6
"""Of each family."""

RANDOM, FOLLOWED = 10, 6
"""Placements of a graph by annealers with random rules, and by annealers that follow the student."""

FIRST_GRAPH = 2_000_000
"""Number of the first graph: nothing that models learn from has it."""

MIN_FILL, MAX_FILL = 0.45, 0.9
"""Share of the units that a graph may use, drawn for each."""

MIN_USED, MIN_SLOTS, MAX_SLOTS = 0.3, 10, 400
"""Share of the units that it uses at least, and slots of work of its slowest unit: wider limits than of the blocks that
models learn from (:mod:`dse.fabric.cases`)."""

MAX_COUNT = 16
"""What is drawn from up to this is a number of heads, experts or layers; from more, a size."""

_MAX_DRAWS = 300

Draw = Callable[[int, int], int]
"""Draws a size between two limits, both of which it may have."""


def _experts(draw: Draw) -> Any:
    width = draw(48, 180)
    return Experts(width, draw(64, 260), draw(2, 6)), _tokens(draw, width)


def _grouped_query(draw: Draw) -> Any:
    groups = draw(2, 3)
    heads = groups * draw(2, 4)
    width = heads * draw(17, 47)
    return Attention(width, heads, groups), _tokens(draw, width)


def _multi_query(draw: Draw) -> Any:
    heads = draw(3, 9)
    width = heads * draw(17, 47)
    return Attention(width, heads, 1), _tokens(draw, width)


def _mixer(draw: Draw) -> Any:
    tokens, width = draw(40, 230), draw(48, 260)
    return Mixer(tokens, width, draw(64, 380)), torch.empty(1, tokens, width)


def _patches(draw: Draw) -> Any:
    pixels, width = 3 * draw(7, 16) ** 2, draw(64, 320)
    widths = [pixels, *([width] * draw(2, 4))]
    layers = [nn.Sequential(nn.Linear(*each), nn.LayerNorm(width)) for each in pairwise(widths)]
    return nn.Sequential(*layers), torch.empty(1, 197, pixels)


def _layer(draw: Draw) -> Any:
    groups = draw(1, 3)
    heads = groups * draw(1, 3)
    width = heads * draw(17, 47)
    return Layer(width, heads, groups, draw(width, 4 * width)), _tokens(draw, width)


def _convolutions(draw: Draw) -> Any:
    channels = draw(17, 90)
    image = torch.empty(1, channels, draw(9, 21), draw(9, 21))
    return Convolutions(channels, draw(24, 150), draw(1, 3)), image


def _gated(draw: Draw) -> Any:
    width = draw(48, 230)
    return nn.Sequential(*(Gated(width, draw(80, 600)) for _ in range(draw(1, 3)))), _tokens(draw, width)


def _state_space(draw: Draw) -> Any:
    width = draw(48, 230)
    return StateSpace(width, draw(2, 6), draw(17, 60), draw(12, 70)), _tokens(draw, width)


def _recurrent(draw: Draw) -> Any:
    width, samples = draw(40, 170), draw(33, 190)
    inputs, state = torch.empty(1, samples, width), torch.empty(1, samples, width)
    return Recurrent(width, draw(1, 4)), (inputs, state)


def _tokens(draw: Draw, width: int) -> torch.Tensor:
    return torch.empty(1, draw(40, 260), width)


FAMILIES: Mapping[str, Callable[[Draw], Any]] = {
    "experts": _experts,
    "grouped query": _grouped_query,
    "multi query": _multi_query,
    "mixer": _mixer,
    "patches": _patches,
    "layer": _layer,
    "convolutions": _convolutions,
    "gated": _gated,
    "state space": _state_space,
    "recurrent": _recurrent,
}
"""By name, what draws a PyTorch module with example inputs."""


def drawn(family: str, number: int, here: Fabric = FABRIC, scale: int = 1) -> GraphRecord:
    """The graph of a family with this number among its own, on a fabric, with sizes so many times as large.

    Every other graph is a training step; a family of which none fits has inference alone.

    Raises:
        ValueError: nothing fits.
    """
    place = list(FAMILIES).index(family) * GRAPHS + number
    passes = get_args(GraphPass)
    for graph_pass in dict.fromkeys((passes[number % len(passes)], "forward")):
        generator = np.random.default_rng(FIRST_GRAPH + place)

        def draw(low: int, high: int, generator: np.random.Generator = generator) -> int:
            return int(generator.integers(low, high, endpoint=True)) * (scale if high > MAX_COUNT else 1)

        for _ in range(_MAX_DRAWS):
            fill = float(generator.uniform(MIN_FILL, MAX_FILL))
            graph = dataflow_of(resolve_dataflow(FAMILIES[family](draw)), graph_pass)
            with suppress(SitesMissingError):
                expansion = expand(graph, here, operator_slots(), fill)
                if _is_within_limits(expansion, here):
                    return expansion_record(FIRST_GRAPH + place, family, graph_pass, fill, expansion, here)
    raise ValueError(f"none of {_MAX_DRAWS} graphs of the family {family} fits on {here.name}")


def _is_within_limits(expansion: Expansion, here: Fabric) -> bool:
    """Whether buffers are deep enough, placements matter, and the graph is neither small nor slow to simulate."""
    pipeline = expansion.pipeline
    used = sum(unit.kind.site != "io" for unit in pipeline.units)
    available = sum(kind != "io" for kind in here.grid.site_kind)
    return (
        expansion.period_slots == expansion.target_slots
        and not expansion.is_channel_bound
        and used >= MIN_USED * available
        and MIN_SLOTS <= pipeline.ideal_slots <= MAX_SLOTS
    )


def collect() -> None:
    """Draw, place and simulate the graphs, and write them.

    Raises:
        ValueError: a placement ended in a deadlock, so that graphs would not all count alike.
    """
    provenance = provenance_of(FABRIC, operator_slots())
    student = load_student(SHIPPED, provenance).student
    follower = StudentAnnealer(student, tuned_for(FABRIC).setting.weights)
    graphs, samples, places = {}, [], count(1)
    for family in FAMILIES:
        for number in range(GRAPHS):
            graph = drawn(family, number)
            graphs[graph.number] = graph
            for kind, (placer, many) in enumerate(((RandomAnnealer(), RANDOM), (follower, FOLLOWED))):
                seeds = Piece(kind, graph.number, many, FIRST_GRAPH).seeds()
                samples += labelled(graph, FABRIC, placer, kind, seeds)
            pipeline = graph.pipeline
            sizes = f"{len(pipeline.units)} units, {len(pipeline.nets)} nets, {pipeline.ideal_slots} slots"
            print(f"{next(places)}: {family}, {graph.graph_pass}: {sizes}", flush=True)
    if any(sample.interval_slots is None for sample in samples):
        raise ValueError("a placement ended in a deadlock, so that graphs would not all count alike")
    write_samples(DATA, Samples(graphs, tuple(samples), provenance), compression="brotli")


def unseen(with_encodings: bool = False, with_slots: bool = True) -> Labelled:
    """The placements with their labels.

    Raises:
        ValueError: they were simulated by another simulator or with other slots of operators than today's.
    """
    samples = read_samples(DATA)
    present = provenance_of(FABRIC, operator_slots())
    for name in LABELLED_BY:
        if samples.provenance.get(name) != present[name]:
            raise ValueError(f"{name} has changed; simulate them again: python -m benchmarks.fabric_unseen")
    return Labelled(samples, FABRIC, with_encodings, with_slots)


if __name__ == "__main__":
    collect()
