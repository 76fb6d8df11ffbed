"""The one way in which every paper is reproduced: choose, pose, journal, make the parts, report."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dse.reproduce.paper import Context, OptionsT, Paper, Part, Posed
from dse.reproduce.section import Reproduction, Section
from dse.results.result import digest
from dse.run.directory import JOURNAL_FILE, RunDirectory
from dse.run.journal import Journal
from dse.run.owned_folder import OwnedFolder
from dse.run.progress import StoppedError, StopSignal
from dse.run.run import Run
from hardware.inputs import choose, fail


@dataclass(frozen=True)
class Job:
    """A paper with validated options: everything that they name has been read.

    Attributes:
        paper: what is reproduced.
        options: of the paper.
        parts: that are wanted, in the order of printing.
        posed: what the options come to.
    """

    paper: Paper[Any, Any]
    options: Any
    parts: tuple[str, ...]
    posed: Posed[Any]

    @property
    def predicted_s(self) -> float:
        """Seconds on one core: those of the longest part, since parts share searches."""
        return max(self.posed.predicted_s[name] for name in self.parts if self.paper.parts[name].missing is None)

    @property
    def arguments(self) -> dict[str, Any]:
        """Paper, parts and options, as JSON types: a run directory belongs to one set of them."""
        return {"paper": self.paper.name, "parts": list(self.parts), **self.options.document()}


def job_of(paper: Paper[OptionsT, Context], names: Sequence[str], options: OptionsT) -> Job:
    """The job of making the parts ``names`` of ``paper``; all of them when none is named.

    Raises:
        InputError: no part of this name (the nearest one is offered), something that an option names and that
            cannot be read, or no part that this installation can make.
    """
    parts = chosen_parts(paper, names)
    missing = [paper.parts[name].missing for name in parts]
    if None not in missing:
        raise fail(f"dse reproduce {paper.name}", "PART", ", ".join(parts), str(missing[0]))
    return Job(paper, options, parts, paper.pose(options, parts))


def chosen_parts(paper: Paper[Any, Any], names: Sequence[str]) -> tuple[str, ...]:
    """The parts ``names``, in the order of printing; all of them when none is named.

    Raises:
        InputError: no part of this name (the nearest one is offered).
    """
    for name in names:
        choose("dse reproduce", "PART", name, (*paper.parts, *paper.synonyms), f"table or figure of {paper.name}")
    wanted = {paper.synonyms.get(name, name) for name in names}
    return tuple(name for name in paper.parts if not names or name in wanted)


@contextmanager
def journal_of(job: Job, seed: int, out: Path | None, resume: bool) -> Iterator[Journal]:
    """The journal of all searches: in the run directory ``out``, or in a folder that is removed afterwards.

    Raises:
        InputError: ``out`` belongs to another run, or to this one and ``resume`` does not ask to continue it.
    """
    if out is None:
        if resume:
            raise fail("dse", "--resume", "", "must be given with --out DIR, the run directory")
        with (
            OwnedFolder("dse-reproduce-", Path(tempfile.gettempdir())) as folder,
            Journal(folder.path / JOURNAL_FILE) as journal,
        ):
            yield journal
        return
    arguments = {**job.arguments, "seed": seed}
    directory = RunDirectory(out, "reproduce", arguments, digest(job.posed.identity), resume)
    with Journal(directory.path / JOURNAL_FILE) as journal:
        yield journal


class _FirstReason:
    """A stop signal that remembers the first reason that it gave: a run is stopped once work has heard of it."""

    def __init__(self, signal: StopSignal) -> None:
        self._signal = signal
        self.reason: str | None = None

    def __call__(self) -> str | None:
        if self.reason is None:
            self.reason = self._signal()
        return self.reason


def reproduce(job: Job, run: Run) -> Reproduction:
    """Every part of the job, in turn. What cannot be made, or was not reached, is a section that says why.

    Args:
        job: what is made.
        run: the means; finished searches are in its journal whatever happens.
    """
    started, stop = time.perf_counter(), _FirstReason(run.stop)
    paper = job.paper
    context = job.posed.context(replace(run, stop=stop))
    sections = []
    for name in job.parts:
        # Each part is a phase of its own: what the one before took says nothing of the next.
        run.progress(f"{paper.name} {name}", 0, 1)
        sections.append(_section(name, paper.parts[name], context, stop, job.posed.predicted_s))
        run.progress(f"{paper.name} {name}", 1, 1)
    return Reproduction(
        paper=paper.name,
        citation=paper.citation,
        settings={
            "paper": paper.name,
            "parts": list(job.parts),
            **job.posed.settings,
            "seed": run.seed,
            "workers": run.executor.workers,
        },
        budget=job.posed.budget,
        sections=tuple(sections),
        seconds=time.perf_counter() - started,
        stopped=stop.reason,
    )


def _section(
    name: str, part: Part[Context], context: Context, stop: StopSignal, predicted_s: Mapping[str, float]
) -> Section:
    """What the part makes, or why it is skipped."""
    if part.missing is not None:
        return _skipped(name, part, part.missing)
    reason = stop() if predicted_s[name] > 0 else None
    if reason is not None:
        return _skipped(name, part, f"not reached: {reason}")
    try:
        return part.make(context).with_differences()
    except StoppedError as stopped:
        return _skipped(name, part, f"not reached: {stopped}")


def _skipped(name: str, part: Part[Any], reason: str) -> Section:
    return Section(name, part.title, (), (reason,), skipped=reason)
