"""What every problem must keep, as functions that raise AssertionError where one does not.

They take a problem and options that pose a small instance, and cost a few answers each. The laws: the same seed gives
the same answer; so does any number of workers; a run that is killed and resumed ends as one that never was; a run
that is stopped at any moment has a legal answer or says that it has none; what is infeasible is explained; a result
passes its check, and no altered one does.
"""

import json
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

from dse.problem import Posed, ProblemType, pose
from dse.results import check
from dse.results.answer import Answer
from dse.results.check import check_result, faults_in_turn, faults_of
from dse.results.result import Result, result_in, seal_of
from dse.results.session import Session, answer
from dse.results.unchecked import not_checked
from dse.run.directory import RESULT_FILE, RUN_FILE, RunDirectory
from dse.run.executor import Executor
from dse.run.options import Options
from dse.run.run import Run
from dse.run.tables import Tables
from dse.testing.alterations import Place, altered, sampled
from hardware.inputs import InputError

POSES = ("command", "settings", "inputs")
"""Entries that say which problem a result answers."""


class Shared(Executor):
    """An executor that was entered before, and is left by whoever entered it."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def workers(self) -> int:
        """Those of the executor."""
        return self._executor.workers

    def outcomes(self, *arguments: Any, **named: Any) -> Any:
        """Those of the executor."""
        return self._executor.outcomes(*arguments, **named)


class Killed(BaseException):
    """Ends a run as a dying process would: nothing catches it."""


def comparable(result: Result) -> Any:
    """A result without what differs between two runs of the same: its times and its seal."""
    return _without_times(result.model_dump(exclude={"seal"}))


def _without_times(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_times(value) for key, value in node.items() if key != "seconds"}
    return [_without_times(each) for each in node] if isinstance(node, list) else node


def solved(problem: ProblemType[Any, Any], options: Options, **settings: Any) -> Result:
    """The answer to ``options`` in this process; ``settings`` are those of :class:`~dse.run.run.Run`."""
    return problem.answer(pose(problem, options), Run(**settings))


def same_seed_same_answer(
    problem: ProblemType[Any, Any], options: Options, seed: int = 3, first: Result | None = None
) -> None:
    """Two runs with one seed give the same result, and it passes its check.

    Args:
        problem: the posed problem.
        options: which instance of it.
        seed: of both runs.
        first: the result of the first run, where it was made before.
    """
    posed = pose(problem, options)
    first = first if first is not None else problem.answer(posed, Run(seed=seed))
    second = problem.answer(posed, Run(seed=first.seed))
    assert comparable(first) == comparable(second), "the same seed must give the same answer"
    assert faults_of(first, posed) == [], "a fresh answer must pass its own check"


def workers_change_nothing(problem: ProblemType[Any, Any], options: Options, executor: Executor) -> None:
    """An executor whose workers are there already gives the answer that this process gives."""
    here = solved(problem, options)
    there = solved(problem, options, executor=Shared(executor))
    assert comparable(here) == comparable(there), "the number of workers must not change the answer"


def stopped_anywhere_is_legal(
    problem: ProblemType[Any, Any], options: Options, moments: Sequence[int] = (1, 2, 5, 20)
) -> None:
    """Stopped when it asks for the n-th time, a run has an answer that passes the check, or says that it has none.

    At the first moment, where least was done, it is stopped for either reason; at the others for one of them in turn.
    A run that ends before it has asked so often is the last one: at later moments it would be the same.

    Args:
        problem: the posed problem.
        options: which instance of it.
        moments: at which of its questions it is stopped, ascending.
    """
    posed = pose(problem, options)
    reasons = ("interrupted", "time limit")
    stops = [*product(moments[:1], reasons), *zip(moments[1:], cycle(reasons), strict=False)]
    for moment, reason in stops:
        stop = _StopAt(moment, reason)
        result = problem.answer(posed, Run(stop=stop))
        faults = faults_of(result, posed)
        assert faults == [], f"stopped at stop check {moment} ({reason}): {faults}"
        if result.objective.value is None:
            assert result.status in ("unknown", "interrupted", "infeasible"), result.status
        if stop.questions < moment:
            return


class _StopAt:
    """Stops a run at one of its questions, and at all that follow.

    Args:
        moment: which question, from 1.
        reason: what the run is told.

    Attributes:
        questions: that were asked.
    """

    def __init__(self, moment: int, reason: str) -> None:
        self.questions = 0
        self._moment, self._reason = moment, reason

    def __call__(self) -> str | None:
        """The reason from that question on."""
        self.questions += 1
        return self._reason if self.questions >= self._moment else None


def killed_and_resumed(
    problem: ProblemType[Any, Any],
    options: Options,
    folder: Path,
    moments: Sequence[int] = (1, 3, 10),
    whole: Result | None = None,
) -> Answer:
    """Killed when it asks for the n-th time, and resumed, a run ends as one that was never killed.

    One run directory is killed at every moment, in sequence, each time with what the earlier runs left there;
    the run that was never killed has no directory, and may have been made before (``whole``).

    Returns:
        The answer that finished the run directory, as its solver made it.
    """
    whole = whole if whole is not None else solved(problem, options)
    attempts = [_killed_at(moment, problem, options, folder / "killed") for moment in moments]
    resumed = answer(problem, options, Session(out=folder / "killed", resume=True))
    assert comparable(resumed.result) == comparable(whole), f"killed at stop checks {', '.join(map(str, moments))}"
    # A run that ended before its question was finished by the first such attempt: later ones only read its answer.
    return next((ended for ended in attempts if ended is not None), resumed)


def _killed_at(moment: int, problem: ProblemType[Any, Any], options: Options, out: Path) -> Answer | None:
    """A run in ``out`` that ends as in a power cut when it asks for the ``moment``-th time; its answer if it asks less
    often.
    """
    questions = 0

    def kill() -> None:
        nonlocal questions
        questions += 1
        if questions >= moment:
            raise Killed

    try:
        return answer(problem, options, Session(out=out, stop=kill, resume=True))
    except Killed:
        _tear(out / "journal.jsonl")
        return None


def _tear(journal: Path) -> None:
    """Leave half a line behind, as a power cut may."""
    if journal.exists():
        with journal.open("ab") as file:
            file.write(b'{"key": "to')


def infeasible_is_explained(problem: ProblemType[Any, Any], options: Options) -> Result:
    """A problem without an answer says which resource is short, by how much, and possible remedies.

    Returns:
        Its result.
    """
    posed = pose(problem, options)
    result = problem.answer(posed, Run())
    assert result.status == "infeasible", result.status
    proof = result.infeasibility
    assert proof is not None
    assert all((proof.resource, proof.unit, proof.explanation, proof.levers)), proof
    assert faults_of(result, posed) == []
    assert proof.explanation in problem.view(result, posed, Tables()).verdict
    return result


def is_shown(problem: ProblemType[Any, Any], options: Options, folder: Path, answered: Answer | None = None) -> None:
    """The run directory of an answer holds its files, and its page is whole; a second call returns the same answer.

    Args:
        problem: the posed problem.
        options: which instance of it.
        folder: that the run directory is in.
        answered: what :func:`killed_and_resumed` returned for this folder; None for a run that is made now.
    """
    out = folder / ("shown" if answered is None else "killed")
    answered = answered if answered is not None else answer(problem, options, Session(out=out))
    status = answered.status
    assert answered.value is not None, f"is_shown needs an instance with an answer, but its status is {status}"
    assert answered.view.verdict, "the view must have a verdict"
    report = (out / "report.html").read_text()
    assert report.startswith("<!doctype html>"), "report.html must be an HTML page"
    tables, shown = len(answered.view.tables), report.count("<table")
    assert shown >= tables, f"the page must show all {tables} tables of the view, but shows {shown}"
    again = answer(problem, options, Session(out=out, resume=True))
    assert comparable(again.result) == comparable(answered.result), "a finished run must return its answer"
    assert "<p class='verdict'>" in answered._repr_html_(), "a notebook must show the verdict"


def no_alteration_passes(
    problem: ProblemType[Any, Any], result: Result, posed: Posed[Any, Any], folder: Path, count: int = 150
) -> None:
    """The check finds every altered entry: as the file was edited, and when a forger has sealed it again.

    As the file was edited, the seal finds it. What the check says of a file sealed again follows from the problem,
    which is posed once for all alterations that leave :data:`POSES` as they are. The first alteration of every entry
    goes through the whole check, as by ``dse check``: no part of it may break, regardless of what earlier parts found.
    For other alterations one fault is enough.

    Sealed again, only what the check says it has not checked may pass
    (:func:`~dse.results.unchecked.not_checked`), and where an input file lay. Beside a ``run.yaml`` the check compares
    settings and seed with it; without one it must still find a setting that is missing, or that it should have checked.
    """
    arguments = problem.run_arguments(posed.options.document(), result.seed)
    directory = RunDirectory(folder / "sealed", problem.name, arguments, posed.run_digest, resume=False)
    path = directory.write(RESULT_FILE, result.to_json())
    document = json.loads(path.read_text())
    assert check_result(path) == []
    again = check.posed_again(result_in(document, path), path)
    passed = []
    trusted = {key for entry in not_checked(result, posed) for key in entry.keys}
    # Of another method and seed nothing is known, but they must be some, and agree with the run directory.
    of_the_run = {key for key in trusted if key not in ("seed", "method") and not key.startswith("settings.")}
    for place in sampled(document, count):
        poses = place[0] in POSES
        only_sealed = place[0] == "seal" or _may_pass(place, of_the_run)
        for number, (what, forged) in enumerate(altered(document, place)):
            if number == 0 and not _refused(path, forged, again, poses=poses, whole=only_sealed):
                passed.append(f"{what} (not sealed)")
            if not only_sealed and not _refused(path, _resealed(forged), again, poses=poses, whole=number == 0):
                passed.append(what)
    passed += [f"{what} (without {RUN_FILE})" for what in _free_settings(document, folder, trusted)]
    claimed = _resealed(document | {"bound": document["objective"]["value"], "gap": 0.0, "status": "optimal"})
    if document["status"] == "feasible" and "bound" not in trusted and not _refused(path, claimed, again):
        passed.append("claim of optimality")
    assert passed == [], f"alterations must be detected, but these were not: {passed}"


def _free_settings(document: dict[str, Any], folder: Path, trusted: Container[str]) -> list[str]:
    """How settings may be altered in a result that lies in no run directory, though the check should have noticed."""
    path = folder / "alone.json"
    path.write_text(json.dumps(document))
    assert check_result(path) == [], "a result must pass its check without its run directory"
    return [
        what
        for key in document["settings"]
        for what, forged in altered(document, ("settings", key))
        if (f"settings.{key}" not in trusted or what.endswith("missing"))
        and not _refused(path, _resealed(forged), None, poses=True)
    ]


def _may_pass(place: Place, trusted: Container[str]) -> bool:
    is_listed = any(".".join(map(str, place[:depth])) in trusted for depth in range(1, len(place) + 1))
    return is_listed or (place[0] == "inputs" and place[-1] == "path")


def _resealed(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"seal": seal_of(document)}


def _refused(
    path: Path, document: Any, known: Posed[Any, Any] | None, *, poses: bool = False, whole: bool = False
) -> bool:
    """Whether the check refuses ``document``.

    Args:
        path: the file that would contain the document.
        document: of a result.
        known: the problem that the result answered before it was altered.
        poses: whether the document may pose another problem.
        whole: whether all parts of the check run; else the first fault ends it, for the parts that cost the most come
            last.
    """
    try:
        posed = known
        if poses:
            posed = _posed_or_known(document, path, known) if whole and known is not None else None
        faults = faults_in_turn(document, path, posed=posed)
        return any(list(faults) if whole else faults)
    except InputError:
        return True


def _posed_or_known(document: Any, path: Path, known: Posed[Any, Any]) -> Posed[Any, Any]:
    """The problem of ``document``, posed again; where it is the ``known`` one, with what was worked out for that.

    Raises:
        InputError: the document poses no problem.
    """
    posed = check.posed_again(result_in(document, path), path)
    ours, theirs = ((each.options, each.digest, each.run_digest) for each in (posed, known))
    return replace(posed, problem=known.problem) if ours == theirs else posed
