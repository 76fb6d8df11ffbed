"""What a run directory gets beside ``result.json``: placements, pictures, tables and the page."""

from dse.report.parquet import write_table
from dse.results.result import Result
from dse.run.directory import REPORT_FILE, RESULT_FILE, RunDirectory, write_bytes
from dse.wafer.check import violations
from dse.wafer.files.drawing import drawing
from dse.wafer.files.formats import placement_from_document
from dse.wafer.files.paint import paint_of, placement_of, read_paint, write_paint
from dse.wafer.options import WaferOptions
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.report import report
from dse.wafer.sweep import report as sweep_report
from dse.wafer.sweep.axes import name_of
from dse.wafer.sweep.sweep import point_problems
from hardware.inputs import Fault, InputError

POINTS_TABLE = "tables/points.parquet"

POINTS_FOLDER = "points"
"""Holds the placement of every point of a sweep's front."""

_NOT_OVERWRITTEN = (
    "is not overwritten, as it may have been edited: put it right, or move it away and --resume makes it anew"
)


def keep_paint(directory: RunDirectory, name: str, problem: WaferProblem, placement: WaferPlacement) -> None:
    """A placement in the contest's format, as ``NAME.paint``."""
    directory.write_text(f"{name}.paint", write_paint(paint_of(problem, placement)))


def kept_placement(directory: RunDirectory, problem: WaferProblem) -> WaferPlacement | None:
    """The legal placement that an earlier part of a run has kept; None where there is none.

    Raises:
        InputError: the file cannot be read or is no legal placement of the problem: one fault for each thing that is
            wrong, and what to do.
    """
    path = directory.path / f"{problem.name}.paint"
    if not path.exists():
        return None
    advice = Fault(str(path), "", "", _NOT_OVERWRITTEN)
    try:
        placement = placement_of(problem, read_paint(path), path)
    except InputError as error:
        raise InputError((*error.faults, advice)) from error
    broken = violations(problem, placement)
    if broken:
        raise InputError((*(Fault(str(path), "", "", rule) for rule in broken), advice))
    return placement


def keep(directory: RunDirectory, options: WaferOptions, problem: WaferProblem, result: Result) -> None:
    """Everything that belongs to an answered run."""
    if options.sweep:
        _keep_points(directory, options, problem, result)
    else:
        # Drawn with a library that takes half a second to import.
        from dse.wafer.files.picture import picture

        placement = placement_from_document(problem, result.solution, RESULT_FILE)
        keep_paint(directory, problem.name, problem, placement)
        directory.write_text(f"{problem.name}.svg", drawing(problem, placement, result.bound))
        write_bytes(directory.path / f"{problem.name}.png", picture(problem, placement, result.bound))
    directory.write_text(REPORT_FILE, page(problem, result))


def _keep_points(directory: RunDirectory, options: WaferOptions, problem: WaferProblem, result: Result) -> None:
    write_table(directory.path / POINTS_TABLE, sweep_report.points_table(result))
    points = {name_of(setting): each for setting, each in point_problems(options, problem).items()}
    for name in result.metrics["front"]:
        stated = {"kernels": result.solution["points"][name]["kernels"]}
        placement = placement_from_document(points[name], stated, RESULT_FILE)
        keep_paint(directory, f"{POINTS_FOLDER}/{name}", points[name], placement)


def page(problem: WaferProblem, result: Result) -> str:
    """``report.html`` of a result that has an answer."""
    if "points" in result.solution:
        return sweep_report.report(problem, result)
    return report(problem, result, placement_from_document(problem, result.solution, RESULT_FILE))
