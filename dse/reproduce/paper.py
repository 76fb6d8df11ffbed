"""What a paper offers to ``dse reproduce``: options of its own, and parts that are functions of one frozen context.

A run goes through three steps: the options are validated and *posed* (everything that they name is read, so that bad
input ends here, before anything is written); the posed job becomes a *context* with the means of one run; each part
makes its section from that context. :mod:`dse.reproduce.driver` does all three for every paper.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dse.reproduce.section import Section
from dse.run.options import Options
from dse.run.run import Run

OptionsT = TypeVar("OptionsT", bound=Options)
Context = TypeVar("Context")


@dataclass(frozen=True)
class Part(Generic[Context]):
    """A table or figure.

    Attributes:
        title: what it compares, in a few words.
        make: the section, from the context of the run. It may raise :class:`dse.run.progress.StoppedError`.
        missing: what this installation lacks to make it; None where it can be made.
    """

    title: str
    make: Callable[[Context], Section]
    missing: str | None = None


@dataclass(frozen=True)
class Posed(Generic[Context]):
    """A paper's options after everything that they name has been read.

    Attributes:
        settings: what is compared, as JSON types, for the result.
        budget: the same for people, in one sentence.
        identity: what the answers in the journal depend on, other than options and seed, as JSON types.
        predicted_s: seconds of each part on one core; a part of 0 s is made even after the run was stopped. Parts may
            share searches.
        context: what the parts are made from; the run has a journal.
    """

    settings: Mapping[str, Any]
    budget: str
    identity: Any
    predicted_s: Mapping[str, float]
    context: Callable[[Run], Context]


@dataclass(frozen=True)
class Paper(Generic[OptionsT, Context]):
    """A paper whose tables and figures can be reproduced.

    Attributes:
        name: of its folder and on the command line.
        summary: one line for the help.
        citation: authors, title, venue.
        options: a frozen dataclass that validates itself, with the defaults, from which the command line follows.
        parts: by name, in the order of printing.
        pose: reads what the options name, for the parts that are wanted. Raises ``InputError`` on bad input.
        synonyms: other names of parts: figures that show what a table counts.
        quick: values of options with which every part has a table in a few minutes, in place of their defaults.
    """

    name: str
    summary: str
    citation: str
    options: type[OptionsT]
    parts: Mapping[str, Part[Context]]
    pose: Callable[[OptionsT, tuple[str, ...]], Posed[Context]]
    synonyms: Mapping[str, str] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
