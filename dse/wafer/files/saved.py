"""The best placement of a run, saved in its directory while the search goes on."""

from pathlib import Path

from dse.run.run import Run
from dse.wafer.check import violations
from dse.wafer.files.paint import paint_of, placement_of, read_paint, write_paint
from dse.wafer.problem import WaferPlacement, WaferProblem
from hardware.inputs import Fault, InputError

_NOT_OVERWRITTEN = "is not overwritten, as it may have been edited: correct it, or move it away and use --resume"


def save_placement(run: Run, name: str, problem: WaferProblem, placement: WaferPlacement) -> None:
    """A placement in the contest's format, as ``NAME.paint`` of the run directory."""
    run.write(f"{name}.paint", paint_text(problem, placement))


def paint_text(problem: WaferProblem, placement: WaferPlacement) -> str:
    """A placement in the contest's format."""
    return write_paint(paint_of(problem, placement))


def saved_placement(directory: Path, problem: WaferProblem) -> WaferPlacement | None:
    """The legal placement that an earlier part of a run saved; None where there is none.

    Raises:
        InputError: the file cannot be read or is not a legal placement of the problem: one fault for each thing that is
            wrong, and what to do.
    """
    path = directory / f"{problem.name}.paint"
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
