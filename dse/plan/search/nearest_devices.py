"""The number of devices nearest to a given one that some plan uses in full."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dse.plan.constraints import ALL_DEVICES
from dse.plan.problem import PlanProblem
from dse.plan.rules import context_widths, data_widths, pipeline_depths, tensor_widths
from dse.plan.search.vocabulary import families

_LARGEST_RATIO = 4
"""Numbers of devices that are looked at are at most this much smaller or larger than the given one."""

_TRIED = 256
"""Numbers that are tried, the nearest first: what is fixed of a plan may suit none."""


def nearest_devices(problem: PlanProblem) -> int | None:
    """The number of devices, nearest by ratio, that some plan with what is fixed uses in full.

    None where it is far from the problem's, or none of the nearest suits.
    """
    for count in _products(problem)[:_TRIED].tolist():
        if next(families(replace(problem, devices=count), 1), None) is not None:
            return int(count)
    return None


def _products(problem: PlanProblem) -> NDArray[np.int64]:
    """Products of one width of each axis, the nearest to the problem's devices first; of two as near, the smaller."""
    devices, fixed = problem.devices, dict(problem.fixed)
    free = replace(problem, devices=_LARGEST_RATIO * devices, relaxed=ALL_DEVICES)
    widths = {
        "tensor": tensor_widths(free),
        "context": context_widths(free),
        "pipeline": pipeline_depths(free),
        "data": data_widths(free),
    }
    products = np.ones(1, dtype=np.int64)
    for key, valid in widths.items():
        legal = [fixed[key]] if key in fixed else valid
        products = np.unique(np.multiply.outer(products, np.array(legal, dtype=np.int64)))
        products = products[products <= free.devices]
    products = products[products * _LARGEST_RATIO >= devices]
    distance = np.abs(np.log(products / devices))
    return products[np.lexsort((products, distance))]
