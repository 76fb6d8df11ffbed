import itertools
import math
from dataclasses import replace

from hypothesis import assume, given, settings

from dse.parallel.pipeline.exact import every, solve
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.memory import least_memory_bytes
from tests.parallel.pipeline.cases import plans, problems


@settings(max_examples=40, deadline=None)
@given(problems())
def test_the_least_memory_is_that_of_enumeration(problem):
    problem = replace(problem, memory_bytes=None)
    splits = list(itertools.islice(every(problem.devices, problem.stages), 8))
    needed = [max(each.device_bytes for each in length(problem, plan).stages) for plan in plans(problem, splits)]
    assume(needed)
    least = least_memory_bytes(problem, splits)
    assert least == math.ceil(min(needed)) or abs(least - min(needed)) <= 1
    assert solve(replace(problem, memory_bytes=least + 1), splits).plan is not None
    assert solve(replace(problem, memory_bytes=least - 1), splits).plan is None
