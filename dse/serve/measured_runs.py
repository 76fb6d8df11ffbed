"""Measured runs of one replica, what events predict of them, and constants of an engine fitted to them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import least_squares

from dse.serve.engine import Constants, Engine
from dse.serve.load import Load
from dse.serve.memory import cache_bytes, weight_bytes
from dse.serve.simulation import REQUESTS_PER_CLIENT, Limits, Outcome, simulated
from dse.serve.step_tables import StepTables
from dse.serve.step_work import StepWork
from hardware.kernel_times.form import Floats

FITTED = ("kernels", "starts", "collectives", "host_s", "layer_s", "launch_s", "request_s", "token_s")
_OF_REQUESTS = 2
"""Of these, the last ones."""

_SPREAD = (0.15, 0.3, 0.3, 0.7, 0.7, 0.7, 1.5, 1.5)
"""Standard deviations of the logarithms of the constants before any run is seen: kernels were timed, hosts were not."""

_LOW = (0.3, 0.1, 0.3, 1e-6, 1e-8, 1e-7, 1e-5, 1e-8)
_HIGH = (3.0, 4.0, 4.0, 3e-2, 2e-4, 2e-3, 2.0, 1e-4)

_NOISE = 0.1
"""Of the logarithm of a row."""

_ROWS_OF_ONE = 3

_MOVE = 0.01
"""Of a logarithm, for slopes: below it, the order of events would decide them."""


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A closed loop of clients on one replica, and what they saw.

    Attributes:
        configuration: what ran but for the load; errors within one are much alike.
        work, tables: model, shape, formats and chip, and the times of their steps.
        load: of the replica.
        tpot_s: mean over requests.
        ttft_s: mean over requests; None where it is not known.
        batch: requests that a rank runs at once; None where the server had no limit that was reached.
        chunk: new tokens of a step; None for the engine's default.
        receive_steps, wait_steps, wait_share: as :class:`dse.serve.simulation.Limits` has them.
    """

    configuration: str
    work: StepWork
    tables: StepTables
    load: Load
    tpot_s: float
    ttft_s: float | None = None
    batch: int | None = None
    chunk: int | None = None
    receive_steps: int = 1
    wait_steps: int = 0
    wait_share: float = 0.0

    def limits(self, engine: Engine) -> Limits:
        """As recipes set them: every request of the run runs; the longest fits memory, and its prompt a step."""
        load, own = self.load, self.work
        requests = math.ceil(load.concurrency / own.shape.attention_data)
        tokens = load.prompt.mean + load.output.mean
        each = cache_bytes(own.model, own.shape, own.formats, tokens)
        memory = own.kernels.chip.hbm_bytes
        weights = weight_bytes(own.model, own.shape, own.formats)
        rule = engine.memory
        free = rule.value * (memory - weights) if rule.of_rest else rule.value * memory - weights
        longest = load.prompt.high + load.output.high
        room = max(max(free, 0.02 * memory) / each * tokens, longest)
        step_tokens = self.chunk or int(engine.step_tokens.value)
        if engine.steps.value == "whole prompts":
            step_tokens = max(step_tokens, load.prompt.high + requests)
        return Limits(
            step_tokens, min(requests, self.batch or requests), room,
            self.receive_steps, self.wait_steps, self.wait_share, own.shape.attention_data,
        )  # fmt: skip

    def outcome(self, engine: Engine, rounds: int = REQUESTS_PER_CLIENT) -> Outcome:
        """Of one rank, whose clients send ``rounds`` requests each."""
        clients = math.ceil(self.load.concurrency / self.work.shape.attention_data)
        load = replace(self.load, concurrency=clients)
        return simulated(self.tables, engine, self.limits(engine), load, rounds * clients)


def fitted_constants(
    runs: Sequence[MeasuredRun], arriving: Sequence[MeasuredRun], engine: Engine, rounds: int = REQUESTS_PER_CLIENT
) -> dict[str, float]:
    """Constants of an engine, fitted to the TPOT of runs; then those of requests, which hardly change it, to TTFT.

    They are drawn towards those that the engine has, since few runs alone do not determine them. A configuration counts
    as :data:`_ROWS_OF_ONE` runs however many it has.

    Args:
        runs: to fit to.
        arriving: those of them whose arrivals and TTFT are known; where there are none, times of requests stay.
        engine: composes the steps.
        rounds: requests that each client of a run sends.
    """
    start = np.clip([getattr(engine.constants, name) for name in FITTED], _LOW, _HIGH)
    values = dict(zip(FITTED, start.tolist(), strict=True))
    values |= _fitted(FITTED[:-_OF_REQUESTS], values, runs, engine, rounds, "tpot_s")
    if arriving:
        values |= _fitted(FITTED[-_OF_REQUESTS:], values, arriving, engine, rounds, "ttft_s")
    return {name: float(f"{values[name]:.4g}") for name in FITTED}


def _fitted(
    names: Sequence[str],
    values: Mapping[str, float],
    runs: Sequence[MeasuredRun],
    engine: Engine,
    rounds: int,
    measure: Literal["tpot_s", "ttft_s"],
) -> dict[str, float]:
    """The named constants with which a measure of the runs is nearest, beside others that have these values."""
    counts = Counter(run.configuration for run in runs)
    places = [FITTED.index(name) for name in names]
    start, spread = np.log([values[name] for name in names]), np.array([_SPREAD[place] for place in places])
    low, high = (np.log([each[place] for place in places]) for each in (_LOW, _HIGH))

    def residuals(logs: Floats) -> Floats:
        errors: list[float] = (_NOISE * (logs - start) / spread).tolist()
        given = {**values, **dict(zip(names, np.exp(logs).tolist(), strict=True))}
        tried = engine.model_copy(update={"constants": Constants(**given, source="being fitted")})
        for run in runs:
            weight = math.sqrt(_ROWS_OF_ONE / counts[run.configuration])
            told = getattr(run.outcome(tried, rounds), f"mean_{measure}")
            errors.append(weight * math.log(told / getattr(run, measure)))
        return np.array(errors)

    def slopes(logs: Floats) -> Floats:
        here, moves = residuals(logs), np.where(logs + _MOVE <= high, _MOVE, -_MOVE)
        return np.stack([residuals(logs + each) - here for each in np.diag(moves)], axis=1) / moves

    found = least_squares(residuals, start, slopes, bounds=(low, high), loss="soft_l1", f_scale=_NOISE)
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))
