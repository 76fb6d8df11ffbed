"""Features of a placement that say how long flits wait for each other, estimated without simulation."""

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Placement
from policies.fabric.model import contention_kernels as kernels
from policies.fabric.model.features import Featurizer

Floats = npt.NDArray[np.float64]

CONTENTION = (
    "switched",
    "second_switched",
    "fourth_switched",
    "eighth_switched",
    "places_period",
    "wait_period",
    "next_wait_period",
    "settled",
    "flit_wait",
    "unit_wait",
    "slow_unit",
    "mean_unit_wait",
    "critical_wait",
    "net_wait",
    "tree_peak",
    "sum_of_nets",
)
"""Names of the features, all of them logarithms of slots of a sample, in slots of the slowest unit in isolation.

A flit *waits* at a link that more nets pass than it has tracks for: as long as in a queue whose server is busy with the
other nets for their share of the period. Links are *switched* after every flit there, and lose dead slots.

- ``switched``: slots of the busiest link; ``second``, ``fourth`` and ``eighth``: of the next ones.
- ``places_period``: the least period without contention, where queues have the places that sharing leaves;
  ``wait_period``: with the waits of a period that is that one, or the busiest link's slots if these are more;
  ``next_wait_period``: with those of that period in turn; ``settled``: the larger one of it and the busiest link's.
- ``flit_wait``: flits of a net times the wait to its slowest sink, on average; ``net_wait``: one more than this wait
  times flits, at most; ``sum_of_nets``: of the fourth powers of the same.
- ``unit_wait``: at a unit, the waits of all nets that it reads, and of those that it sends by links, at most;
  ``mean_unit_wait``: on average; ``slow_unit``: with the unit's slots in isolation, at most; ``critical_wait``: summed
  over units by the fourth power of these.
- ``tree_peak``: slots of a net's busiest link times the fourth root of its sinks, at most.
"""

_LEAST = 1e-3
"""A measure of nothing counts as this much."""


def contention_features(featurizer: Featurizer, placement: Placement) -> Floats:
    """The features of a legal placement, [16], in the order of :data:`CONTENTION`."""
    measures = kernels.contention(
        featurizer.case,
        featurizer.isolated.astype(np.float64),
        placement.site,
        placement.route_first,
        placement.route_link,
    )
    scale = np.full(kernels.MEASURES, featurizer.base_slots)
    scale[kernels.SUM_OF_NETS] = 1.0
    return np.asarray(np.log(np.maximum(measures / scale, _LEAST)), dtype=np.float64)
