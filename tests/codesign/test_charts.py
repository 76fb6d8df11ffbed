"""The page of a large co-search, made of synthetic points: small, and without machines of other process nodes."""

from types import SimpleNamespace

import numpy as np
import pytest

from dse.codesign.report.charts import architectures, pareto, search_path
from dse.report.chart import Crowd, Points
from dse.report.page import document, figure

COUNT = 59_748
"""Architectures of the largest space."""

MAX_BYTES = 1_500_000


def synthetic(evaluated):
    generator = np.random.default_rng(0)
    bound = generator.uniform(0, 1e5, COUNT)
    score = np.full(COUNT, np.nan)
    score[:evaluated] = 0.9 * bound[:evaluated]
    names = ("tensor_cores", "core_width", "core_depth", "vector_cores", "vector_lanes", "global_buffer_bytes")
    column = {name: generator.integers(1, 256, COUNT) for name in names}
    return column | {"area_mm2": generator.uniform(1, 280, COUNT), "bound": bound, "score": score}


def made_up(column):
    best = int(np.nanargmax(column["score"]))
    plan = {"throughput_per_s": 5e4}
    baselines = [
        {"name": "other node", "area_mm2": 600.0, "process_nm": 7.0, "plan": plan},
        {"name": "same node", "area_mm2": 200.0, "process_nm": 22.0, "plan": plan},
    ]
    return SimpleNamespace(
        status="optimal",
        bound=1e5,
        settings={"models": ["one"], "mean": "arithmetic"},
        objective=SimpleNamespace(name="throughput", unit="samples/s", value=float(column["score"][best])),
        solution={"models": {"one": plan}, "architecture": {"area_mm2": float(column["area_mm2"][best])}},
        metrics={"baselines": {"one": baselines}},
    )


@pytest.mark.parametrize("evaluated", [2, COUNT])
def test_a_page_of_all_architectures_is_small_and_tells_the_best_apart(evaluated):
    column = synthetic(evaluated)
    result = made_up(column)
    space, path = architectures(column, result), search_path(column, result)
    point = {"architecture": dict.fromkeys(column, 1), "area_mm2": 1.0, "score": 2.0, "power_w": 3.0, "proven": True}
    front = pareto({"points": [point | {"power_w": float(at)} for at in range(500)]}, "samples/s")
    page = document("large", map(figure, (space, path, front)), "")
    assert len(page.encode()) <= MAX_BYTES
    named = next(mark for mark in space.marks if isinstance(mark, Points) and "exact" in mark.name)
    assert max(named.y) == np.nanmax(column["score"])
    crowds = [mark for mark in space.marks if isinstance(mark, Crowd)]
    assert sum(len(mark.x) for mark in crowds if mark.name != "upper bound") + len(named.x) == evaluated


def test_a_machine_of_another_process_node_does_not_stretch_the_area_axis():
    column = synthetic(2)
    marks = architectures(column, made_up(column)).marks
    assert "same node" in [mark.name for mark in marks]
    assert "other node" not in [mark.name for mark in marks]
    assert max(max(mark.x) for mark in marks) < 300
