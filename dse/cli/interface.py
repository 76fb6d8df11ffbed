"""The Python interface: the same as the command line, with objects in and an :class:`Answer` out."""

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_origin

from dse.cli.executors import executor_of
from dse.cli.methods import upper_document, upper_methods, with_upper_defaults
from dse.problem import problem_type
from dse.results.answer import Answer
from dse.results.session import Session, answer
from dse.run.options import OptionField, as_option, option_fields, options_of
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from hardware.input_files import InputFile, carried
from hardware.inputs import fail, shown

_CORES = Literal["auto"]


def solve(
    problem: str,
    *sources: Any,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    mirror: str | None = None,
    seed: int = 0,
    workers: int | _CORES = "auto",
    address: str | None = None,
    time_limit: float | None = None,
    item_timeout: float | None = None,
    progress: ProgressCallback = silent,
    stop: StopSignal = never_stop,
    **options: Any,
) -> Answer:
    """Answer a problem.

    Args:
        problem: its name (:func:`dse.problems`).
        sources: the arguments of its command: names, files, documents (a dictionary of JSON types, as
            docs/reference/formats.md describes), or, for a model, a pair of a PyTorch module and its
            example inputs. A result about a module can be checked in this process, but not from its file.
        out: a run directory; None saves nothing.
        resume: whether to continue the run in ``out``.
        mirror: a URI to copy the run directory to.
        seed: of all random choices.
        workers: Ray workers; 0 for none, ``auto`` for as many as the predicted work justifies.
        address: that of an existing Ray cluster; None starts a private local one.
        time_limit: seconds after which the best answer so far is returned.
        item_timeout: seconds after which an evaluation on a worker is abandoned.
        progress: called with (phase, done, total).
        stop: called between pieces of work; returns the reason to stop, or None.
        options: the options of the command, with ``_`` for ``-``.

    Raises:
        InputError: any input that the command would refuse.
    """
    kind = problem_type(problem)
    _require_run_settings(f"dse.{problem}", seed, workers, {"time_limit": time_limit, "item_timeout": item_timeout})
    began_s = time.monotonic()
    deadline_s = math.inf if time_limit is None else began_s + time_limit
    given = _Given()
    kinds = {field.name: field.kind for field in option_fields(kind.Options)}
    named = {name: given.named(name, as_option(value, kinds.get(name))) for name, value in options.items()}
    named |= _positional(kind.Options, tuple(given.named("input", source) for source in sources), problem)
    count = None if workers == "auto" else workers
    session = Session(
        out=None if out is None else Path(out),
        resume=resume,
        mirror=mirror,
        seed=seed,
        time_limit_s=math.inf if time_limit is None else time_limit,
        item_timeout_s=item_timeout,
        progress=progress,
        stop=lambda: stop() or ("time limit" if time.monotonic() > deadline_s else None),
        executor=lambda predicted_s, journal: executor_of(count, address, predicted_s, journal, item_timeout),
        methods=partial(upper_methods, problem),
        document=partial(upper_document, problem),
        began_s=began_s,
    )
    with carried(given.files):
        return answer(kind, with_upper_defaults(problem, options_of(kind.Options, **named)), session)


def _require_run_settings(function: str, seed: Any, workers: Any, limits_s: Mapping[str, Any]) -> None:
    """Refuse what the command line would refuse."""
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise fail(function, "seed", seed, "must be a whole number from 0 to 2^63 - 1")
    if workers != "auto" and (type(workers) is not int or workers < 0):
        raise fail(function, "workers", workers, "must be 0, 1, 2, … or auto")
    for name, limit_s in limits_s.items():
        is_number = isinstance(limit_s, int | float) and not isinstance(limit_s, bool)
        if limit_s is not None and not (is_number and 0 < limit_s < math.inf):
            raise fail(function, name, limit_s, "must be a positive number of seconds")


def described(problem: str) -> str:
    """The question and the options of a problem, for :func:`help`."""
    kind = problem_type(problem)
    lines = [" ".join(kind.help.split()), "", "Options:"]
    for field in option_fields(kind.Options):
        default = "" if field.required or field.default is None else f" (default: {field.default!r})"
        lines.append(f"    {field.name}: {field.option.help or field.option.metavar or _plain_kind(field)}{default}")
    return "\n".join(
        [*lines, "", "Every problem also takes the arguments of dse.cli.interface.solve: out, resume, seed, workers, …"]
    )


def _plain_kind(field: OptionField) -> str:
    return str(getattr(field.kind, "__name__", field.kind)).replace("typing.", "")


def _positional(kind: Any, sources: tuple[Any, ...], problem: str) -> dict[str, Any]:
    """Positional arguments, by the names of their options."""
    fields = [field for field in option_fields(kind) if field.option.positional]
    if not sources:
        return {}
    if fields and get_origin(fields[0].kind) is tuple:
        return {fields[0].name: sources}
    if len(sources) > len(fields):
        raise fail(f"dse.{problem}", "", f"{len(sources)} positional arguments", f"must be at most {len(fields)}")
    return {field.name: source for field, source in zip(fields, sources, strict=False)}


class _Given:
    """Objects that stand for files: each has a name by which the readers find its text."""

    def __init__(self) -> None:
        self.files: dict[str, InputFile] = {}

    def named(self, option: str, value: Any) -> Any:
        """What an option holds for ``value``: itself, or the name under which its content is carried."""
        if isinstance(value, list):
            return tuple(self.named(option, each) for each in value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, Mapping):
            return self._document(option, value)
        return value

    def _document(self, option: str, value: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(value, indent=1, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise fail(option, "", "", f"must be representable as JSON: {shown(str(error))}") from error
        digest = hashlib.sha256(text.encode()).hexdigest()
        name = f"{value.get('name') or option}-{digest[:8]}.json"
        self.files[name] = InputFile("", digest, text)
        return name
