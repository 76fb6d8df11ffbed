"""The simulator is frozen: a change of what it simulates fails here, and must raise the version of its rules."""

from dataclasses import fields, replace

import numpy as np
import pytest

from dse.fabric.evaluators import fingerprint
from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator, simulate
from hardware.fabric_specs import fabric
from tests.fabric.cases import PLASTICINE, SMALL, compacted, layered_pipeline, placed, random_pipeline


@pytest.mark.parametrize(
    ("seed", "swaps", "interval"),
    [(0, 0, 124.4375), (0, 1000, 104.9375), (1, 100, 139.75), (2, 300, 85.625)],
)
def test_intervals_of_large_pipelines(seed, swaps, interval):
    random = np.random.default_rng(seed)
    pipeline = layered_pipeline(random, 2, 5, 6)
    placement = compacted(pipeline, PLASTICINE, random, swaps)
    assert throughput(Simulator(pipeline, PLASTICINE), placement).interval_slots == interval


@pytest.mark.parametrize(
    ("seed", "departures"),
    [
        (0, (42, 51, 81, 92)),
        (1, (55, 70, 99, 128)),
        (2, (44, 59, 76, 90)),
        (3, (42, 63, 90, 111)),
        (4, (72, 89, 101, 112)),
    ],
)
def test_departures_of_small_pipelines(seed, departures):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, SMALL)
    assert simulate(pipeline, placed(pipeline, SMALL, random), SMALL, 4).departures == departures


def test_the_fingerprint_is_of_all_constants_but_the_name(monkeypatch):
    print_of = simulator_fingerprint(PLASTICINE)
    assert print_of == simulator_fingerprint(replace(PLASTICINE, name="other"))
    assert print_of != simulator_fingerprint(fabric("sn10"))
    changed = {"pattern": ("CM",), "io_edges": ("west",), "absent": ((0, 0),), "max_flow_flits": 7}
    for each in fields(PLASTICINE):
        if each.name != "name":
            value = changed.get(each.name) or getattr(PLASTICINE, each.name) + 1
            assert simulator_fingerprint(replace(PLASTICINE, **{each.name: value})) != print_of
    monkeypatch.setattr(fingerprint, "RULES_VERSION", fingerprint.RULES_VERSION + 1)
    assert simulator_fingerprint(PLASTICINE) != print_of
