"""A larger area budget adds architectures and takes none away, so it lowers no optimum."""

from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from dse.codesign.check import architecture_faults
from dse.codesign.formats import architecture_solution
from dse.codesign.objective import Per
from hardware.cost_model import cost_model
from hardware.space import architecture_space
from tests.codesign.tiny import tiny_options, tiny_problem
from tests.solving import solve

BUDGETS = ("4", "8", "60")


@pytest.fixture
def few_architectures(monkeypatch):
    """The space of any budget, cut down to a few small cores and all sizes of the global buffer."""

    def few(budget_mm2, model):
        space = architecture_space(budget_mm2, model)
        cores = np.isin(space.tensor_cores, (2, 4)) & (space.vector_cores == 2)
        return space.take(cores & (space.core_width == 16) & (space.core_depth == 16))

    monkeypatch.setattr("dse.codesign.problem.architecture_space", few)


def optimum(folder, budget, **changes):
    changes |= {"area_budget": budget, "hbm_gb": "1", "microbatch": "1", "tensor_parallel": "1"}
    result, _ = solve(tiny_options(folder, **changes))
    return result.objective.value


@pytest.mark.parametrize("objective", get_args(Per))
def test_a_larger_budget_never_lowers_an_optimum(tmp_path, few_architectures, objective):
    values = [optimum(tmp_path, budget, objective=objective) for budget in BUDGETS]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(values)), values


def test_the_floor_of_the_published_space_does(tmp_path, few_architectures):
    values = [optimum(tmp_path, budget, objective="per-mm2", cost_model="phaze-2024") for budget in BUDGETS]
    assert values != sorted(values)


def test_the_smallest_machines_stay_in_the_space_of_a_large_budget():
    small, large = architecture_space(3.42), architecture_space(20.0)
    assert large.area_mm2.min() == small.area_mm2.min()
    published = cost_model("phaze-2024")
    several = [
        space.area_mm2[(space.tensor_cores > 1) & (space.vector_cores > 1)].min()
        for space in (architecture_space(20.0, published), large)
    ]
    assert several[0] >= 0.3 * 20.0 > several[1]


def test_the_checker_knows_the_floor_of_the_published_space_only(tmp_path):
    ours = replace(tiny_problem(tmp_path), area_budget_mm2=20.0)
    job = replace(ours.jobs[0], cost_model=cost_model("phaze-2024"))
    published = replace(ours, jobs=(job,))
    machines = ours.machines()
    small = int(((machines.tensor_cores > 1) & (machines.vector_cores > 1) & (machines.area_mm2 < 5.0)).argmax())
    stated = architecture_solution(machines, small)
    assert architecture_faults(ours, stated) == []
    (fault,) = architecture_faults(published, stated)
    assert fault.startswith("the area must be in [6.0, 20.0] mm²")
