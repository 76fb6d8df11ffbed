"""Answers in the tests: options in, result out, with whatever of a run a test wants to set."""

from pathlib import Path

from dse.problem import pose, problem_type
from dse.results.check import faults_of, posed_again
from dse.results.result import document_of, seal_of
from dse.run.executor import InProcessExecutor
from dse.run.run import Run


def run_of(executor=None, **settings):
    return Run(executor=executor or InProcessExecutor(), **settings)


def answer(options, executor=None, problem=None, **settings):
    """The result of ``options``; ``problem``: the posed problem, where it is made by hand."""
    kind = problem_type(options.COMMAND)
    return kind.answer(posed_as(kind, options, problem), run_of(executor, **settings))


def posed_as(kind, options, problem=None):
    if problem is None:
        return pose(kind, options)
    if kind.name == "wafer":
        return posed_wafer(options, problem)
    from dse.partition.answer import objective_of
    from dse.problem import Posed

    graph = problem.problem
    return Posed(options, problem, graph.graph.name, graph.document(), objective_of(graph))


def posed_wafer(options, problem):
    from dse.problem import Posed
    from dse.results.result import Objective
    from dse.wafer.contract import Case

    objective = Objective(name="total_cost", value=None, unit="1", sense="min")
    return Posed(options, Case(None, problem), problem.name, document_of(problem), objective)


def solve(options, executor=None, store=None, search=None, optima=None, **settings):
    """Result and outcome of a co-search."""
    from dse.codesign.answer import solve as search_space
    from dse.codesign.contract import PROBLEM
    from dse.codesign.search import exhaustive

    run = run_of(executor, **settings)
    return search_space(pose(PROBLEM, options), run, search or exhaustive.search, store, optima)


def faults(result, given=None):
    """What the check finds in a result that is in no file, against what it carries or what is ``given``."""
    return faults_of(result, posed_again(result, Path("result.json"), given))


def resealed(document):
    """The document of a result that was changed, as whoever forges one would seal it again."""
    return document | {"seal": seal_of(document)}
