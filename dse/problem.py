"""The contract of a problem, and the registry of problems by name.

A problem package offers one object, ``contract.PROBLEM``, a :class:`ProblemType`. Everything else follows from it: the
command ``dse NAME``, the function ``dse.NAME(…)``, ``dse check``, ``report`` and ``compare``, journalling, ``--resume``
and the conformance kit (:mod:`dse.testing`). The lifecycle of one answer::

    options = options_of(problem_type.Options, …)     what the user asks for, validated
    posed = problem_type.pose(options)                 the immutable problem, read once
    result = problem_type.answer(posed, run)           a Result that the package's own checker has passed
    problem_type.faults(result, posed)                 what an independent check finds
    problem_type.view(result, posed, tables)           the answer in the report's own types

A package of ``dse`` with a module ``contract`` is a problem package; the module is imported when the problem is
used. Its ``__init__`` states ``COMMAND`` (its name for users) and ``SUMMARY`` (one line of ``dse --help``). Where it
also states ``VERB``, its command is ``dse NAME VERB``: other verbs of the problem, such as training what it uses, come
from the floors above (:mod:`dse.cli.verbs`).

This module imports nothing heavy: ``dse --help`` reads the registry.
"""

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from dse.report.view import View
    from dse.results.infeasibility import Infeasibility
    from dse.results.result import Objective, Result, Status
    from dse.run.options import Options
    from dse.run.run import Run
    from dse.run.tables import Tables
    from dse.sources.describe import ModelSummary
    from dse.sources.kinds import ProblemFormat, ProblemInput
    from hardware.input_files import InputFile

OptionsT = TypeVar("OptionsT", bound="Options")
ProblemT = TypeVar("ProblemT")

Methods = Mapping[str, Callable[..., Any]]
"""Methods by name. What they take and return is up to the problem package."""


@dataclass(frozen=True)
class Posed(Generic[OptionsT, ProblemT]):
    """A problem as it was read: its options, the immutable problem, and the files that it was read from.

    Attributes:
        options: those that pose it.
        problem: frozen dataclasses, units in the field names.
        name: the name of the problem, for people.
        document: the problem in JSON types; its digest is the problem's identity.
        objective: what is optimised, without a value.
        run_document: what decides what a run writes and is neither the problem nor an option (the weights of a
            checkpoint, what only exported files have), in JSON types. A run directory of something else is refused.
        inputs: the files that were read, by the names that the options give them.
    """

    options: OptionsT
    problem: ProblemT
    name: str
    document: Any = field(repr=False)
    objective: "Objective"
    run_document: Any = None
    inputs: "Mapping[str, InputFile]" = field(default_factory=dict, repr=False)

    @cached_property
    def digest(self) -> str:
        """``sha256:…`` of :attr:`document`."""
        from dse.results.result import digest

        return digest(self.document)

    @cached_property
    def run_digest(self) -> str:
        """The digest of everything that decides what a run writes and is not an option."""
        from dse.results.result import digest

        return self.digest if self.run_document is None else digest([self.document, self.run_document])


def posed_of(options: OptionsT, problem: ProblemT, name: str, objective: str, unit: str) -> Posed[OptionsT, ProblemT]:
    """A problem of dataclasses, whose ``objective`` is minimised."""
    from dse.results.result import Objective, document_of

    goal = Objective(name=objective, value=None, unit=unit, sense="min")
    return Posed(options, problem, name, document_of(problem), goal)


def result_of(
    command: str,
    posed: Posed[Any, Any],
    *,
    method: str,
    seed: int,
    value: float | None = None,
    bound: float | None = None,
    status: "Status | None" = None,
    solution: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    infeasibility: "Infeasibility | None" = None,
    evaluations: int = 0,
    seconds: float = 0.0,
) -> "Result":
    """The result of a posed problem; status and gap follow from value, bound and infeasibility unless stated.

    The bound of an answer that is proven optimal is its value: a last digit between them is rounding. Where
    ``optimal`` is stated with an open gap, the bound stays, for the check to refuse.
    """
    from dse.results.result import ProblemReference, Result, proven_status, relative_gap

    own: Status = "infeasible" if infeasibility is not None else proven_status(value, bound)
    settled = status or own
    if settled == own == "optimal":
        bound = value
    return Result(
        command=command,
        problem=ProblemReference(name=posed.name, digest=posed.digest),
        status=settled,
        objective=posed.objective.model_copy(update={"value": value}),
        bound=bound,
        gap=relative_gap(value, bound),
        solution=dict(solution or {}),
        metrics=dict(metrics or {}),
        infeasibility=infeasibility,
        evaluations=evaluations,
        seconds=seconds,
        seed=seed,
        method=method,
        settings=posed.options.document(),
        inputs=dict(posed.inputs),
    )


class ProblemType(ABC, Generic[OptionsT, ProblemT]):
    """What a problem package offers to the rest of the house.

    Attributes:
        name: the command's name (``COMMAND`` of the package).
        help: the description under ``dse NAME --help``: what it answers, in a line or two, then what it reads.
        examples: commands that ``--help`` shows.
        epilog: text below its options.
        Options: what a user can ask: a frozen dataclass (:class:`dse.run.options.Options`) that holds the defaults.
        Solution, Metrics: the entries of a result's ``solution`` and ``metrics``, typed; None where the package reads
            them in its own way.
        forms: those of results of other forms, for the types that users see (:mod:`dse.results.documents`).
        models: the formats of models that it reads in addition to those of :mod:`dse.sources.resolve`.
        parallel: whether its work can be spread over workers; otherwise it always runs in this process.
        unchecked: keys of ``metrics`` that only the run itself can know (counts, times); everything else of a result
            is recomputed by the check.
        steering: settings that only direct the search, which no answer tells.
        movable: options that a run directory does not depend on.
        additions: settings that request more than an answer, of which a result without a value says nothing.
        side_by_side: the option that may be a list on the command line, for one table of answers; empty for none.
        side_by_side_headers: of that table: the option's column, then those of :meth:`side_by_side_row`.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    examples: ClassVar[tuple[str, ...]] = ()
    epilog: ClassVar[str] = ""
    Options: ClassVar[type[Any]]
    Solution: "ClassVar[type[BaseModel] | None]" = None
    Metrics: "ClassVar[type[BaseModel] | None]" = None
    forms: "ClassVar[tuple[tuple[type[BaseModel], type[BaseModel]], ...]]" = ()
    models: "ClassVar[tuple[ProblemFormat, ...]]" = ()
    parallel: ClassVar[bool] = True
    unchecked: ClassVar[tuple[str, ...]] = ()
    steering: ClassVar[tuple[str, ...]] = ()
    movable: ClassVar[tuple[str, ...]] = ()
    additions: ClassVar[tuple[str, ...]] = ()
    side_by_side: ClassVar[str] = ""
    side_by_side_headers: ClassVar[tuple[str, ...]] = ()

    def run_arguments(self, settings: "Mapping[str, Any]", seed: int) -> dict[str, Any]:
        """What a run directory belongs to, of ``settings`` in JSON types."""
        return {key: value for key, value in settings.items() if key not in self.movable} | {"seed": seed}

    @abstractmethod
    def pose(self, options: OptionsT) -> Posed[OptionsT, ProblemT]:
        """The problem that ``options`` pose.

        Raises:
            InputError: options that contradict each other, or files that are malformed.
        """

    @abstractmethod
    def answer(self, posed: Posed[OptionsT, ProblemT], run: "Run") -> "Result":
        """The best answer that the chosen method finds, with its bound.

        It calls ``run.stop`` between pieces of work and returns the best so far when it is stopped; it records
        finished work in ``run.journal`` and takes it from there; it puts tables into ``run.tables``. The same seed
        gives the same answer for any executor.

        Raises:
            InputError: as :meth:`pose`, where only the solver can tell.
            FailedCheckError: the checker refuses the answer (a fault of this program).
        """

    @abstractmethod
    def faults(self, result: "Result", posed: Posed[OptionsT, ProblemT]) -> list[str]:
        """What an independent check of ``result`` finds, one sentence each; empty where it holds.

        The shared prelude (:mod:`dse.results.check`) has compared settings, digest, objective, status, value, bound,
        gap, counts and keys by then. Feasibility and cost share no code with a solver; what a bound claims is proven
        again where that is affordable.

        Raises:
            InputError: a malformed solution.
        """

    def open_claims(self, result: "Result", posed: Posed[OptionsT, ProblemT]) -> Mapping[str, str]:
        """What :meth:`faults` can neither confirm nor refute in ``result``: by key, the reason in words."""
        del result, posed
        return {}

    def proof_faults(self, result: "Result", posed: Posed[OptionsT, ProblemT]) -> list[str] | None:
        """What is wrong with claims that :meth:`open_claims` lists, by proofs that may take as long as the search.

        None where no such proof exists, and the claims stay open.
        """
        del result, posed
        return None

    @abstractmethod
    def view(self, result: "Result", posed: Posed[OptionsT, ProblemT], tables: "Tables") -> "View":
        """The answer for people, in the report's own types.

        A view needs a title and a verdict, also where there is no answer. A table that it gives for the terminal must
        are also among the parts of its page.
        """

    def compared(self, results: "Sequence[Result]") -> "Mapping[str, tuple[Any, ...]] | None":
        """What ``dse compare`` shows of several results in addition to status and value: by label, a value for each
        result.

        None, unless a problem has its own, for every number and word in solutions and metrics.
        """
        del results
        return None

    def side_by_side_row(self, result: "Result", posed: Posed[OptionsT, ProblemT]) -> tuple[str, ...]:
        """Cells of one answer in the table of several, without the option's own."""
        raise NotImplementedError

    def side_by_side_notes(self, posed: "Sequence[Posed[OptionsT, ProblemT]]") -> list[str]:
        """What a reader of that table must know before comparing its rows."""
        del posed
        return []

    def documents(self, options: OptionsT) -> "tuple[type[BaseModel] | None, type[BaseModel] | None]":
        """:attr:`Solution` and :attr:`Metrics`, where they depend on the options."""
        del options
        return self.Solution, self.Metrics

    def described(self, source: "ProblemInput", sequence: int | None) -> "ModelSummary":
        """What ``dse models`` shows of a model in one of the formats :attr:`models`.

        Args:
            source: the model.
            sequence: tokens of a sample; None for the model's own.

        Raises:
            InputError: whatever is wrong with its file.
        """
        raise NotImplementedError(f"dse {self.name} reads no models of its own")

    def predicted_s(self, posed: Posed[OptionsT, ProblemT]) -> float:
        """Seconds that :meth:`answer` takes on one core, about: for the choice between one process and many."""
        del posed
        return 0.0

    def answered_by(self, options: OptionsT) -> tuple[str, ...]:
        """The values that ``method`` of a result may have."""
        return (str(getattr(options, "method", self.name)),)

    def statuses(self, result: "Result") -> "tuple[Status, ...] | None":
        """What the status of a result with a value may be; None for what follows from its value and bound."""
        del result
        return None

    def is_finished(self, result: "Result") -> bool:
        """Whether nothing of a result is missing or unproven: then ``--resume`` returns it as it is."""
        return result.status in ("optimal", "infeasible") and not result.metrics.get("unfinished")


@dataclass(frozen=True)
class Registered:
    """A problem package, before it is imported.

    Attributes:
        name: the command's name.
        summary: one line.
        package: its import name.
        verb: behind the command's name, where it has several; empty for none.
    """

    name: str
    summary: str
    package: str
    verb: str = ""

    def load(self) -> ProblemType[Any, Any]:
        """The package's object."""
        problem_type: ProblemType[Any, Any] = importlib.import_module(f"{self.package}.contract").PROBLEM
        return problem_type


def registered() -> dict[str, Registered]:
    """The problem packages of ``dse`` by name, in the order of their ``RANK``, then alphabetical."""
    return dict(_registered_in(tuple(sys.modules[__package__].__path__)))


@cache
def _registered_in(folders: tuple[str, ...]) -> Mapping[str, Registered]:
    ranked = []
    for folder in map(Path, folders):
        for contract in sorted(folder.glob("*/contract.py")):
            package = importlib.import_module(f"dse.{contract.parent.name}")
            verb = getattr(package, "VERB", "")
            registered_as = Registered(package.COMMAND, package.SUMMARY, package.__name__, verb)
            ranked.append((getattr(package, "RANK", 100), registered_as))
    return {each.name: each for _, each in sorted(ranked, key=lambda entry: (entry[0], entry[1].name))}


def problem_type(name: str) -> ProblemType[Any, Any]:
    """The problem called ``name``.

    Raises:
        InputError: there is none of this name (the nearest one is offered).
    """
    from hardware.inputs import choose

    known = registered()
    return known[choose("dse", "problem", name, known, "problem")].load()


def pose(problem: ProblemType[OptionsT, ProblemT], options: OptionsT) -> Posed[OptionsT, ProblemT]:
    """The problem that ``options`` pose, with every file that was read for it.

    Raises:
        InputError: as :meth:`ProblemType.pose`.
    """
    from dataclasses import replace

    from hardware.input_files import noting

    with noting() as files:
        posed = problem.pose(options)
    return replace(posed, inputs=files)
