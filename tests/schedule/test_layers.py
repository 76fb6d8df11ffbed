"""Layers of transformers: the cases that co-search meets."""

import numpy as np
import pytest

from dse.schedule.formats import read_problem
from dse.schedule.search.layer import Layer, _times, solve_many
from dse.schedule.search.reduce import interchangeable_chains
from dse.schedule.search.segment_search import SearchLimits
from dse.schedule.search.unit_problem import unit_problem
from dse.schedule.solve import solve, solve_search
from tests.schedule.layers import backward_layer, columns_of, heads_layer
from tests.shared_data import shared_data

CORES = [(1, 1), (1, 8), (2, 4), (4, 4), (8, 2), (16, 512), (256, 16), (1024, 1024)]


def test_four_heads_are_the_shared_case():
    shared = read_problem(shared_data("schedule", "heads4.json"))
    ours = heads_layer(4, 2, 4)
    assert sorted(ours.edges) == sorted(shared.edges)
    for mine, theirs in zip(ours.operators, shared.operators, strict=True):
        assert (mine.name, mine.kind) == (theirs.name, theirs.kind)
        assert (mine.single_s, mine.all_cores_s) == pytest.approx((theirs.single_s, theirs.all_cores_s), rel=1e-12)


@pytest.mark.parametrize("heads", [2, 3, 5])
def test_equal_heads_are_interchangeable(heads):
    units = unit_problem(heads_layer(heads, 2, 4))
    twins = units.twin_before
    assert np.count_nonzero(twins >= 0) == 6 * (heads - 1) + 1  # query and key projections are twins too
    for op, twin in enumerate(twins.tolist()):
        if twin >= 0:
            assert units.kind[op] == units.kind[twin]
            assert units.single[op] == units.single[twin]


def test_unequal_chains_are_not_interchangeable():
    kind = np.zeros(4, np.int8)
    covers = np.zeros((4, 4), np.bool_)
    covers[2, 0] = covers[3, 1] = True
    missing = np.full(4, 1 << 60)
    assert interchangeable_chains(kind, np.array([1, 1, 5, 5]), missing, covers).tolist() == [-1, 0, -1, 2]
    assert interchangeable_chains(kind, np.array([1, 1, 5, 6]), missing, covers).tolist() == [-1, -1, -1, -1]
    covers[3, 0] = True
    assert interchangeable_chains(kind, np.array([1, 1, 5, 5]), missing, covers).tolist() == [-1, -1, -1, -1]


@pytest.mark.parametrize(("heads", "cores"), [(3, (2, 4)), (4, (4, 4)), (6, (1, 1)), (16, (1, 8)), (16, (4, 4))])
def test_heads_are_proven(heads, cores):
    assert solve(heads_layer(heads, *cores)).optimal


@pytest.mark.parametrize("cores", CORES)
def test_no_gap_of_a_backward_layer_is_wide(cores):
    """Most are proven within fewer states than :func:`solve` takes, and no gap is wide."""
    solutions = [solve_search(backward_layer(seed, *cores), SearchLimits(nodes=50_000)) for seed in range(3)]
    for solution in solutions:
        assert solution.bound_s >= 0.97 * solution.schedule.makespan_s


def test_backward_columns_are_mostly_proven():
    """The same layer on many architectures, as co-search asks for it."""
    columns = [backward_layer(seed, *cores) for seed in range(2) for cores in CORES]
    makespan, bound = solve_many(*columns_of(columns))
    assert np.all(bound <= makespan)
    assert np.mean(bound == makespan) >= 0.9


def test_remembered_segments_are_told_apart_by_all_that_was_asked():
    posed = heads_layer(3, 2, 4)
    layer = Layer([each.kind for each in posed.operators], posed.edges)
    single, all_cores = (
        np.array([getattr(each, name) for each in posed.operators]) for name in ("single_s", "all_cores_s")
    )
    asked = [
        (single, all_cores, 2, 4),
        (single, all_cores, 2, 2),
        (single, all_cores, 1, 4),
        (2 * single, all_cores, 2, 4),
        (single, 0.5 * all_cores, 2, 4),
        (single.astype(np.float32), all_cores, 2, 4),
    ]
    remembered = [layer.makespan(*each) for each in asked]
    for each, times in zip(asked, remembered, strict=True):
        _times.cache_clear()
        assert layer.makespan(*each) == times
    assert len({times[0] for times in remembered[:5]}) == 5
    assert remembered[5][0] == pytest.approx(remembered[0][0], rel=1e-5)
