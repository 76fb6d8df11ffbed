"""The same candidates, the same answer and the same result file for any number of workers, in every synchronous search.

What a worker may do beyond that, ahead of a stopping rule, stays in the journal and out of the answer. That workers
change no sensitivity either is tested in ``tests/codesign/test_sensitivity.py``.
"""

import json

import pytest

from actors import tune_sweep
from dse.codesign.proven_optima import ProvenOptima
from dse.codesign.search import exhaustive, sweep
from dse.codesign.search.hysteresis import RULES, AreaWalk
from dse.codesign.search.sweep import SWEEP_NODES
from dse.run.executor import InProcessExecutor
from tests.actors.inside import Inside
from tests.codesign.tiny import tiny_options
from tests.solving import solve

pytestmark = pytest.mark.slow

WORKERS = 2
LEVEL = 2


@pytest.fixture(scope="module")
def crew(ray_executor):
    """Workers that stay from search to search: starting a process takes seconds."""
    ray_executor.release()
    crew = Inside(WORKERS, cpus=0.25)
    yield crew
    crew.release()


@pytest.fixture(scope="module")
def answers(crew, tmp_path_factory):
    """Solves the same options without workers and with several: ``[(result file, outcome, store), …]``."""

    def solved(search_with, **changes):
        options = tiny_options(tmp_path_factory.mktemp("model"), **changes)
        found = []
        for executor in (InProcessExecutor(), crew):
            store, optima = {}, ProvenOptima(tmp_path_factory.mktemp("proven"))
            search = search_with(options, isinstance(executor, InProcessExecutor))
            result, outcome = solve(options, executor, store, search=search, optima=optima)
            document = json.loads(result.to_json())
            assert document.pop("seconds") > 0
            assert document.pop("seal")
            found.append((document, outcome, store))
        return found

    return solved


def assert_same(found):
    """Result files to the letter, outcomes with every candidate in its order."""
    first = found[0]
    for document, outcome, _ in found[1:]:
        assert document == first[0]
        assert list(outcome.evaluated.items()) == list(first[1].evaluated.items())
        assert outcome == first[1]


SMALLER = {"models": (("tiny", 1, 64),), "microbatch": "1", "tensor_parallel": "1"}
TWO = SMALLER | {"models": (("tiny", 1, 64), ("other", 2, 128))}


@pytest.mark.parametrize(
    "settings",
    [SMALLER | {"pareto": True}, TWO],
    ids=["front", "two models"],
)
def test_exhaustive_search(answers, settings):
    found = answers(lambda _options, _in_process: exhaustive.search, **settings)
    assert_same(found)
    document, _, store = found[0]
    assert document["status"] == "optimal"
    assert ("pareto" in document["metrics"]) == ("pareto" in settings)
    assert document["metrics"]["unfinished"] == []
    for _, _, other in found[1:]:
        assert other == store


@pytest.mark.parametrize("rule", RULES)
def test_hysteresis_search(answers, crew, rule):
    # Tune has workers of its own.
    crew.release()

    def walk(options, in_process):
        def search(context):
            proposer = AreaWalk(context.machines.area_mm2, RULES[rule](LEVEL))
            return (sweep if in_process else tune_sweep).search(context, proposer=proposer)

        return search

    found = answers(walk, **SMALLER, search="hysteresis", hysteresis=LEVEL, hysteresis_rule=rule)
    assert_same(found)
    document, outcome, store = found[0]
    assert LEVEL < len(outcome.evaluated) < document["metrics"]["architectures_in_space"]
    counted = {asked for asked in store if asked.task.nodes != SWEEP_NODES or asked.task.index in outcome.evaluated}
    for _, _, other in found[1:]:
        assert {asked: other.get(asked) for asked in counted} == {asked: store[asked] for asked in counted}
        ahead = other.keys() - counted
        assert all(asked.task.nodes == SWEEP_NODES for asked in ahead)
