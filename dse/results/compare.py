"""Several runs side by side: which options differ, and which outcomes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dse.problem import problem_type, registered
from dse.report.chart import Axis, BarChart, Bars
from dse.report.palette import ANSWER, PALE
from dse.report.view import Heading, Table, View
from dse.results.result import PROOF_TOLERANCE, Result, percent, read_sealed
from dse.run.directory import RESULT_FILE, result_file
from hardware.inputs import fail
from hardware.units import MIB

Values = tuple[Any, ...]
"""One value per run, JSON types; None where a run has none."""

_COUNTED = ("layers", "operators", "stages")
"""Parts of solutions that are too long for a table: the number of their entries is shown."""

_OMITTED = ("settings", "score", "value", "baselines", "sensitivity", "pareto", "batch_s")
"""Parts that the table shows elsewhere, or that have a report of their own."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: where it is, its options (with seed, method and versions), its result."""

    path: Path
    options: Mapping[str, Any]
    result: Result


@dataclass(frozen=True)
class Comparison:
    """Runs of one command and objective.

    ``options`` holds the options that differ; ``outcomes`` status, value, ratio to the first run's value, bound, gap,
    evaluations and seconds of every run, and whatever else differs.
    """

    runs: tuple[FinishedRun, ...]
    options: dict[str, Values]
    outcomes: dict[str, Values]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs in a table: the last parts of their paths where these differ, else the whole paths."""
        paths = [run.path.parent if run.path.name == RESULT_FILE else run.path for run in self.runs]
        short = [path.name for path in paths]
        return tuple(short if len(set(short)) == len(short) else [str(run.path) for run in self.runs])

    @property
    def same_problem(self) -> bool:
        """Whether all runs answer one problem."""
        return len({run.result.problem.digest for run in self.runs}) == 1


def read_run(path: Path) -> FinishedRun:
    """The run in a directory, or that of a ``result.json``.

    Raises:
        InputError: nothing is there, the run is not finished, it ended without an answer, or its result was edited.
    """
    file = result_file(path)
    result = read_sealed(file)
    if result.objective.value is None and result.status != "infeasible":
        raise fail(file, "status", result.status, "the run ended without an answer; there is nothing to compare")
    return FinishedRun(path, _options(result), result)


def _options(result: Result) -> dict[str, Any]:
    """The options, seed, method and versions of a run."""
    versions = {f"{name} version": version for name, version in result.versions.items()}
    return {**result.settings, "seed": result.seed, "method": result.method, **versions}


def compare(runs: Sequence[FinishedRun]) -> Comparison:
    """The runs compared with the first of them.

    Raises:
        InputError: fewer than two, or runs whose commands or objectives differ in kind.
    """
    if len(runs) < 2:
        raise fail("dse compare", "RUN", "", "at least two runs must be given")
    first = runs[0]
    for run in runs[1:]:
        _require_same(run, "command", first, first.result.command, run.result.command)
        for key in ("name", "unit", "sense"):
            values = (getattr(each.result.objective, key) for each in (first, run))
            _require_same(run, f"objective.{key}", first, *values)
    return Comparison(tuple(runs), _differing([run.options for run in runs]), _outcomes([run.result for run in runs]))


def _require_same(run: FinishedRun, key: str, first: FinishedRun, expected: str, value: str) -> None:
    if value != expected:
        raise fail(run.path, key, value, f"must equal that of {first.path}, {expected}")


def _outcomes(results: Sequence[Result]) -> dict[str, Values]:
    objective = results[0].objective
    reference = objective.value
    values = [result.objective.value for result in results]
    ratios = [None if value is None or not reference else value / reference for value in values]
    always = {
        "status": tuple(result.status for result in results),
        f"{objective.name} [{objective.unit}]": tuple(values),
        "ratio to the first": tuple(ratios),
        "bound": tuple(result.bound for result in results),
        "gap": tuple(result.gap for result in results),
        "evaluations": tuple(result.evaluations for result in results),
        "seconds": tuple(result.seconds for result in results),
    }
    command = results[0].command
    own = problem_type(command).compared(results) if command in registered() else None
    columns = [dict(_details(result, own is None)) for result in results]
    return always | {key: values for key, values in (own or {}).items() if _differ(values)} | _differing(columns)


def _details(result: Result, is_whole: bool) -> Iterator[tuple[str, Any]]:
    """What makes it infeasible, and if ``is_whole`` every number and word in it, by the words of its path."""
    if is_whole:
        yield from _leaves(result.solution, ())
        yield from _leaves(result.metrics, ())
    if result.infeasibility is not None:
        yield from _leaves(result.infeasibility.document(), ("infeasibility",))


def _leaves(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        here = path if key in ("models", "architecture") else (*path, str(key))
        if key in _OMITTED:
            continue
        if isinstance(value, Mapping) and key not in _COUNTED:
            yield from _leaves(value, here)
        else:
            yield " ".join(here), len(value) if isinstance(value, Mapping | list | tuple) else value


def _differing(columns: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """The keys under which the columns do not all hold the same."""
    keys = dict.fromkeys(key for column in columns for key in column)
    rows = {key: tuple(column.get(key) for column in columns) for key in keys}
    return {key: values for key, values in rows.items() if _differ(values)}


def _differ(values: Values) -> bool:
    return any(not _equal(values[0], value) for value in values)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=PROOF_TOLERANCE)
    return bool(one == other)


def verdict(comparison: Comparison) -> list[str]:
    """Sentences: whether all runs answer one problem, and what it means where answers differ."""
    results = [run.result for run in comparison.runs]
    if not comparison.same_problem:
        text = "Different problems"
        if not comparison.options:
            text += ", although the options are the same: an input file has changed"
        return [f"{text}."]
    proven = [result for result in results if result.status == "optimal"]
    values = [result.objective.value for result in proven]
    if any(not _equal(values[0], value) for value in values):
        return [
            "Same problem, but two answers that are both stated as proven differ; dse check shows which one is wrong."
        ]
    return ["Same problem."]


def option_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """One row for every option that differs."""
    return [(key.replace("_", " "), *map(_text, values)) for key, values in comparison.options.items()]


def outcome_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """One row for every outcome."""
    return [_row(key, values) for key, values in comparison.outcomes.items()]


def _row(key: str, values: Values) -> tuple[str, ...]:
    if key == "gap":
        return (key, *("" if value is None else percent(value) for value in values))
    if key == "ratio to the first":
        return (key, *("" if value is None else f"{value:.4f}" for value in values))
    label = key if " of " in key else key.replace("_", " ")  # "of" is followed by the name of a tensor
    if key.endswith("_bytes") and all(isinstance(value, int | float | None) for value in values):
        sizes = (None if value is None else value / MIB for value in values)
        return (f"{label.removesuffix(' bytes')} [MB]", *map(_text, sizes))
    return (label, *map(_text, values))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.5g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value)


def view_of(comparison: Comparison) -> View:
    """The comparison for people."""
    options = Table(("option", *comparison.names), option_rows(comparison))
    outcomes = Table(("outcome", *comparison.names), outcome_rows(comparison))
    first = comparison.runs[0].result
    results = [run.result for run in comparison.runs]
    bars = [Bars("value", [each.objective.value for each in results], ANSWER)]
    if any(each.bound is not None for each in results):
        bars.append(Bars("bound", [each.bound for each in results], PALE))
    axis = Axis(f"{first.objective.name.replace('_', ' ')} [{first.objective.unit}]", from_zero=True)
    sentences = verdict(comparison)
    chart = BarChart(f"{axis.title} of each run", "run", axis, comparison.names, bars)
    return View(
        title=f"{first.command}: {' and '.join(comparison.names)}",
        verdict=" ".join(sentences),
        tables=[table for table in (options, outcomes) if table.rows],
        page=lambda: [chart, Heading("Outcomes"), outcomes, Heading("Options that differ"), options],
    )


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON types; every list has one entry per run, in their order."""
    return {
        "schema": "dse.comparison/1",
        "runs": [str(run.path) for run in comparison.runs],
        "command": comparison.runs[0].result.command,
        "problems": [run.result.problem.model_dump() for run in comparison.runs],
        "same_problem": comparison.same_problem,
        "verdict": verdict(comparison),
        "asked": {key: list(values) for key, values in comparison.options.items()},
        "found": {key: list(values) for key, values in comparison.outcomes.items()},
    }
