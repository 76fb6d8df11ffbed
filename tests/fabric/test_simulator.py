"""The compiled simulator against the plain one."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators import reference, simulator
from tests.fabric.cases import SMALL_FABRICS, placed, random_pipeline

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)


@RELAXED
@given(st.integers(0, 2**32 - 1), SMALL_FABRICS, st.sampled_from([None, 5]))
def test_the_compiled_simulator_does_what_the_plain_one_does(seed, fabric, fed):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    assert simulator.simulate(pipeline, placement, fabric, 5, fed) == reference.simulate(
        pipeline, placement, fabric, 5, fed
    )
