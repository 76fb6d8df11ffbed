"""An inference engine whose constants are calibrated on measured serving runs.

Whole configurations are held out: every other one, in the order of a digest of what ran, so that nobody chose them.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dse.calibration.calibration import MIN_ROWS, Calibration, KindErrors
from dse.calibration.fit import fitting_rows, mean_absolute_error, reporting_rows
from dse.calibration.serving_runs import read_runs
from dse.serve.engine import Constants, Engine, engine
from dse.serve.measured_runs import MeasuredRun, fitted_constants
from hardware.inputs import fail

MIN_CONFIGURATIONS = 2
"""One to fit to and one held out."""

_Measure = Literal["tpot_s", "ttft_s"]
_KINDS: tuple[tuple[str, _Measure], ...] = (("TPOT", "tpot_s"), ("TTFT", "ttft_s"))


def calibrate_engine(named: str, rows: str | Path) -> Calibration:
    """Fit the constants of an engine to half of the configurations of a table, and state the errors on the others.

    Args:
        named: the engine, by name or path.
        rows: a CSV file (:func:`dse.calibration.serving_runs.read_runs`).

    Raises:
        InputError: a fault in a file, or too few runs or configurations.
    """
    before = engine(named)
    runs = read_runs(rows, named)
    configurations = sorted({run.configuration for run in runs}, key=_digest)
    if len(configurations) < MIN_CONFIGURATIONS:
        rule = (
            f"must have runs of at least {MIN_CONFIGURATIONS} configurations (model, chip, formats, shape), because "
            "half of them are held out"
        )
        raise fail(rows, "", f"{len(configurations)} configuration", rule)
    if len(runs) < MIN_ROWS:
        raise fail(rows, "", f"{len(runs)} rows", f"must have at least {MIN_ROWS} runs")
    part, others = fitting_rows(configurations), reporting_rows(configurations)
    to_fit, held_out = ([run for run in runs if run.configuration in half] for half in (part, others))
    values = fitted_constants(to_fit, [run for run in to_fit if run.ttft_s is not None], before)
    name = Path(rows).name
    source = (
        f"calibrated: on {len(to_fit)} runs of {len(part)} configurations in {name}, towards those of {before.name}; "
        f"{len(others)} were held out"
    )
    own = before.model_copy(
        update={
            "name": _name(before.name, Path(rows).stem),
            "description": f"{before.description}; constants calibrated on {name}",
            "constants": Constants(**values, source=source),
        }
    )
    errors = [
        _errors(kind, to_fit, held_out, before, own, measure)
        for kind, measure in _KINDS
        if all(any(getattr(run, measure) for run in half) for half in (to_fit, held_out))
    ]
    return Calibration(own.model_dump(mode="json"), tuple(errors))


def _digest(configuration: str) -> str:
    return hashlib.sha256(configuration.encode()).hexdigest()


def _name(engine_name: str, stem: str) -> str:
    word = re.sub(r"[^a-z0-9.-]+", "-", stem.lower()).strip("-.") or "mine"
    return f"{engine_name}-{word}"


def _errors(
    kind: str,
    to_fit: Sequence[MeasuredRun],
    held_out: Sequence[MeasuredRun],
    before: Engine,
    after: Engine,
    measure: _Measure,
) -> KindErrors:
    """Of the runs that have this measure."""
    halves = [[run for run in half if getattr(run, measure) is not None] for half in (to_fit, held_out)]

    def error(half: Sequence[MeasuredRun], own: Engine) -> float:
        told = [getattr(run.outcome(own), f"mean_{measure}") for run in half]
        return mean_absolute_error(told, [getattr(run, measure) for run in half])

    fitted, other = halves
    return KindErrors(
        kind, len(fitted) + len(other), error(fitted, before), error(fitted, after), error(other, before),
        error(other, after),
    )  # fmt: skip
