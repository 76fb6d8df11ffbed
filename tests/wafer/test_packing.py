"""Arrangements on wafers that no rows fit: found, or proven impossible, as a plain search over all places says."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dse.results.result import read_result
from dse.run.executor import InProcessExecutor
from dse.wafer.check import cost, violations
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.packing import packed, packing, unpackable
from dse.wafer.problem import Weights
from dse.wafer.search.context import SearchContext
from dse.wafer.shapes import MAX_TICKS, shape_table
from dse.wafer.shortfall import infeasibility
from dse.wafer.sweep.report import rows
from tests.solving import answer, faults
from tests.wafer.brute_force import all_shapes
from tests.wafer.small import conv_line, graph_text, problem_from


def fits_by_trying(problem):
    """Whether some shapes and places of all kernels do not overlap."""
    wafer = problem.wafer
    sizes = [{(wide, high) for *_, wide, high in all_shapes(problem, kernel)} for kernel in problem.kernels]

    def extend(number, taken):
        if number == len(sizes):
            return True
        for wide, high in sizes[number]:
            for x, y in product(range(wafer.width_tiles - wide + 1), range(wafer.height_tiles - high + 1)):
                spot = taken[x : x + wide, y : y + high]
                if not spot.any():
                    spot[:] = True
                    if extend(number + 1, taken):
                        return True
                    spot[:] = False
        return False

    return extend(0, np.zeros((wafer.width_tiles, wafer.height_tiles), dtype=bool))


def tight_problem(rng):
    count = int(rng.integers(2, 5))
    nodes = [
        conv_line(number, height=1, width=1, inputs=int(rng.integers(1, 5)), outputs=int(rng.integers(1, 4)))
        for number in range(1, count + 1)
    ]
    edges = [(f"conv[{number}]", f"conv[{number + 1}]") for number in range(1, count)]
    sides = {"width": int(rng.integers(3, 8)), "height": int(rng.integers(3, 8))}
    return problem_from(graph_text(nodes, edges, memory=int(rng.integers(1, 6)), **sides))


@pytest.mark.parametrize("seed", [0, 1])
def test_small_wafers_against_all_arrangements(seed):
    rng, seen = np.random.default_rng(seed), set()
    for _ in range(100):
        problem = tight_problem(rng)
        if infeasibility(problem) is not None:
            continue
        found = packing(problem, shape_table(problem), MAX_TICKS, 10.0)
        fits = fits_by_trying(problem)
        assert (found.placement is not None, found.impossible) == (fits, not fits)
        seen.add(fits)
        if found.placement is not None:
            assert violations(problem, found.placement) == []
    assert seen == {True, False}


@pytest.fixture
def pinwheel(tmp_path):
    """Four kernels of 3 × 2 tiles at least around an empty one: no rows, no columns and no slicing tree."""
    path = tmp_path / "pinwheel.kgraph"
    edges = [(f"conv[{number}]", f"conv[{number + 1}]") for number in range(1, 4)]
    path.write_text(graph_text([conv_line(number) for number in range(1, 5)], edges, width=5, height=5))
    return path


@pytest.fixture
def flat(tmp_path):
    """Twice 6 × 2 tiles at least on 8 × 3: as many as there are."""
    path = tmp_path / "flat.kgraph"
    nodes = [conv_line(number, height=1, width=1, inputs=1, outputs=2) for number in (1, 2)]
    path.write_text(graph_text(nodes, [], width=8, height=3, memory=2))
    return path


def test_a_pinwheel_is_found(pinwheel, tmp_path):
    options = WaferOptions(str(pinwheel), moves=1000)
    assert METHODS["rows"](SearchContext(options.problem(), InProcessExecutor())).placement is None
    result = answer(options)
    assert result.status in ("feasible", "optimal")
    # Each kernel is beside the next: half of both sides in one direction, half a tile in the other.
    assert result.metrics["distance"] == 3 * (2.5 + 0.5)
    assert faults(result) == []
    assert answer(options).solution == result.solution


def test_shorter_times_are_tried_where_time_counts(pinwheel):
    problem = WaferOptions(str(pinwheel)).problem()
    roomy = replace(problem, wafer=replace(problem.wafer, width_tiles=12, height_tiles=9))
    table = shape_table(roomy)
    slow = packing(roomy, table, MAX_TICKS, 10.0).placement
    fast = packed(SearchContext(roomy, InProcessExecutor()))
    blind = packed(SearchContext(replace(roomy, weights=Weights(0.0, 1.0, 0.0)), InProcessExecutor()))
    assert fast.cost.time < cost(roomy, slow).time
    assert fast.total <= cost(roomy, slow).total
    assert (blind.evaluations, fast.evaluations > 2) == (2, True)
    assert violations(roomy, fast.placement) == []


def test_what_cannot_be_arranged_is_proven_and_proven_again(dse, flat, tmp_path):
    problem = WaferOptions(str(flat)).problem()
    assert infeasibility(problem) is None
    shown = dse("wafer", flat, "--workers", 0, "--moves", 100, "--out", tmp_path / "run")
    assert shown.code == 1
    words = "add up to 24 of 24 tiles, but they cannot be arranged on the 8 × 3 grid without overlap"
    assert f"Proven infeasible: the smallest rectangles of all kernels {words}" in shown.out
    result = read_result(tmp_path / "run" / "result.json")
    assert result.infeasibility.resource == "arrangement"
    assert result.metrics["unfinished"] == []
    assert dse("check", tmp_path / "run" / "result.json").out.strip() == "ok"
    wider = tmp_path / "wider.kgraph"
    wider.write_text(flat.read_text().replace("width=8", "width=12"))
    claimed = result.model_copy(update={"settings": WaferOptions(str(wider)).document()})
    assert any("not be infeasible" in each for each in faults(claimed))


def test_a_sweep_says_the_same_of_turned_wafers(flat, tmp_path):
    options = WaferOptions(str(flat), moves=100, sweep=("width=3,8,12", "height=3,8"))
    result = answer(options)
    points = result.solution["points"]
    assert {name for name, each in points.items() if each["status"] == "infeasible"} == {
        "width-3-height-3", "width-3-height-8", "width-8-height-3"
    }  # fmt: skip
    assert points["width-3-height-8"]["infeasibility"]["resource"] == "arrangement"
    assert "8 × 3" in points["width-8-height-3"]["infeasibility"]["explanation"]
    assert faults(result) == []
    assert "infeasible: kernels cannot be arranged" in str(rows(options.problem(), options, result))


def test_a_stop_ends_it(pinwheel):
    problem = WaferOptions(str(pinwheel)).problem()
    context = SearchContext(problem, InProcessExecutor(), stop=lambda: "time limit")
    assert packed(context).placement is None
    assert unpackable(problem, lambda: "time limit") is None
