"""A larger area budget adds architectures and takes none away, so it lowers no optimum."""

from dataclasses import replace
from itertools import pairwise, product
from typing import get_args

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.codesign.check import architecture_faults
from dse.codesign.formats import architecture_solution
from dse.codesign.objective import OF_CHIPS, Per
from hardware.cost_model import cost_model
from hardware.space import architecture_space, smallest_area_mm2, space_spec
from tests.codesign.tiny import tiny_options, tiny_problem
from tests.solving import solve

BUDGETS = ("4", "8", "60")

NAMES = ("tensor_cores", "vector_cores", "core_width", "core_depth", "global_buffer_bytes")


def space_file(folder, cores=(2, 4), vector_cores=(2,), sides=(16,), buffers=(1, 2, 4, 8, 16), share=None):
    """A space of few small machines."""
    sizes = {
        "tensor_cores": cores,
        "vector_cores": vector_cores,
        "core_widths": sides,
        "core_depths": sides,
        "global_buffer_mib": buffers,
    }
    document = {"name": "few", **{key: {"source": "a test", "values": list(of)} for key, of in sizes.items()}}
    if share is not None:
        document["min_share_of_budget"] = {"value": share, "source": "a test"}
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def optimum(folder, budget, space, **changes):
    changes |= {"area_budget": budget, "hbm_gb": "1", "microbatch": "1", "tensor_parallel": "1", "space": space}
    result, _ = solve(tiny_options(folder, **changes))
    assert result.status == "optimal"
    return result.objective.value


@pytest.mark.parametrize("objective", [per for per in get_args(Per) if per not in OF_CHIPS])
def test_a_larger_budget_never_lowers_an_optimum(tmp_path, objective):
    space = space_file(tmp_path)
    values = [optimum(tmp_path, budget, space, objective=objective) for budget in BUDGETS]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(values)), values


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True)


@settings(max_examples=60, deadline=None)
@given(cores=SIZES, vector_cores=SIZES, sides=SIZES, buffers=SIZES, factors=st.tuples(st.floats(1, 3), st.floats(1, 4)))
def test_a_larger_budget_takes_no_architecture_out_of_any_space(
    tmp_path_factory, cores, vector_cores, sides, buffers, factors
):
    """What an architecture scores does not depend on the budget, so no optimum of any objective falls."""
    folder = tmp_path_factory.mktemp("space")
    space = space_spec(space_file(folder, cores, vector_cores, sides, buffers))
    budgets_mm2 = np.cumprod([smallest_area_mm2(space), *factors])[1:]
    less, more = (
        {tuple(sizes) for sizes in np.stack([getattr(machines, name) for name in NAMES]).T.tolist()}
        for machines in (architecture_space(float(budget_mm2), space=space) for budget_mm2 in budgets_mm2)
    )
    assert less
    assert less <= more <= set(product(cores, vector_cores, sides, sides, [b << 20 for b in buffers]))


def test_a_floor_of_the_space_may(tmp_path):
    space = space_file(tmp_path, share=0.3)
    values = [optimum(tmp_path, budget, space, objective="per-mm2") for budget in BUDGETS]
    assert values != sorted(values)


def test_the_smallest_machines_stay_in_the_space_of_a_large_budget():
    small, large = architecture_space(1.7159), architecture_space(20.0)
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
    several = (machines.tensor_cores > 1) & (machines.vector_cores > 1) & (machines.global_buffer_bytes > 2**20)
    small = int((several & (machines.area_mm2 < 5.0)).argmax())
    stated = architecture_solution(machines, small)
    assert architecture_faults(ours, stated) == []
    (fault,) = architecture_faults(published, stated)
    assert fault.startswith("the area must be in [6.0, 20.0] mm²")
