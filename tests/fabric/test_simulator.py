"""The compiled simulator against the plain one."""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators import reference, simulator
from tests.fabric.cases import SMALL, placed, random_pipeline

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)


@RELAXED
@given(st.integers(0, 2**32 - 1), st.data())
def test_the_compiled_simulator_does_what_the_plain_one_does(seed, data):
    random = np.random.default_rng(seed)
    fabric = replace(
        SMALL,
        tracks=data.draw(st.integers(1, 2)),
        hop_slots=data.draw(st.integers(1, 3)),
        buffer_flits=data.draw(st.integers(1, 8)),
        min_flow_flits=1,
        max_flow_flits=data.draw(st.integers(1, 5)),
        burst_flits=data.draw(st.integers(1, 4)),
        switch_slots=data.draw(st.integers(0, 2)),
        read_ports=data.draw(st.integers(1, 2)),
        write_ports=data.draw(st.integers(1, 2)),
        port_slots=data.draw(st.integers(1, 2)),
        port_flits=data.draw(st.integers(1, 3)),
        channel_bytes_per_s=data.draw(st.sampled_from([1e9, 12.8e9])),
        channel_latency_s=data.draw(st.sampled_from([0.0, 1e-4])),
    )
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    fed = data.draw(st.sampled_from([None, 5]))
    assert simulator.simulate(pipeline, placement, fabric, 5, fed) == reference.simulate(
        pipeline, placement, fabric, 5, fed
    )
