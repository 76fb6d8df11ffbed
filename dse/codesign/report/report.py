"""What a co-search leaves behind for people: its table of architectures, its page, its traces for Perfetto."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from dse.codesign.formats import position
from dse.codesign.notes import notes
from dse.codesign.pareto.table import front_rows, front_sentence
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.report import charts
from dse.codesign.report.card import StatedPlan, cards
from dse.codesign.report.table import answer_rows, comparison, layer_rows, verdict
from dse.codesign.report.traces import FOLDER, traces
from dse.codesign.sensitivity.chart import tornado
from dse.codesign.sensitivity.table import sensitivity_from_document, sensitivity_rows, summary, takeover_rows
from dse.report.chart_svg import picture_svg
from dse.report.charts import OperatorBar, cores_text, operators_in_time
from dse.report.view import Decisive, Folded, Heading, Paragraph, Part, Table, View
from dse.results.result import Result
from dse.run.tables import Tables
from dse.sources.lengths import assumed_lengths
from hardware.inputs import fail
from hardware.machines import Machines

ARCHITECTURES_TABLE, ARCHITECTURES_FILE = "architectures", "architectures.svg"

_ARCHITECTURES = Paragraph(
    "Pale: proven upper bounds of architectures, darker where many coincide. Blue: architectures evaluated exactly. "
    "An architecture is pruned when its bound is below the best score found. Accelerators of another process node "
    "appear only in the table, because their areas are not comparable.",
    small=True,
)
_PATH = Paragraph(
    "Architectures in the order of their exact evaluation, coloured by area. The exhaustive search starts at the "
    "highest bounds, hysteresis at the largest area.",
    small=True,
)
_SCHEDULE = Paragraph(
    f"One row per operator, sorted by start time. An operator on all cores runs alone. Chrome traces in {FOLDER}/ show "
    "the cores and the pipeline; open them with Perfetto (https://ui.perfetto.dev).",
    small=True,
)


def architectures_table(machines: Machines, outcome: SearchOutcome) -> pa.Table:
    """One row per architecture: its parameters, the bound on its score and, where evaluated, the score.

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


def view(problem: CodesignProblem, machines: Machines, result: Result, tables: Tables) -> View:
    """The architecture, the plans, the space and the way through it, and the schedules of every layer."""
    title = f"{result.problem.name}: accelerator and placement"
    sentences = further_sentences(problem, result)
    if not result.solution:
        return View(title, verdict(result), sentences)
    answer = Table(("", ""), answer_rows(result))
    beside = [Table(*comparison(result))] if result.metrics["baselines"] else []
    return View(
        title=title,
        verdict=verdict(result),
        notes=sentences,
        tables=[answer, *beside],
        page=lambda: _page(problem, _machine(machines, result), result, tables, answer, beside),
        files=lambda: {**_pictures(result, tables), **traces(problem, _machine(machines, result), result)},
        cards=lambda: cards(problem, _machine(machines, result), result),
    )


def _machine(machines: Machines, result: Result) -> Machines:
    """The answer's architecture alone."""
    index = position(machines, result.solution["architecture"])
    assert index is not None, "the checker has passed it"
    return machines.one(index)


def _page(
    problem: CodesignProblem,
    machine: Machines,
    result: Result,
    tables: Tables,
    answer: Table,
    beside: Sequence[Table],
) -> list[Part]:
    parts: list[Part] = [Heading("Answer"), answer]
    if beside:
        parts += [Heading("Comparison with baselines"), *beside]
    if ARCHITECTURES_TABLE in tables:
        parts += _search_parts(tables[ARCHITECTURES_TABLE], result)
    return [
        *parts,
        *_further_parts(result),
        Heading("Time per layer"),
        Table(*layer_rows(result)),
        *_schedules(problem, machine, result),
    ]


def _search_parts(content: pa.Table, result: Result) -> list[Part]:
    """The space and the way through it; nothing where a single machine was given."""
    columns = _columns(content)
    if len(columns["score"]) < 2:
        return []
    parts: list[Part] = [Heading("Architectures"), _ARCHITECTURES, charts.architectures(columns, result)]
    visited = np.flatnonzero(columns["order"])
    if len(visited) > 2:
        visited = visited[np.argsort(columns["order"][visited])]
        walked = {name: values[visited] for name, values in columns.items()}
        parts += [Heading("Search path"), _PATH, charts.search_path(walked, result)]
    return parts


def _pictures(result: Result, tables: Tables) -> Mapping[str, str]:
    """The space; nothing where a single machine was given."""
    if ARCHITECTURES_TABLE not in tables or len(tables[ARCHITECTURES_TABLE]) < 2:
        return {}
    return {ARCHITECTURES_FILE: picture_svg(charts.architectures(_columns(tables[ARCHITECTURES_TABLE]), result))}


def _columns(content: pa.Table) -> Mapping[str, charts.Numbers]:
    missing = [name for name in ("bound", "score", "order", "area_mm2") if name not in content.column_names]
    if missing:
        raise fail(f"tables/{ARCHITECTURES_TABLE}.parquet", missing[0], "", "the column is missing")
    return {name: content[name].to_numpy() for name in content.column_names}


def _further_parts(result: Result) -> list[Part]:
    """The Pareto front and the sensitivity analysis, if requested."""
    parts: list[Part] = []
    if "pareto" in result.metrics:
        front = result.metrics["pareto"]
        parts += [Heading("Pareto front: throughput, area, power"), Paragraph(front_sentence(front))]
        parts += [charts.pareto(front, "samples/s"), Table(*front_rows(front))]
    analysis = sensitivity_from_document(result.metrics["sensitivity"]) if "sensitivity" in result.metrics else None
    if analysis is not None and analysis.points:
        parts += [Heading("What would change the answer"), *map(Paragraph, summary(analysis))]
        parts += [*tornado(analysis), Table(*sensitivity_rows(analysis, result.objective.unit))]
        if analysis.takeovers:
            parts += [Heading("Where another architecture takes over", 3), Table(*takeover_rows(analysis))]
    return parts


def further_sentences(problem: CodesignProblem, result: Result) -> list[str]:
    """What a run lacks; the sensitivity analysis and the Pareto front in sentences, where requested; notes."""
    settings, metrics = result.settings, result.metrics
    sentences: list[str] = [*assumed_lengths(result.inputs, settings["sequence"])]
    sentences += [
        Decisive(f"{what}: missing, because the search was stopped early.")
        for key, what in (("pareto", "Pareto front"), ("sensitivity", "Sensitivity"))
        if settings[key] and key not in metrics
    ]
    if failed := metrics["failed"]:
        more = "" if len(failed) == 1 else f" and {len(failed) - 1} more"
        sentences.append(
            Decisive(
                f"Failed evaluations, which are ignored: {failed[0]['model']} on "
                f"{failed[0]['architecture']}: {failed[0]['reason']}{more}."
            )
        )
    if "sensitivity" in metrics:
        sentences += map(Decisive, summary(sensitivity_from_document(metrics["sensitivity"])))
    if "pareto" in metrics:
        sentences.append(Decisive(front_sentence(metrics["pareto"])))
    return [*sentences, *notes(problem, result.solution.get("models", {}), metrics.get("models"))]


def _schedules(problem: CodesignProblem, machine: Machines, result: Result) -> list[Part]:
    """The operator schedules of every layer, folded up but for the first model's longest."""
    schedules: list[tuple[str, list[OperatorBar]]] = []
    for job in problem.jobs:
        plan = result.solution["models"][job.name]
        classes = StatedPlan(job, machine, plan).classes()
        for kind, layer in plan["layers"].items():
            for part in ("forward", "backward"):
                bars = [
                    OperatorBar(
                        operator,
                        classes[f"{kind} {part} {operator}"],
                        at["start_s"],
                        at["finish_s"],
                        cores_text(at["cores"]),
                    )
                    for operator, at in layer[part]["operators"].items()
                ]
                if bars:
                    schedules.append((f"{job.name}: {kind} {part}", bars))
    longest = max((bars for _, bars in schedules), key=len, default=None)
    folded = [Folded(title, [operators_in_time(bars)], bars is longest) for title, bars in schedules]
    return [Heading("Operator timeline"), _SCHEDULE, *folded]
