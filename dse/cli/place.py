"""``dse place``: the placement dynamic program alone."""

import json
from pathlib import Path
from typing import Any

import click

from dse.cli.run import ending_at_once, in_process_options, run, settings_from
from dse.cli.terminal import console, print_table
from dse.placement.answer import answer
from dse.placement.formats import placement_from_document, read_problem
from dse.placement.problem import PlacementProblem
from dse.placement.timeline import has_timeline, timeline
from dse.report.trace_events import pipeline_trace
from dse.results.result import Result, digest, document_of
from dse.run.directory import RESULT_FILE, RunDirectory

PIPELINE_TRACE_FILE = "pipeline.trace.json"


@click.command("place")
@click.argument("layers", type=click.Path(path_type=Path))
@in_process_options
def command(layers: Path, **options: Any) -> None:
    """Place the layer graph LAYERS (JSON, dse.placement/1; docs/formats.md) with a proven optimum."""
    settings = settings_from(options)
    problem = read_problem(layers)
    with ending_at_once():
        run(
            settings,
            "place",
            {"layers": str(layers)},
            digest(document_of(problem)),
            lambda _directory: answer(problem, settings.seed),
            _show,
            lambda directory, result: _keep(directory, problem, result),
        )


def _keep(directory: RunDirectory, problem: PlacementProblem, result: Result) -> None:
    """The pipeline in time as a trace (Perfetto, chrome://tracing), where it is not too long."""
    assert result.objective.value is not None, "only answers are kept"
    placement = placement_from_document(problem, result.solution, RESULT_FILE, result.objective.value)
    if has_timeline(problem, placement):
        trace = pipeline_trace(problem, placement, timeline(problem, placement))
        directory.write_text(PIPELINE_TRACE_FILE, json.dumps(trace))


def _show(result: Result) -> None:
    if result.infeasibility is not None:
        console().print(f"Proven infeasible: {result.infeasibility['explanation']}", soft_wrap=True)
        return
    solution = result.solution
    proof = "proven optimal" if result.status == "optimal" else f"not proven: at least {result.bound:.9g} s"
    console().print(
        f"{result.objective.value:.9g} s a batch, {proof}: {len(solution['stages'])} stages × "
        f"{solution['data']} data × {solution['tensor']} tensor ({1e3 * result.seconds:.1f} ms)",
        soft_wrap=True,
    )
    if result.metrics:
        console().print(
            f"in time: {result.metrics['simulated_pipeline_s']:.9g} s to the last pass of the pipeline, "
            f"{result.metrics['simulated_batch_s']:.9g} s to the last optimizer step",
            soft_wrap=True,
        )
    rows = [
        (str(number), str(stage["accelerators"]), str(len(stage["layers"])), _span(stage["layers"]))
        for number, stage in enumerate(solution["stages"], start=1)
    ]
    print_table(("stage", "accelerators", "layers", ""), rows)


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
