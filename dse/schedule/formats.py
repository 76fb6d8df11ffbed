"""Reading ``dse.schedule/1`` documents, and writing and reading schedules in the user's operator names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dse.graph.named_edges import graph_faults
from dse.schedule.problem import Schedule, ScheduleOperator, ScheduleProblem
from hardware.documents import read_document
from hardware.inputs import Document, Fault, InputError, nearest, validate
from hardware.operations import CoreKind

_LONGEST_S = 1e12
_MAX_CORES = 10**6


def _edge(value: Any) -> Any:
    if isinstance(value, list) and len(value) in (2, 3):
        return tuple(value[:2])
    raise ValueError("an edge must be [from, to] or [from, to, bytes]")


def _cores(value: Any) -> Any:
    if value == "all" or (isinstance(value, list) and all(type(core) is int for core in value)):
        return value if value == "all" else tuple(value)
    raise ValueError('cores must be "all" or a list with one core number')


_Name = Annotated[str, Field(min_length=1)]
_Latency = Annotated[float, Field(ge=0, le=_LONGEST_S, allow_inf_nan=False)]
_Time = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A time in a schedule: a sum of latencies, which may be beyond the limit of one."""

_CoreCount = Annotated[int, Field(ge=1, le=_MAX_CORES)]
_Edge = Annotated[tuple[_Name, _Name], BeforeValidator(_edge)]


class OperatorDocument(Document):
    """An operator of a layer.

    Attributes:
        name: unique.
        kind: ``fused`` takes a tensor core and the vector core of the same number.
        single_s: seconds on one core of its kind.
        all_cores_s: seconds on all cores, while nothing else runs.
    """

    name: _Name
    kind: CoreKind
    single_s: _Latency
    all_cores_s: _Latency


class ProblemDocument(Document):
    """A ``dse.schedule/1`` document.

    Attributes:
        name: for people; the name of the file where it is left out.
        tensor_cores, vector_cores: of the accelerator.
        operators: in any order.
        edges: ``[from, to]``; bytes behind them are accepted and ignored, since latencies hold transfers.
    """

    version: Annotated[Literal["dse.schedule/1"], Field(alias="schema")]
    name: str = ""
    tensor_cores: _CoreCount
    vector_cores: _CoreCount
    operators: Annotated[list[OperatorDocument], Field(min_length=1)]
    edges: list[_Edge]


class OperatorRun(Document):
    """When and where an operator runs.

    Attributes:
        start_s, finish_s: from the beginning of the layer.
        cores: ``"all"``, or a list with the number of one core.
    """

    start_s: _Time
    finish_s: _Time
    cores: Annotated[tuple[int, ...] | Literal["all"], BeforeValidator(_cores)]


class SolutionDocument(Document):
    """``solution`` of a result: a schedule.

    Attributes:
        operators: the run of each, by name.
    """

    operators: dict[str, OperatorRun]


class MetricsDocument(Document):
    """``metrics`` of a result: a schedule has none."""


def read_problem(path: str | Path) -> ScheduleProblem:
    """The scheduling problem in a JSON or YAML file, named after the file unless it says otherwise.

    Raises:
        InputError: one fault for each thing that is wrong with the file.
    """
    return problem_from_document(read_document(path), path)


def problem_from_document(document: Any, path: str | Path) -> ScheduleProblem:
    """The scheduling problem in a parsed document; ``path`` names it in errors.

    Latencies may be zero (a view or a reshape), and the bytes of an edge are accepted and not used: the latencies
    already hold the transfers.

    Raises:
        InputError: one fault for each thing that is wrong.
    """
    parsed = validate(ProblemDocument, document, path)
    names = [operator.name for operator in parsed.operators]
    faults = [Fault(str(path), *fault) for fault in graph_faults("operator", names, parsed.edges)]
    if faults:
        raise InputError(faults)
    position = {name: index for index, name in enumerate(names)}
    return ScheduleProblem(
        name=parsed.name or Path(path).stem,
        tensor_cores=parsed.tensor_cores,
        vector_cores=parsed.vector_cores,
        operators=tuple(
            ScheduleOperator(operator.name, operator.kind, operator.single_s, operator.all_cores_s)
            for operator in parsed.operators
        ),
        edges=tuple((position[source], position[target]) for source, target in parsed.edges),
    )


def schedule_document(schedule: Schedule, names: Sequence[str]) -> dict[str, Any]:
    """``schedule`` as the ``solution`` of a result file; ``names`` are the operators' names by position."""
    runs = zip(names, schedule.start_s, schedule.finish_s, schedule.cores, strict=True)
    return {
        "operators": {
            name: {"start_s": start_s, "finish_s": finish_s, "cores": cores if cores == "all" else list(cores)}
            for name, start_s, finish_s, cores in runs
        }
    }


def schedule_from_document(problem: ScheduleProblem, document: Any, path: str | Path) -> Schedule:
    """The schedule that :func:`schedule_document` wrote; whether it is feasible is for the checker to say.

    Raises:
        InputError: the document is malformed, names an unknown operator or leaves one out.
    """
    parsed = validate(SolutionDocument, document, path)
    known = [operator.name for operator in problem.operators]
    faults = [
        Fault(str(path), f"operators.{name}", "", "must be an operator of the problem", nearest(name, known))
        for name in parsed.operators
        if name not in known
    ]
    missing = [name for name in known if name not in parsed.operators]
    faults += [Fault(str(path), f"operators.{name}", "", "must be scheduled") for name in missing]
    if faults:
        raise InputError(faults)
    runs = [parsed.operators[name] for name in known]
    return Schedule(
        start_s=tuple(run.start_s for run in runs),
        finish_s=tuple(run.finish_s for run in runs),
        cores=tuple(run.cores for run in runs),
    )
