"""What a co-search run leaves behind for people: tables as Parquet, ``report.html``, traces for Perfetto."""

import html
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dse.codesign.pareto.table import front_rows, front_sentence
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.report import charts
from dse.codesign.report.table import answer_rows, comparison, layer_rows, verdict
from dse.codesign.report.traces import FOLDER, keep_traces
from dse.codesign.sensitivity.chart import tornado
from dse.codesign.sensitivity.table import sensitivity_from_document, sensitivity_rows, summary, takeover_rows
from dse.report.page import document, figure, table
from dse.report.parquet import write_table
from dse.results.result import Result
from dse.run.directory import REPORT_FILE, RunDirectory
from hardware.machines import Machines

ARCHITECTURES_TABLE = "tables/architectures.parquet"

_ARCHITECTURES = (
    "<p class='small'>Each pale dot is the proven upper bound on what one architecture can reach; each dark dot one "
    "evaluated exactly. An architecture is pruned when its bound is below the best found.</p>"
)
_PATH = (
    "<p class='small'>What was evaluated exactly, in that order, coloured by area. The exhaustive search starts where "
    "the bounds promise most, hysteresis at the largest area.</p>"
)
_SCHEDULE = (
    "<p class='small'>One row an operator, by start. An operator on all cores runs alone. Which core runs what, and "
    f"the pipeline in time, are Chrome traces in <code>{FOLDER}/</code>, which "
    "<a href='https://ui.perfetto.dev'>Perfetto</a> opens.</p>"
)


def keep(directory: RunDirectory, problem: CodesignProblem, result: Result, outcome: SearchOutcome) -> None:
    """Write the table of architectures, the traces and the report of a finished search."""
    machines = problem.machines()
    write_table(directory.path / ARCHITECTURES_TABLE, _architectures(machines, outcome))
    if outcome.best is not None:
        keep_traces(directory, problem, machines.one(outcome.best), result)
    directory.write_text(REPORT_FILE, report(result, directory.path))


def _architectures(machines: Machines, outcome: SearchOutcome) -> pa.Table:
    """One row an architecture: its parameters, the bound on its score and, where evaluated, the score.

    ``order`` counts evaluations from 1; it is 0 for architectures that were not evaluated.
    """
    score = np.full(len(machines), np.nan)
    order = np.zeros(len(machines), dtype=np.int64)
    for number, (index, value) in enumerate(outcome.evaluated.items()):
        score[index], order[index] = value, number + 1
    upper = np.asarray(outcome.upper) if outcome.upper else np.full(len(machines), np.nan)
    return pa.table(
        {
            "tensor_cores": machines.tensor_cores,
            "core_width": machines.core_width,
            "core_depth": machines.core_depth,
            "vector_cores": machines.vector_cores,
            "vector_lanes": machines.vector_lanes,
            "global_buffer_bytes": machines.global_buffer_bytes,
            "area_mm2": machines.area_mm2,
            "bound": np.where(np.isfinite(upper), upper, np.nan),
            "score": score,
            "order": order,
        }
    )


def report(result: Result, directory: Path) -> str:
    """The report of the run in ``directory`` as one self-contained HTML page."""
    parts = [f"<p class='verdict'>{html.escape(verdict(result))}</p>"]
    parts += [f"<p>Note: {html.escape(note)}</p>" for note in result.metrics.get("notes", ())]
    if "architecture" in result.solution:
        parts += ["<h2>Answer</h2>", table(("", ""), answer_rows(result))]
        if result.metrics["baselines"]:
            parts += ["<h2>Beside the baselines</h2>", table(*comparison(result))]
    if (directory / ARCHITECTURES_TABLE).exists():
        parts += _search_parts(directory / ARCHITECTURES_TABLE, result)
    parts += _further_parts(result)
    if "architecture" in result.solution:
        parts += ["<h2>Time of one layer</h2>", table(*layer_rows(result)), *_schedule_parts(result)]
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    footer = f"{result.problem.digest} · seed {result.seed} · {result.method} · {versions}"
    return document(f"{result.problem.name}: accelerator and placement", parts, footer)


def _search_parts(path: Path, result: Result) -> list[str]:
    """The space and the way through it; nothing where a single machine was given."""
    columns = _columns(pq.read_table(path))
    if len(columns["score"]) < 2:
        return []
    parts = ["<h2>Architectures</h2>", _ARCHITECTURES, figure(charts.architectures(columns, result))]
    visited = np.flatnonzero(columns["order"])
    if len(visited) > 2:
        visited = visited[np.argsort(columns["order"][visited])]
        walked = {name: values[visited] for name, values in columns.items()}
        parts += ["<h2>Search path</h2>", _PATH, figure(charts.search_path(walked, result))]
    return parts


def _columns(content: pa.Table) -> Mapping[str, charts.Numbers]:
    return {name: content[name].to_numpy() for name in content.column_names}


def _further_parts(result: Result) -> list[str]:
    """The Pareto front and the sensitivity analysis, where they were asked for."""
    parts = []
    if "pareto" in result.metrics:
        front = result.metrics["pareto"]
        parts += ["<h2>Pareto front: throughput, area, power</h2>", f"<p>{html.escape(front_sentence(front))}</p>"]
        parts += [figure(charts.pareto(front, "samples/s")), table(*front_rows(front))]
    analysis = sensitivity_from_document(result.metrics["sensitivity"]) if "sensitivity" in result.metrics else None
    if analysis is not None and analysis.points:
        parts += ["<h2>What would change the answer</h2>"]
        parts += [f"<p>{html.escape(sentence)}</p>" for sentence in summary(analysis)]
        parts += [figure(tornado(analysis)), table(*sensitivity_rows(analysis, result.objective.unit))]
        if analysis.takeovers:
            parts += ["<h3>Where another architecture takes over</h3>", table(*takeover_rows(analysis))]
    return parts


def further_sentences(result: Result) -> list[str]:
    """Notes on the answer; the Pareto front and the sensitivity analysis in sentences, where they were asked for."""
    asked, found = result.solution["settings"], result.metrics
    sentences = [f"Note: {note}" for note in found.get("notes", ())]
    sentences += [
        f"{what}: not made, as the search was stopped before its end."
        for key, what in (("pareto", "Pareto front"), ("sensitivity", "Sensitivity"))
        if asked[key] and key not in found
    ]
    if failed := found["failed"]:
        more = "" if len(failed) == 1 else f" and {len(failed) - 1} more"
        sentences.append(
            f"Evaluations that failed and count for nothing: {failed[0]['model']} on "
            f"{failed[0]['architecture']}: {failed[0]['reason']}{more}."
        )
    if "pareto" in found:
        sentences.append(front_sentence(found["pareto"]))
    if "sensitivity" in found:
        sentences += summary(sensitivity_from_document(found["sensitivity"]))
    return sentences


def _schedule_parts(result: Result) -> list[str]:
    """The operator schedules of every layer, folded up but for the first model's longest."""
    parts = ["<h2>Operators in time</h2>", _SCHEDULE]
    schedules = [
        (f"{model}: {kind} {part}", layer[part])
        for model, plan in result.solution["models"].items()
        for kind, layer in plan["layers"].items()
        for part in ("forward", "backward")
        if layer[part]["operators"]
    ]
    longest = max((each for _, each in schedules), key=lambda each: len(each["operators"]), default=None)
    for title, each in schedules:
        parts.append(_folded(title, figure(charts.schedule(each["operators"])), unfolded=each is longest))
    return parts


def _folded(title: str, content: str, unfolded: bool) -> str:
    state = " open" if unfolded else ""
    return f"<details{state}><summary>{html.escape(title)}</summary>{content}</details>"
