"""Which problems are reproduced, and what the paper prints for them.

The paper's numbers are shown next to a problem only if it is one of the paper's cases by its content (wafer, weights,
kernels, edges), regardless of the name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from dse.reproduce.gigaplacer.published import PublishedCase, read_published
from dse.reproduce.gigaplacer.study import VARIANTS, CostPart, Outcome, Study
from dse.wafer.options import WaferOptions
from dse.wafer.problem import WaferProblem
from hardware.inputs import fail


class Case(NamedTuple):
    """A problem, the letter of the paper's case that it is, and what the paper prints for that; None for none."""

    problem: WaferProblem
    letter: str | None
    published: PublishedCase | None

    def paper(self, name: CostPart | Literal["seconds"]) -> float | None:
        """What GigaPlacer reaches there, or its seconds."""
        return None if self.published is None else float(getattr(self.published.gigaplacer, name))

    @property
    def winner_total(self) -> float | None:
        """What the contest's winner reaches."""
        return None if self.published is None else self.published.winner.total


def cases_of(study: Study) -> dict[str, Case]:
    """The problems of a study by name."""
    paper, cases = read_published(), dict[str, Case]()
    for name, problem in study.problems.items():
        letter = paper.case_of(problem)
        cases[name] = Case(problem, letter, None if letter is None else paper.cases[letter])
    return cases


def chosen_problems(sources: str | None) -> dict[str, WaferProblem]:
    """The problems by name: the paper's twenty cases for None, made by :mod:`dse.wafer.networks`.

    ``sources``: separated by commas, letters of the paper's cases, folders of ``.kgraph`` files, or whatever
    ``dse wafer`` takes.

    Raises:
        InputError: something that none of these is, or that is malformed; two problems of one name.
    """
    problems = dict[str, WaferProblem]()
    for source in [*read_published().cases] if sources is None else [each.strip() for each in sources.split(",")]:
        for problem in _problems(source):
            if problem.name in problems:
                raise fail(
                    "dse reproduce",
                    "--models",
                    source,
                    f"problem names must be unique, but {problem.name} occurs twice",
                )
            problems[problem.name] = problem
    return problems


def _problems(source: str) -> list[WaferProblem]:
    cases = read_published().cases
    if source in cases:
        return [cases[source].problem(source)]
    if not Path(source).is_dir():
        return [WaferOptions(source).problem()]
    files = sorted(Path(source).glob("*.kgraph"))
    if not files:
        raise fail("dse reproduce", "--models", source, "a folder must contain .kgraph files")
    return [WaferOptions(str(file)).problem() for file in files]


def amount(value: float | None) -> str:
    """A cost or a part of it for a table cell, with all that the published tables show."""
    return "–" if value is None else f"{value:,.1f}".removesuffix(".0")


def share(value: float | None) -> str:
    """Of another cost, for a table cell."""
    return "–" if value is None else f"{value:.4f}"


def budget(study: Study, *variants: str) -> str:
    """What every search may do, in a sentence."""
    anneals = any(VARIANTS[each].share for each in variants)
    moves = f"{study.moves:,} annealing moves, " if anneals else "no annealing, "
    return (
        f"Every search: {moves}seed {study.run.seed}, one core; seconds are CPU seconds on this machine, "
        "without compilation."
    )


def unpublished(cases: Mapping[str, Case]) -> list[str]:
    """A note on problems that are none of the paper's, where there are any."""
    names = [name for name, case in cases.items() if case.letter is None]
    return (
        [f"These do not match any of the paper's cases by wafer, weights, kernels and edges: {', '.join(names)}."]
        if names
        else []
    )


def are_all(cases: Mapping[str, Case]) -> bool:
    """Whether these are all of the paper's cases, so that its means can be compared with ours."""
    return {case.letter for case in cases.values()} == {*read_published().cases}


def reasons(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Why there is no answer, of those without one."""
    return [each.reason for each in outcomes.values() if each.reason]
