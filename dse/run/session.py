"""One answer from beginning to end: pose, open the run directory, solve unless it is finished, keep everything.

The command line and the Python interface both come through here; what they bring along is how progress is shown, what
stops the work, and, from the floors above, workers and learned methods.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dse.problem import Methods, Posed, ProblemType, pose
from dse.results.answer import Answer
from dse.run.directory import RunDirectory, journal_of
from dse.run.executor import Executor, InProcessExecutor
from dse.run.journal import Journal
from dse.run.mirror import Mirror, check, copy, fetch
from dse.run.options import Options, option_fields
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.run.run import Run
from dse.run.tables import Tables
from hardware.inputs import fail


def _in_process(_predicted_s: float, _journal: Journal | None) -> Executor:
    return InProcessExecutor()


def _no_methods(_options: Any, _executor: Executor, _directory: Path | None) -> Methods:
    return {}


def _nothing_above(_options: Any) -> None:
    """Nothing above the engine decides the answer."""


def _without_words(_text: str) -> AbstractContextManager[None]:
    return nullcontext()


def _unsaid(_text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Session:
    """How a run is made and kept, whatever is asked.

    Attributes:
        out: the run directory; None keeps nothing.
        resume: whether the run that was begun there is continued.
        mirror: an address that the run directory is copied to; None copies it nowhere.
        seed: of everything that is drawn.
        time_limit_s: after which the best answer so far is returned.
        item_timeout_s: how long a worker may take for one item; None for no limit.
        progress: told of each phase.
        stop: asked between two pieces of work.
        notice: told what people should know while the work goes on.
        announce: a context for work that cannot tell how far it is; what it is given says what is being done.
        executor: where the work runs, by its predicted seconds and the journal that metrics watch.
        methods: what upper floors add to the problem's methods, by its options, the executor and the run directory.
        document: what upper floors know of the options that decides the answer (the weights of a checkpoint).
    """

    out: Path | None = None
    resume: bool = False
    mirror: str | None = None
    seed: int = 0
    time_limit_s: float = math.inf
    item_timeout_s: float | None = None
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    notice: Callable[[str], None] = _unsaid
    announce: Callable[[str], AbstractContextManager[None]] = field(default=_without_words)
    executor: Callable[[float, Journal | None], Executor] = field(default=_in_process)
    methods: Callable[[Any, Executor, Path | None], Methods] = field(default=_no_methods)
    document: Callable[[Any], Any] = field(default=_nothing_above)


def answer(problem: ProblemType[Any, Any], options: Options, session: Session) -> Answer:
    """The answer to ``options``: from the run directory where it is finished there, else made now and kept there.

    Raises:
        InputError: bad input, or a run directory of another run, or one that cannot be written.
        FailedCheckError: the problem's checker refuses the answer (a fault of this program).
    """
    began_s = time.monotonic()
    for name, given in (("--resume", session.resume), ("--mirror", session.mirror)):
        if given and session.out is None:
            raise fail("dse", name, "", "needs the directory of the run: --out DIR")
    with session.announce(f"reading what is asked of dse {problem.name}"):
        posed = replace(pose(problem, options), run_document=session.document(options))
    asked = {**posed.options.document(), "seed": session.seed}
    directory = opened(session.out, session.resume, session.mirror, problem.name, asked, posed.run_digest)
    finished = None if directory is None else directory.finished(problem.is_finished)
    if finished is not None and directory is not None:
        _refuse_outputs(options)
        session.notice(f"{session.out} holds this run, which is finished: this is its answer")
        if session.mirror is not None:
            copy(directory.path, session.mirror)
        return Answer(finished, posed, Tables(directory.path))
    mirror = session.mirror
    copied = nullcontext() if directory is None or mirror is None else Mirror(directory.path, mirror, session.notice)
    # What libraries print is for people; stdout is for the result alone.
    with copied, redirect_stdout(sys.stderr):
        with journal_of(directory) as journal:
            answered = _solved(problem, posed, session, directory, journal, began_s)
        if directory is not None:
            answered.write(directory)
    return answered


def _refuse_outputs(options: Options) -> None:
    """InputError where a file is to be written of what a finished run did, which is not done again."""
    for each in option_fields(type(options)):
        value = getattr(options, each.name)
        if each.option.is_output and value is not None:
            rule = "what an earlier part of this run evaluated is not kept"
            raise fail(options.command(), each.flag, value, rule)


def opened(
    out: Path | None, resume: bool, mirror: str | None, command: str, asked: Mapping[str, Any], digest: str
) -> RunDirectory | None:
    """The run directory ``out``, brought back from its mirror where that is asked for and needed; None for none.

    Raises:
        InputError: as :class:`~dse.run.directory.RunDirectory`, or there is another run at the mirror.
    """
    if out is None:
        return None
    if mirror is None:
        return RunDirectory(out, command, asked, digest, resume)
    if resume:
        fetch(out, mirror)
    return RunDirectory(out, command, asked, digest, resume, lambda: check(out, mirror))


def _solved(
    problem: ProblemType[Any, Any],
    posed: Posed[Any, Any],
    session: Session,
    directory: RunDirectory | None,
    journal: Journal | None,
    began_s: float,
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
        began_s=began_s,
    )
    return Answer(problem.answer(posed, run), posed, run.tables)
