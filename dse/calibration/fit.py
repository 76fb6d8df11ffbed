"""Fitting the constants of a spec to measured silicon.

Rows of even index (0-based) are for fitting, those of odd index only
for reporting, so that the reported error is of rows the fit has not seen. Constants are per kind of operation, none
per shape; the objective is the mean squared *relative* error, so that microseconds count as much as milliseconds.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dse.calibration.rows import MeasuredAllReduce, MeasuredKernel
from hardware.estimator import estimate
from hardware.machines import KernelConstants, Machines
from hardware.network import Network, used_channels

Row = TypeVar("Row")
Floats = NDArray[np.float64]

_NETWORK_ROUNDS = 400
"""Rounds of the network fit; each goes half the way (in the logarithm) to the next least-squares solution."""

_FIRST_STEP = 0.1
_LAST_STEP = 1e-4
"""Relative steps of the coordinate search over kernel constants: halved from the first down to the last."""

_GRID_EFFICIENCIES = (0.95, 0.8, 0.65, 0.5, 0.35, 0.2)
_STARTS = 12
"""The coarse grid of rates, and how many of its best points the search starts from."""

FITTED_CONSTANTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gemm": ("launch_s", "efficiency", "memory_efficiency", "buffer_efficiency"),
        "softmax": ("launch_s", "efficiency"),
        "layer_norm": ("launch_s", "floor_s", "memory_efficiency"),
        "gelu": ("launch_s", "floor_s", "memory_efficiency"),
    }
)
"""What is fitted for each kind of work: the rates that bound it in the measured range, and its fixed times."""


def fitting_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that constants may be fitted to: those of even index."""
    return rows[::2]


def reporting_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that errors are reported on: those of odd index."""
    return rows[1::2]


def mean_absolute_error(predicted_s: Sequence[float], measured_s: Sequence[float]) -> float:
    """Mean of ``|predicted / measured − 1|``.

    Raises:
        ValueError: no rows, or sequences of different lengths.
    """
    if not measured_s or len(predicted_s) != len(measured_s):
        raise ValueError(
            f"there must be as many predicted as measured rows, and at least one, but got {len(predicted_s)} "
            f"predicted and {len(measured_s)} measured"
        )
    return math.fsum(abs(p / m - 1) for p, m in zip(predicted_s, measured_s, strict=True)) / len(measured_s)


def predict_s(machines: Machines, rows: Sequence[MeasuredKernel]) -> list[float]:
    """Estimated seconds of the rows' operations on all cores of the first of ``machines``."""
    return [float(time) for time in estimate([row.operation for row in rows], machines.one(0), None).all_cores_s[:, 0]]


def fit_kernels(machines: Machines, rows: Sequence[MeasuredKernel]) -> Machines:
    """``machines`` (one machine) with the :data:`FITTED_CONSTANTS` of the kinds in ``rows`` fitted to them.

    What is not fitted stays as it is.

    Raises:
        ValueError: a kind that has no constants to fit, or no rows.
    """
    kinds = list(dict.fromkeys(row.kind for row in rows))
    unknown = sorted(set(kinds) - set(FITTED_CONSTANTS))
    if unknown or not kinds:
        raise ValueError(f"rows must be of kinds {', '.join(FITTED_CONSTANTS)}, but got {unknown or 'no rows'}")
    for kind in kinds:
        machines = _fit_kind(machines, kind, [row for row in rows if row.kind == kind])
    return machines


def with_constants(machines: Machines, kind: str, constants: KernelConstants) -> Machines:
    """``machines`` with other constants for one kind of work."""
    return replace(machines, kernels=MappingProxyType({**machines.kernels, kind: constants}))


def _fit_kind(machines: Machines, kind: str, rows: Sequence[MeasuredKernel]) -> Machines:
    names = FITTED_CONSTANTS[kind]
    measured_s = np.array([row.measured_s for row in rows])
    times = {"launch_s": (0.9 * float(measured_s.min()),), "floor_s": (float(measured_s.min()),)}
    choices = [times.get(name, _GRID_EFFICIENCIES) for name in names]
    upper = [math.inf if name in times else 1.0 for name in names]

    def candidate(values: Sequence[float]) -> Machines:
        constants = _with_fields(machines.kernel(kind), dict(zip(names, values, strict=True)))
        return with_constants(machines, kind, constants)

    @cache
    def loss_of(values: tuple[float, ...]) -> float:
        predicted_s = np.array(predict_s(candidate(values), rows))
        return float(np.mean((predicted_s / measured_s - 1) ** 2))

    # A search asks for values at their limit, and for those around which it has looked in vain, again and again.
    def loss(values: Sequence[float]) -> float:
        return loss_of(tuple(values))

    # a rate that does not bind changes nothing, and tiles jump: search from the best points of a coarse grid
    starts = sorted(itertools.product(*choices), key=loss)[:_STARTS]
    return candidate(min((coordinate_search(loss, start, upper) for start in starts), key=loss))


def _with_fields(constants: KernelConstants, values: Mapping[str, float]) -> KernelConstants:
    return KernelConstants(
        launch_s=values.get("launch_s", constants.launch_s),
        floor_s=values.get("floor_s", constants.floor_s),
        efficiency=values.get("efficiency", constants.efficiency),
        memory_efficiency=values.get("memory_efficiency", constants.memory_efficiency),
        buffer_efficiency=values.get("buffer_efficiency", constants.buffer_efficiency),
        row_reads=constants.row_reads,
        rows_per_core=constants.rows_per_core,
    )


def coordinate_search(
    loss: Callable[[Sequence[float]], float], start: Sequence[float], upper: Sequence[float]
) -> list[float]:
    """Positive values near ``start`` and at most ``upper`` that locally minimise ``loss``.

    Each value in turn is multiplied and divided by 1 + step, as long as that helps; then the step is halved.
    """
    values, step = list(start), _FIRST_STEP
    best = loss(values)
    while step > _LAST_STEP:
        improved = False
        for index, limit in enumerate(upper):
            for factor in (1 + step, 1 / (1 + step)):
                trial = [*values[:index], min(limit, values[index] * factor), *values[index + 1 :]]
                trial_loss = loss(trial)
                if trial_loss < best:
                    values, best, improved = trial, trial_loss, True
        if not improved:
            step /= 2
    return values


def fit_network(network: Network, rows: Sequence[MeasuredAllReduce]) -> Network:
    """``network`` with launch, latency and bandwidth fitted to measured all-reduces; its channels stay.

    Constants that it has for all-reduces alone are gone; those of other kinds stay as they are.

    For a given use of channels the time is linear in the three constants, so the fit alternates between weighted
    least squares and the channels that the constants imply.

    Raises:
        ValueError: fewer than three rows.
    """
    if len(rows) < 3:
        raise ValueError(f"at least 3 rows are needed, but got {len(rows)}")
    steps = np.array([2.0 * (row.participants - 1) for row in rows])
    # of all links together: where each member brings few of them, a small group moves its bytes over a share of them
    shares = [min(1.0, row.participants * network.ring_share) for row in rows]
    step_bytes = np.array(
        [row.size_bytes / (row.participants * share) for row, share in zip(rows, shares, strict=True)]
    )
    measured_s = np.array([row.measured_s for row in rows])
    fitted = network.untimed("all_reduce")
    for _ in range(_NETWORK_ROUNDS):
        used = np.array(
            [used_channels(size, fitted.bytes_per_s, fitted.latency_s, fitted.channels) for size in step_bytes]
        )
        terms = np.stack([np.ones_like(used), steps * used, steps * step_bytes * fitted.channels / used], axis=1)
        launch_s, latency_s, s_per_byte = _positive_least_squares(terms, measured_s)
        fitted = replace(
            fitted,
            launch_s=math.sqrt(launch_s * max(fitted.launch_s, launch_s / 2)),
            latency_s=math.sqrt(latency_s * max(fitted.latency_s, latency_s / 2)),
            bytes_per_s=math.sqrt(fitted.bytes_per_s / s_per_byte),
        )
    return fitted


def _positive_least_squares(terms: Floats, measured_s: Floats) -> tuple[float, ...]:
    """Coefficients that minimise the squared relative error, kept above a trillionth of the largest term's scale."""
    weighted = terms / measured_s[:, None]
    scale = np.abs(weighted).max(axis=0)
    coefficients = np.linalg.lstsq(weighted / scale, np.ones_like(measured_s), rcond=None)[0]
    return tuple(float(c) for c in np.maximum(coefficients, 1e-12) / scale)
