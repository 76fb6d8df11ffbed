"""Search and design-space exploration for machine-learning accelerators.

Every problem is a function that takes the arguments of its command and returns an :class:`~dse.results.answer.Answer`::

    import dse

    answer = dse.codesign("bert-large", accelerators=64)
    answer.value, answer.bound, answer.status, answer.solution
    answer.check()                      # violations found by an independent checker: []
    answer.save("runs/bert-large")      # result, tables, report

``help(dse.codesign)`` lists its options, and :func:`dse.problems` lists all problems. The engine below is
single-process, deterministic by seed, and importable without torch and without Ray. Data flows one way: *source →
graph → problem → solver → solution → checker → result → report*.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dse.version import VERSION

__version__ = VERSION


def _roof() -> Any:
    """The Python interface, which depends on all floors: looked up when it is called, because every module imports
    this.
    """
    return importlib.import_module("dse.cli.interface")


def _registered() -> Any:
    return importlib.import_module("dse.problem").registered()


class _ProblemPackage(ModuleType):
    """A problem package that can be called: ``dse.codesign(…)`` answers, ``dse.codesign.options`` is its module."""

    def __call__(self, *sources: Any, **options: Any) -> Any:
        """Answer the problem; see the package's documentation for the options."""
        return _roof().solve(self.COMMAND, *sources, **options)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        described: str = _roof().described(self.COMMAND)
        return described


class _Dse(ModuleType):
    """The package itself: problem packages become callable when they are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and hasattr(value, "COMMAND"):
            value.__class__ = _ProblemPackage
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name == "Answer":
        return importlib.import_module("dse.results.answer").Answer
    known = {each.name.replace("-", "_"): each for each in _registered().values()}
    if name in known:
        package = importlib.import_module(known[name].package)
        return package if package.__name__ == f"dse.{name}" else _named(known[name].name)
    raise AttributeError(f"module 'dse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"Answer", "__version__", "problems", *(name.replace("-", "_") for name in _registered())})


def _named(name: str) -> Callable[..., Any]:
    """The function of a problem whose package has another name."""

    def function(*sources: Any, **options: Any) -> Any:
        return _roof().solve(name, *sources, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _roof().described(name)
    return function


def problems() -> dict[str, str]:
    """The problems by name, each with a one-line summary."""
    return {name: each.summary for name, each in _registered().items()}


sys.modules[__name__].__class__ = _Dse
