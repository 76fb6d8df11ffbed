"""Hypothesis strategies for small placement problems."""

from hypothesis import strategies as st

from dse.placement.bound import BatchBound
from dse.placement.problem import LayerGraph, PlacementLayer, PlacementProblem

SECONDS = st.integers(0, 12).map(lambda eighths: eighths / 8)
SIZES = st.integers(0, 5).map(float)


NODES = st.sampled_from([{}, {}]) | st.builds(
    dict, node_accelerators=st.integers(1, 6), node_bytes_per_s=st.sampled_from([1.0, 4.0, 20.0])
)
SCHEDULES = st.sampled_from([{}, {"pipeline_schedule": "gpipe"}])
GRANULARITIES = st.sampled_from([{}, {"recompute_granularity": "layer"}])
SETTINGS = st.builds(
    lambda *parts: {key: value for part in parts for key, value in part.items()}, NODES, SCHEDULES, GRANULARITIES
)
"""Optional settings of a problem: nodes with a network of their own, the pipeline's schedule, how it recomputes."""


@st.composite
def layers(draw, count, width):
    always_sliced = draw(st.booleans())
    return tuple(
        PlacementLayer(
            f"layer{position}",
            forward_s=draw(SECONDS),
            backward_s=draw(SECONDS),
            weight_bytes=draw(SIZES),
            activation_bytes=draw(SIZES),
            sliced=width > 1 and (always_sliced or draw(st.booleans())),
            update_s=draw(st.sampled_from([0.0, 0.0, 0.5])),
        )
        for position in range(count)
    )


@st.composite
def chain_graphs(draw, count, width):
    """Totally ordered layers, with some edges that skip layers."""
    edges = [(position, position + 1, draw(SIZES)) for position in range(count - 1)]
    pairs = [(low, high) for low in range(count) for high in range(low + 2, count)]
    skips = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2)) if pairs else []
    edges += [(low, high, draw(SIZES)) for low, high in skips]
    return LayerGraph(draw(layers(count, width)), tuple(sorted(edges)))


@st.composite
def branching_graphs(draw, count, width):
    """Any directed acyclic graph."""
    pairs = [(low, high) for low in range(count) for high in range(low + 1, count)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = tuple((low, high, draw(SIZES)) for low, high in sorted(chosen))
    return LayerGraph(draw(layers(count, width)), edges)


@st.composite
def problems(draw, graphs=chain_graphs, max_layers=6, widths=((1,), (1, 2), (2,), (1, 2, 4))):
    count = draw(st.integers(1, max_layers))
    chosen = draw(st.sampled_from(widths))
    return PlacementProblem(
        name="random",
        accelerators=draw(st.sampled_from([4, 5, 6, 8, 12])) if 1 not in chosen else draw(st.integers(1, 12)),
        microbatches=draw(st.sampled_from([1, 2, 3, 5, 8, 16])),
        hbm_bytes=float(draw(st.sampled_from([8, 14, 20, 40, 200]))),
        network_bytes_per_s=draw(st.sampled_from([1.0, 4.0, 16.0])),
        recompute=draw(st.booleans()),
        state_factor=draw(st.sampled_from([1.0, 2.0, 3.0])),
        gradient_sync_factor=draw(st.sampled_from([0.0, 2.0, 4.0])),
        tensor_parallel={width: draw(graphs(count, width)) for width in chosen},
        **draw(SETTINGS),
    )


def chain_of(values, sizes=None, **changes):
    """A chain problem of width 1 from (forward_s, backward_s) pairs, roomy unless ``changes`` say otherwise.

    ``sizes`` are (weight_bytes, activation_bytes) pairs.
    """
    sizes = sizes or [(1.0, 1.0)] * len(values)
    graph = LayerGraph(
        tuple(
            PlacementLayer(f"layer{position}", forward, backward, weights, activations, False)
            for position, ((forward, backward), (weights, activations)) in enumerate(zip(values, sizes, strict=True))
        ),
        tuple((position, position + 1, 1.0) for position in range(len(values) - 1)),
    )
    settings = {
        "name": "chain",
        "accelerators": 4,
        "microbatches": 8,
        "hbm_bytes": 1e9,
        "network_bytes_per_s": 1e3,
        "recompute": False,
        "state_factor": 2.0,
        "gradient_sync_factor": 2.0,
        "tensor_parallel": {1: graph},
    }
    return PlacementProblem(**(settings | changes))


def lower_bounds(problem, width, layer_index, forward_s, backward_s, update_s):
    """:class:`BatchBound` for a single use."""
    return BatchBound(problem, width, layer_index)(forward_s, backward_s, update_s)
