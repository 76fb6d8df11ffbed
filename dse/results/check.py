"""``dse check``: recompute a result from its input, regardless of the command, and list every violation.

The part that all problems share comes first: the seal, the settings, the problem that they pose, its digest, name and
objective, the method, and what status, value, bound, gap and counts say of each other. Then the problem's own checker
recomputes what follows from the solution.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dse.problem import Posed, ProblemType, pose, problem_type, registered
from dse.results.claims import claim_faults
from dse.results.differences import differences
from dse.results.other_versions import other_version, told_of_other_versions
from dse.results.result import Result, result_in, seal_of
from dse.results.unchecked import NotChecked, not_checked
from dse.run.directory import RESULT_FILE, RUN_FILE
from dse.run.options import Options, is_object, option_fields
from hardware.documents import parse_document, read_document, text_of
from hardware.input_files import InputFile, carried, no_code
from hardware.inputs import Fault, InputError, choose, fail, validate


def check_result(path: Path, given: str | None = None, run_code: bool = False) -> list[str]:
    """Every violation of the result in the file ``path``; empty where it holds.

    Args:
        path: a ``dse.result/1`` file.
        given: the file or name that was solved, where it is not the one that the result carries.
        run_code: whether the user's code that the result names is run, rather than its graphs taken from the result.

    Raises:
        InputError: an unreadable result, settings or input.
    """
    return checked(path, given, run_code)[0]


def checked(
    path: Path, given: str | None = None, run_code: bool = False, prove: bool = False
) -> tuple[list[str], list[NotChecked]]:
    """The violations as :func:`check_result` lists them, and what was not checked where there are none.

    With ``prove``, proofs that may take as long as the search are repeated, too.

    Of a result that another version made and that does not hold here, this is the only violation.

    Raises:
        InputError: as :func:`check_result`.
    """
    document = read_document(path)
    with told_of_other_versions(path) if given is None else nullcontext():
        result = result_in(document, path)
        posed = posed_again(result, path, given, run_code)
        faults = list(dict.fromkeys(chain.from_iterable(faults_in_turn(document, path, given, posed, run_code))))
    if faults:
        other = other_version(document)
        return faults if other is None else [other], []
    with _received(result, given, run_code):
        proofs = problem_type(result.command).proof_faults(result, posed) if prove else None
        if proofs:
            return proofs, []
        return [], not_checked(result, posed, run_code or given is not None, proofs is not None)


def faults_in_turn(
    document: Any,
    path: Path,
    given: str | None = None,
    posed: Posed[Any, Any] | None = None,
    run_code: bool = False,
) -> Iterator[list[str]]:
    """The violations of a result document by parts of the check, each computed when it is requested.

    What the document itself says comes first, then what its problem says, and what only the problem's own checker can
    say comes last.

    Args:
        document: of a ``dse.result/1`` file.
        path: its file.
        given: as in :func:`check_result`.
        run_code: likewise.
        posed: the problem that the result answers; None to pose it again.

    Raises:
        InputError: as :func:`check_result`.
    """
    result = result_in(document, path)
    yield seal_faults(document)
    yield _run_faults(result, path)
    yield _settings_faults(result, _options_again(result, path))
    problem = posed if posed is not None else posed_again(result, path, given, run_code)
    if given is None:
        yield _input_faults(result.inputs, problem.inputs)
    # Nothing is yielded while files are carried: whoever asks would read from them too.
    with _received(result, given, run_code):
        shared = _shared_faults(result, problem)
    yield shared
    with _received(result, given, run_code):
        own = _own_faults(result, problem, shared, str(path))
    yield own


def posed_again(result: Result, path: Path, given: str | None = None, run_code: bool = False) -> Posed[Any, Any]:
    """The problem that ``result``, of the file ``path``, answers: from what it carries, or from what is ``given``.

    Raises:
        InputError: settings that are none, or an input that cannot be read.
    """
    options = _options_again(result, path)
    if given is not None:
        options = _about(options, given)
    else:
        _refuse_objects(result, path)
    with _received(result, given, run_code):
        return pose(problem_type(result.command), options)


@contextmanager
def _received(result: Result, given: str | None, run_code: bool) -> Iterator[None]:
    """What is read comes from the result, and no code is run, unless the user says so or names the input."""
    if given is not None:
        yield
        return
    with carried(result.inputs), nullcontext() if run_code else no_code():
        yield


def _options_again(result: Result, path: Path) -> Options:
    """The options that pose the problem of ``result``, of the file ``path``."""
    problem = problem_type(choose(str(path), "command", result.command, registered(), "command"))
    options: Options = problem.Options.from_document(result.settings, str(path), "settings")
    return options


def _refuse_objects(result: Result, path: Path) -> None:
    """InputError where the input was an object, which only the program that has it can check."""
    for name, setting in result.settings.items():
        if is_object(setting):
            rule = "is a Python object, which a file cannot store; use answer.check() in the program that created it"
            raise fail(str(path), f"settings.{name}", "", rule)


def _about(options: Options, given: str) -> Options:
    """``options`` with another input."""
    for each in option_fields(type(options)):
        if each.option.is_source:
            value = (given,) if isinstance(getattr(options, each.name), tuple) else given
            return replace(options, **{each.name: value})
    return options


def faults_of(result: Result, posed: Posed[Any, Any], where: str = "result") -> list[str]:
    """Every violation of ``result`` as an answer to ``posed``; ``where``: how errors call it.

    Raises:
        InputError: a solution or metrics that are malformed.
    """
    shared = _shared_faults(result, posed)
    return list(dict.fromkeys([*shared, *_own_faults(result, posed, shared, where)]))


def _own_faults(result: Result, posed: Posed[Any, Any], shared: list[str], where: str) -> list[str]:
    """What the problem's checker finds in solution and metrics.

    Raises:
        InputError: one of them has not the form of its model, whatever else is wrong; or the checker refuses one, and
            nothing of ``shared`` is wrong.
    """
    problem = problem_type(result.command)
    for key, model in zip(("solution", "metrics"), problem.documents(posed.options), strict=True):
        part = getattr(result, key)
        if model is not None and (part or (key == "metrics" and result.solution)):
            _validated(model, part, f"{where}: {key}")
    try:
        return problem.faults(result, posed)
    except InputError as error:
        if shared:
            return []
        raise InputError([_renamed(fault, where) for fault in error.faults]) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        # Checkers read figures by their names; one that is of another type is a fault of the result, whatever breaks.
        return [f"solution or metrics are malformed: {type(error).__name__}: {' '.join(str(error).split())}"]


def _renamed(fault: Fault, where: str) -> Fault:
    """A fault of what checkers call the result, which do not know its file."""
    part = fault.file.removeprefix("result")
    return fault if part == fault.file else replace(fault, file=f"{where}{part}")


def _shared_faults(result: Result, posed: Posed[Any, Any]) -> list[str]:
    """What is wrong with ``result`` as an answer to ``posed`` without regard to its solution and metrics."""
    problem = problem_type(result.command)
    return _problem_faults(result, posed, problem) + claim_faults(result, problem.statuses(result))


def _validated(model: type[BaseModel], part: Mapping[str, Any], where: str) -> None:
    validate(model, dict(part), where)


def seal_faults(document: Mapping[str, Any]) -> list[str]:
    """Whether the document of a result is whole, and as it was written."""
    keys = [field.alias or name for name, field in Result.model_fields.items()]
    faults = [f"{key}: the key is missing" for key in keys if key not in document]
    expected = seal_of(document)
    if document.get("seal") != expected:
        faults.append(f"seal must be {expected}: the file was edited after it was written")
    return faults


def _problem_faults(result: Result, posed: Posed[Any, Any], problem: ProblemType[Any, Any]) -> list[str]:
    faults = []
    if result.problem.digest != posed.digest:
        faults.append(f"problem.digest must be {posed.digest}: the input differs")
    if result.problem.name != posed.name:
        faults.append(f"problem.name must be {posed.name}, but got {result.problem.name}")
    expected = posed.objective.model_copy(update={"value": result.objective.value})
    if result.objective != expected:
        faults.append(
            f"objective must be {expected.name} [{expected.unit}], {expected.sense}, but got {result.objective.name} "
            f"[{result.objective.unit}], {result.objective.sense}"
        )
    methods = problem.answered_by(posed.options)
    if result.method not in methods:
        faults.append(f"method must be {' or '.join(methods)}, but got {result.method}")
    return faults + _settings_faults(result, posed.options)


def _settings_faults(result: Result, options: Options) -> list[str]:
    """Settings that are not stated: a result has all of them, including defaults."""
    return [f"settings.{key}: the key is missing" for key in options.document() if key not in result.settings]


def _input_faults(stated: Mapping[str, InputFile], read: Mapping[str, InputFile]) -> list[str]:
    """Files whose content does not match its digest, and files that were never read.

    Code is noted by its absolute path, too. Where it was moved with the directory that names it, it is read elsewhere.
    """
    contents = {file.sha256 for file in read.values()}

    def is_moved(name: str, file: InputFile) -> bool:
        return name == file.path and file.sha256 in contents and not os.path.exists(name)

    unread = [name for name, file in stated.items() if name not in read and not is_moved(name, file)]
    faults = [f"inputs.{name}: is not read with these settings" for name in unread]
    for name, file in stated.items():
        again = read.get(name)
        if again is not None and again.sha256 != file.sha256:
            faults.append(f"inputs.{name}.sha256 must be {again.sha256}, but got {file.sha256}")
    return faults


def _run_faults(result: Result, path: Path) -> list[str]:
    """Whether settings and seed are those of the run directory that the result lies in."""
    run_file = path.parent / RUN_FILE
    if path.name != RESULT_FILE or not run_file.exists():
        return []
    document = _run_document(text_of(run_file), run_file)
    arguments = document.get("arguments") if isinstance(document, dict) else None
    expected = problem_type(result.command).run_arguments(result.settings, result.seed)
    return differences(f"settings and seed of {RUN_FILE}", arguments, expected)


_run_document = lru_cache(maxsize=4)(parse_document)
"""The arguments of a run, for all results that are said to be its own."""
