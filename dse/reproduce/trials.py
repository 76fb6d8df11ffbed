"""Independent trials of a reproduction, spread over the executor and kept in the journal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dse.run.executor import Failed
from dse.run.journal import Journal
from dse.run.run import Run

Trial = TypeVar("Trial")


def required_journal(run: Run) -> Journal:
    """The journal of a reproduction: it always has one."""
    assert run.journal is not None, "the driver opens a journal for every reproduction"
    return run.journal


def finished(
    run: Run, phase: str, function: Callable[[Trial], Any], keys: Mapping[Trial, str]
) -> tuple[dict[Trial, Any], dict[Trial, str]]:
    """(value of every trial that finished, reason of every trial that failed), in the order of ``keys``.

    Args:
        run: where trials are made; those in its journal are not repeated.
        phase: the name of this work in the progress display.
        function: makes a trial; its value is in JSON types.
        keys: the journal key of every trial.

    Raises:
        StoppedError: the stop signal gave a reason; finished trials are in the journal.
    """
    journal = required_journal(run)
    missing = [trial for trial, key in keys.items() if key not in journal]
    failed: dict[Trial, str] = {}

    def record(arrived: Sequence[tuple[Any, Any]]) -> None:
        journal.append_all({keys[trial]: value for trial, value in arrived if not isinstance(value, Failed)})

    for number, outcome in enumerate(run.executor.outcomes(function, missing, run.stop, record)):
        if isinstance(outcome, Failed):
            failed[missing[number]] = outcome.reason
        run.progress(phase, number + 1, len(missing))
    return {trial: journal[key] for trial, key in keys.items() if key in journal}, failed
