"""Prices of many plans against the definition, plan by plan."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from dse.parallel.pipeline.exact import every
from dse.parallel.pipeline.length import faults, length
from policies.parallel.pipeline.online import rewards
from policies.parallel.pipeline.pricing import Pricing, plan_of
from policies.parallel.pipeline.pricing_kernels import ALL_REDUCE, BALANCE, FITS, LENGTH, SEND
from tests.parallel.pipeline.cases import problems


@settings(max_examples=30)
@given(problems())
def test_prices_are_those_of_the_definition(problem):
    cut = list(itertools.combinations(range(1, problem.profile.points), problem.stages - 1))
    pairs = list(itertools.product(cut[:40], list(every(problem.devices, problem.stages))[:5]))
    cuts, device_cuts = (np.array([pair[of] for pair in pairs], dtype=np.int64) for of in (0, 1))
    pricing = Pricing(problem)
    prices = pricing.prices(cuts, device_cuts)
    root, inverse = (rewards(prices, pricing.unit_s, kind) for kind in ("root", "inverse"))
    for row, (own_cuts, own_devices) in enumerate(zip(cuts, device_cuts, strict=True)):
        plan = plan_of(own_cuts, own_devices)
        of = length(problem, plan)
        lacks_memory = any("bytes per device" in fault for fault in faults(problem, plan))
        times = [stage.forward_s + stage.backward_s for stage in of.stages]
        assert prices[row, LENGTH] == pytest.approx(of.length_s, rel=1e-9)
        assert bool(prices[row, FITS]) is not lacks_memory
        assert prices[row, ALL_REDUCE] == pytest.approx(max(stage.all_reduce_s for stage in of.stages), rel=1e-9)
        assert prices[row, SEND] == pytest.approx(max(stage.send_s for stage in of.stages), rel=1e-9)
        assert prices[row, BALANCE] == pytest.approx(min(times) / max(times), rel=1e-6)
        # The paper's rewards (3.4, 4.4), in units of a batch that keeps all devices busy.
        relative = of.length_s / (sum(problem.profile.forward_s + problem.backward_s) / problem.devices)
        punished = -(relative**-0.5)
        assert root[row] == pytest.approx(punished if lacks_memory else relative**-0.5)
        assert inverse[row] == pytest.approx(punished if lacks_memory else 1 / relative)
