"""One answer from beginning to end: pose, open the run directory, solve unless it is finished, save everything.

The command line and the Python interface both come through here; they bring along how progress is shown, what stops
the work, and, from the floors above, workers and learned methods.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dse.problem import Methods, Posed, ProblemType, pose
from dse.report.units import memory_text
from dse.results.answer import Answer
from dse.results.result import Result, read_sealed
from dse.run.directory import RESULT_FILE, RunDirectory, journal_of
from dse.run.executor import Executor, InProcessExecutor
from dse.run.journal import Journal
from dse.run.mirror import Mirror, check, copy, fetch
from dse.run.options import Options, option_fields
from dse.run.progress import Notice, ProgressCallback, StopSignal, never_stop, silent, silent_notice
from dse.run.run import Run
from dse.run.tables import Tables
from hardware.inputs import fail


def _in_process(_predicted_s: float, _journal: Journal | None) -> Executor:
    return InProcessExecutor()


def _no_methods(_options: Any, _executor: Executor, _directory: Path | None) -> Methods:
    return {}


def _no_document(_options: Any) -> None:
    """Nothing above the engine decides the answer."""


def _not_announced(_text: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Session:
    """How a run is made and saved, regardless of the problem.

    Attributes:
        out: the run directory; None saves nothing.
        resume: whether the run that was begun there is to be continued.
        mirror: the URI that the run directory is copied to; None for no copy.
        seed: of all random choices.
        time_limit_s: after which the best answer so far is returned.
        item_timeout_s: how long a worker may take for one item; None for no limit.
        progress: called with the progress of each phase.
        stop: called between two pieces of work.
        notice: shows a message to the user while the work goes on.
        announce: a context for work whose progress is unknown, given what is being done.
        executor: makes the executor, given the predicted seconds and the journal that metrics watch.
        methods: what upper floors add to the problem's methods, given its options, the executor and the run directory.
        document: what decides the answer and only upper floors know (the weights of a checkpoint), given the options.
        began_s: what the time limit counts from (:func:`time.monotonic`).
    """

    out: Path | None = None
    resume: bool = False
    mirror: str | None = None
    seed: int = 0
    time_limit_s: float = math.inf
    item_timeout_s: float | None = None
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    notice: Notice = silent_notice
    announce: Callable[[str], AbstractContextManager[None]] = field(default=_not_announced)
    executor: Callable[[float, Journal | None], Executor] = field(default=_in_process)
    methods: Callable[[Any, Executor, Path | None], Methods] = field(default=_no_methods)
    document: Callable[[Any], Any] = field(default=_no_document)
    began_s: float = field(default_factory=time.monotonic)


def answer(problem: ProblemType[Any, Any], options: Options, session: Session) -> Answer:
    """The answer to ``options``: that of the run directory where the run is finished, else made now and saved there.

    Raises:
        InputError: bad input, or a run directory of another run, or one that cannot be written.
        FailedCheckError: the problem's checker refuses the answer (a fault of this program).
    """
    for name, given in (("--resume", session.resume), ("--mirror", session.mirror)):
        if given and session.out is None:
            raise fail("dse", name, "", "requires a run directory: --out DIR")
    with session.announce(f"reading the input of dse {problem.name}"):
        posed = pose(problem, options)
        above = session.document(options)
        if above is not None:
            posed = replace(posed, run_document=above if posed.run_document is None else [posed.run_document, above])
    arguments = problem.run_arguments(posed.options.document(), session.seed)
    directory = opened(session.out, session.resume, session.mirror, problem.name, arguments, posed.run_digest)
    finished = None if directory is None else finished_result(directory, problem)
    # Where a run directory outlives a change of its input, the answer there may be of another problem.
    if finished is not None and finished.problem.digest == posed.digest and directory is not None:
        _refuse_outputs(options)
        session.notice(f"{session.out} contains this run, which is already finished; its answer is returned")
        if session.mirror is not None:
            copy(directory.path, session.mirror)
        return Answer(finished, posed, Tables(directory.path))
    mirror = session.mirror
    copied = nullcontext() if directory is None or mirror is None else Mirror(directory.path, mirror, session.notice)
    # What libraries print is for people; stdout is for the result alone.
    with copied, redirect_stdout(sys.stderr):
        with journal_of(directory) as journal:
            answered = _solved(problem, posed, session, directory, journal)
        if directory is not None:
            for name, folder in answered.view.folders.items():
                size = memory_text(folder.size_bytes())
                session.notice(f"{directory.path / name}: {folder.count:,} files, about {size} together")
            answered.write(directory, is_drawn=session.stop() is None)
    return answered


def finished_result(directory: RunDirectory, problem: ProblemType[Any, Any]) -> Result | None:
    """The result of a run that is finished; None where there is none yet, or some of it is missing.

    Raises:
        InputError: the file was edited.
    """
    path = directory.path / RESULT_FILE
    result = read_sealed(path) if path.exists() else None
    return result if result is not None and problem.is_finished(result) else None


def _refuse_outputs(options: Options) -> None:
    """InputError for options that name an output file: it is written while the work is done, which is finished."""
    for each in option_fields(type(options)):
        value = getattr(options, each.name)
        if each.option.is_output and value is not None:
            rule = "must not be given with --resume, because earlier evaluations are not kept"
            raise fail(options.command(), each.flag, value, rule)


def opened(
    out: Path | None,
    resume: bool,
    mirror: str | None,
    command: str,
    arguments: Mapping[str, Any],
    digest: str,
    inputs: Mapping[str, str | None] = MappingProxyType({}),
) -> RunDirectory | None:
    """The run directory ``out``, fetched from its mirror where a run is resumed on another machine; None for none.

    Raises:
        InputError: as :class:`~dse.run.directory.RunDirectory`, or there is another run at the mirror.
    """
    if out is None:
        return None
    if mirror is None:
        return RunDirectory(out, command, arguments, digest, resume, inputs=inputs)
    if resume:
        fetch(out, mirror)
    return RunDirectory(out, command, arguments, digest, resume, lambda: check(out, mirror), inputs)


def _solved(
    problem: ProblemType[Any, Any],
    posed: Posed[Any, Any],
    session: Session,
    directory: RunDirectory | None,
    journal: Journal | None,
) -> Answer:
    executor = session.executor(min(problem.predicted_s(posed), session.time_limit_s), journal)
    path = None if directory is None else directory.path
    run = Run(
        executor=executor,
        progress=session.progress,
        stop=session.stop,
        seed=session.seed,
        journal=journal,
        tables=Tables(path),
        directory=path,
        methods=session.methods(posed.options, executor, path),
        time_limit_s=session.time_limit_s,
        item_timeout_s=session.item_timeout_s,
        began_s=session.began_s,
    )
    return Answer(problem.answer(posed, run), posed, run.tables)
