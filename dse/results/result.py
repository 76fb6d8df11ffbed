"""The one result format of every command, ``dse.result/1``: settings, status, objective, bound, gap, solution.

A result carries its problem (``settings``, and the content of every text file in ``inputs``), so that it can be checked
anywhere. ``seal`` is the digest of everything else in the file: a check refuses a file that was edited.
The check also recomputes what follows from the problem (:mod:`dse.results.check`).
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dse.results.infeasibility import Infeasibility
from dse.run.versions import versions
from hardware.documents import read_document
from hardware.input_files import InputFile
from hardware.inputs import fail, validate

SCHEMA = "dse.result/1"

Status = Literal["optimal", "feasible", "infeasible", "interrupted", "unknown"]

PROOF_TOLERANCE = 1e-9
"""An answer counts as proven when its gap is at most this: the accuracy of a long sum of doubles."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class _File(_Strict):
    """What :class:`~hardware.input_files.InputFile` has, as in a result file."""

    path: str
    sha256: str
    text: str | None


def _file(value: Any) -> Any:
    return InputFile(**_File.model_validate(value).model_dump()) if isinstance(value, dict) else value


class ProblemReference(_Strict):
    """Which problem was answered.

    Attributes:
        name: for people.
        digest: SHA-256 of the posed problem in canonical JSON.
    """

    name: str
    digest: str


class Objective(_Strict):
    """What was optimised.

    Attributes:
        name: such as ``batch_s``.
        value: null without a feasible answer.
        unit: of value and bound.
        sense: ``min`` or ``max``.
    """

    name: str
    value: float | None
    unit: str
    sense: Literal["min", "max"]


class Result(_Strict):
    """One answer.

    Attributes:
        command: the problem, as the command calls it.
        problem: its name and digest.
        status: ``optimal`` (proven), ``feasible``, ``infeasible`` (proven), ``interrupted``, ``unknown`` (stopped
            before any answer).
        objective: what was optimised, and its value.
        bound: what no answer can be better than; null where none is known.
        gap: |value − bound| / max(|value|, |bound|).
        solution, metrics: by problem.
        infeasibility: why nothing fits, or null.
        evaluations, seconds: the cost of the run.
        seed: of the run.
        method: that gave the answer.
        settings: the options, defaults included, by their names with ``_`` for ``-``.
        inputs: every file that was read; the graphs of user code, whose path is empty.
        versions: of ``dse``, with the commit of a checkout, Python and the solver libraries.
        seal: SHA-256 of everything else in the file; empty until the result is written.
    """

    schema_: Literal["dse.result/1"] = Field(default="dse.result/1", alias="schema")
    command: str
    problem: ProblemReference
    status: Status
    objective: Objective
    bound: float | None = None
    gap: float | None = None
    solution: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Any] = Field(default_factory=dict)
    infeasibility: Infeasibility | None = None
    evaluations: int = 0
    seconds: float = 0.0
    seed: int = 0
    method: str
    settings: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, Annotated[InputFile, BeforeValidator(_file)]] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=versions)
    seal: str = ""

    def sealed(self) -> Self:
        """The result with the seal that goes with its content."""
        return self.model_copy(update={"seal": seal_of(self.model_dump(by_alias=True))})

    def to_json(self) -> str:
        """The sealed result as indented JSON text, with ``schema`` first."""
        return json.dumps(self.sealed().model_dump(by_alias=True), indent=2, allow_nan=False) + "\n"

    @property
    def provenance(self) -> str:
        """What was answered, and how it can be repeated: digest, seed, method and versions, in one line."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.problem.digest} · seed {self.seed} · {self.method} · {versions}"

    @property
    def exit_code(self) -> int:
        """0 answered, 1 proven infeasible, 3 stopped before any feasible answer, 130 interrupted."""
        return {"optimal": 0, "feasible": 0, "infeasible": 1, "interrupted": 130, "unknown": 3}[self.status]


def relative_gap(value: float | None, bound: float | None) -> float | None:
    """|value − bound| / max(|value|, |bound|); None where either is unknown."""
    if value is None or bound is None:
        return None
    if value == bound:
        return 0.0
    return abs(value - bound) / max(abs(value), abs(bound))


def percent(gap: float) -> str:
    """A gap for people; only a closed gap is shown as 0 %."""
    if gap <= PROOF_TOLERANCE:
        return "0 %"
    return f"{100 * gap:.2f} %" if gap >= 1e-4 else f"{100 * gap:.1g} %"


def proven_status(value: float | None, bound: float | None) -> Status:
    """``optimal`` when the gap is closed, ``feasible`` with an open or unknown gap, ``unknown`` without an answer."""
    if value is None or not math.isfinite(value):
        return "unknown"
    gap = relative_gap(value, bound)
    return "optimal" if gap is not None and gap <= PROOF_TOLERANCE else "feasible"


class FailedCheckError(RuntimeError):
    """An answer that the independent checker refuses: a fault of a solver. It is never recorded or printed."""


def document_of(problem: Any) -> Any:
    """A problem made of dataclasses as JSON types, for its digest."""
    if dataclasses.is_dataclass(problem) and not isinstance(problem, type):
        return {field.name: document_of(getattr(problem, field.name)) for field in dataclasses.fields(problem)}
    if isinstance(problem, Mapping):
        return {str(key): document_of(value) for key, value in problem.items()}
    if isinstance(problem, tuple | list):
        return [document_of(value) for value in problem]
    return problem


def digest(content: Any) -> str:
    """``sha256:…`` of ``content`` (JSON types) in canonical form: sorted keys, no spaces."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def seal_of(document: Mapping[str, Any]) -> str:
    """The digest of a result document without its own entry ``seal``."""
    return digest({key: value for key, value in document.items() if key != "seal"})


def read_sealed(path: str | Path) -> Result:
    """The result in ``path``, as it was written.

    Raises:
        InputError: as :func:`read_result`, or the file was edited.
    """
    document = read_document(path)
    result = result_in(document, path)
    if seal_of(document) != result.seal:
        rule = "the file was edited after it was written; `dse check` lists what is wrong with it"
        raise fail(path, "seal", "", rule)
    return result


def read_result(path: str | Path) -> Result:
    """The result in ``path``.

    Raises:
        InputError: no such file, not JSON, another major version of the schema, or a field that breaks its rule.
    """
    return result_in(read_document(path), path)


def result_in(document: Any, path: str | Path) -> Result:
    """The result of the document in ``path``.

    Raises:
        InputError: another major version of the schema, or a field that breaks its rule.
    """
    if isinstance(document, dict) and str(document.get("schema")) != SCHEMA:
        raise fail(path, "schema", str(document.get("schema")), f"must be {SCHEMA}")
    return validate(Result, document, path, strict=True)
