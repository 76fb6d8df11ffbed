import itertools
import math
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings

from dse.parallel.pipeline.exact import every, solve
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.memory import min_memory_bytes
from dse.parallel.pipeline.problem import PipelineProblem, Profile
from hardware.network_specs import network
from tests.parallel.pipeline.cases import plans, problems


@settings(max_examples=40, deadline=None)
@given(problems())
def test_the_least_memory_is_that_of_enumeration(problem):
    problem = replace(problem, memory_bytes=None)
    splits = list(itertools.islice(every(problem.devices, problem.stages), 8))
    needed = [max(each.device_bytes for each in length(problem, plan).stages) for plan in plans(problem, splits)]
    assume(needed)
    least = min_memory_bytes(problem, splits)
    assert least == math.ceil(min(needed)) or abs(least - min(needed)) <= 1
    assert solve(replace(problem, memory_bytes=least + 1), splits).plan is not None
    assert solve(replace(problem, memory_bytes=least - 1), splits).plan is None


def test_memory_that_fits_no_plan_is_not_called_the_least_where_inputs_are_kept():
    # A stage that begins later fits less far here, since it keeps a larger input.
    points = 8
    profile = Profile(
        forward_s=np.full(points, 0.125),
        backward_s=np.full(points, 0.25),
        cut_bytes=np.array([0, 160, 160, 20, 160, 160, 40, 160, 0]) * 1_000_000,
        weight_bytes=np.array([133, 293, 0, 9, 0, 374, 191, 0]) * 1_000,
        variables=np.array([1, 1, 0, 1, 0, 1, 1, 0]),
        stash_bytes=np.array([10, 90, 19, 29, 85, 42, 63, 55]) * 1_000_000,
    )
    problem = PipelineProblem(profile, network("dapple"), devices=4, stages=3, microbatches=1, recompute=True)
    splits = list(every(4, 3))
    needed = [max(each.device_bytes for each in length(problem, plan).stages) for plan in plans(problem, splits)]
    assert abs(min_memory_bytes(problem, splits) - min(needed)) <= 1
