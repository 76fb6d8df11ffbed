"""The stopping rules against literal ones, the walk against enumeration, and answers beside the proven optimum."""

import json
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.codesign.context import SearchContext
from dse.codesign.contract import PROBLEM
from dse.codesign.evaluation.evaluator import Evaluate
from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
from dse.codesign.evaluation.work_bound import work_bounds
from dse.codesign.formats import JournalledEvaluations
from dse.codesign.proven_optima import ProvenOptima
from dse.codesign.search import exhaustive, sweep
from dse.codesign.search.bayesian import ArchitectureStudy
from dse.codesign.search.hysteresis import AreaWalk, DecreasingRule, NoNewBestRule, area_groups, search
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from tests.codesign.test_exhaustive import TINY_MODEL, enumerate_all, small
from tests.solving import solve

SCORES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), max_size=30)
WHOLE_SPACE = 10**6


def groups_until(rule, scores):
    """How many groups a rule looks at."""
    for count, score in enumerate(scores, start=1):
        rule.tell(score)
        if rule.finished:
            return count
    return len(scores)


def literal_hysteresis(level, scores):
    """Stop once none of the last ``level`` feasible scores reaches the best of those before them."""
    for count in range(1, len(scores) + 1):
        feasible = [score for score in scores[:count] if score > 0]
        before, last = feasible[:-level], feasible[-level:]
        if before and all(score < max(before) for score in last):
            return count
    return len(scores)


def literal_algorithm_1(level, scores):
    """The paper's check_converge, with feasible groups only and a decrease that is one."""
    for count in range(1, len(scores) + 1):
        thgpt = [score for score in scores[:count] if score > 0]
        if len(thgpt) > level:
            last = thgpt[-level:]
            if all(later < earlier for earlier, later in pairwise(last)):
                return count
    return len(scores)


@given(st.integers(1, 8), SCORES)
def test_the_rule_is_no_new_best_in_the_last_feasible_groups(level, scores):
    assert groups_until(NoNewBestRule(level), scores) == literal_hysteresis(level, scores)


@given(st.integers(1, 8), SCORES)
def test_the_published_rule_is_algorithm_1(level, scores):
    assert groups_until(DecreasingRule(level), scores) == literal_algorithm_1(level, scores)


@pytest.mark.parametrize("kind", [NoNewBestRule, DecreasingRule])
@given(level=st.integers(1, 8), scores=SCORES)
def test_so_many_groups_are_looked_at_in_any_case(kind, level, scores):
    rule = kind(level)
    stop = groups_until(kind(level), scores)
    for count, score in enumerate(scores[:stop]):
        if count + rule.min_groups_left <= len(scores):
            assert stop >= count + rule.min_groups_left
        rule.tell(score)


@given(st.integers(1, 8), SCORES)
def test_a_higher_level_walks_further(level, scores):
    assert groups_until(NoNewBestRule(level), scores) <= groups_until(NoNewBestRule(level + 1), scores)


def test_groups_without_a_plan_at_the_start_end_nothing():
    assert groups_until(NoNewBestRule(5), [0.0] * 8 + [1.0, 3.0, 2.0]) == 11
    assert groups_until(DecreasingRule(5), [0.0] * 8 + [1.0, 3.0, 2.0]) == 11


def test_ties_are_no_reduction():
    assert groups_until(NoNewBestRule(3), [2.0] * 20) == 20
    assert groups_until(DecreasingRule(3), [2.0] * 20) == 20


@pytest.mark.parametrize("kind", [NoNewBestRule, DecreasingRule])
def test_a_level_below_one_is_refused(kind):
    with pytest.raises(ValueError, match="must be at least 1, but got 0"):
        kind(0)


@given(st.lists(st.floats(0.5, 0.9), min_size=1, max_size=40))
def test_groups_hold_every_architecture_once_largest_area_first(areas):
    area = np.array(areas)
    groups = area_groups(area)
    assert sorted(index for group in groups for index in group) == list(range(len(area)))
    for group in groups:
        assert np.ptp(area[list(group)]) <= 0.01 + 1e-9
    for larger, smaller in pairwise(groups):
        assert area[list(larger)].min() > area[list(smaller)].max()


@given(
    st.lists(st.sampled_from([0.51, 0.52, 0.53, 0.54, 0.55, 0.56, 0.57]), min_size=1, max_size=20),
    st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=20, max_size=20),
    st.integers(1, 5),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_what_counts_depends_on_neither_chunks_nor_the_order_of_answers(areas, scores, level, most, random):
    area = np.array(areas)
    groups = area_groups(area)
    literal = literal_hysteresis(level, [max(scores[index] for index in group) for group in groups])
    walk, waiting = AreaWalk(area, NoNewBestRule(level)), []
    while not walk.finished:
        for _ in range(random.randint(1, 3)):
            waiting.extend(walk.ask(most))
        random.shuffle(waiting)
        for _ in range(random.randint(1, len(waiting))):
            index = waiting.pop()
            walk.tell(index, scores[index])
    assert list(walk.counted) == [index for group in groups[:literal] for index in group]


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return path


def options_for(model_file, **changes):
    return small(model_file, **{"tensor_parallel": "1", "microbatch": "1", **changes})


@pytest.fixture(scope="module")
def enumerated(model_file):
    """The small problem, its machines, every architecture's score, the best at each HBM size, and all evaluations."""
    problem = options_for(model_file).problem()
    machines, evaluations, best = enumerate_all(problem)
    batch = problem.jobs[0].global_batch
    scores = [
        max((plan.throughput_per_s(batch) for plan in evaluation.plans if plan), default=0.0)
        for evaluation in evaluations
    ]
    store = {JobTask(0, Evaluate(index, exhaustive.NODES[0])): found for index, found in enumerate(evaluations)}
    return problem, machines, scores, best, store


@pytest.fixture(scope="module")
def proof(enumerated):
    """What the exhaustive search answers."""
    problem, machines, _, _, store = enumerated
    return exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), dict(store)))


@pytest.mark.parametrize("level", [1, 3, 6])
@pytest.mark.parametrize("rule", [DecreasingRule, NoNewBestRule])
def test_the_walk_counts_what_the_rule_says(enumerated, rule, level):
    problem, machines, scores, _, store = enumerated
    outcome = search(SearchContext(problem, machines, InProcessExecutor(), dict(store)), level=level, rule=rule)
    groups = area_groups(machines.area_mm2)
    literal = literal_hysteresis if rule is NoNewBestRule else literal_algorithm_1
    stop = literal(level, [max(scores[index] for index in group) for group in groups])
    walked = [index for group in groups[:stop] for index in group]
    assert list(outcome.evaluated) == walked
    (plan,) = outcome.plans
    reached = problem.jobs[0].global_batch / plan.placement.batch_s
    assert reached >= 0.99 * max(scores[index] for index in walked)


def test_a_level_beyond_the_space_finds_the_optimum(enumerated, proof):
    problem, machines, _, best, store = enumerated
    outcome = search(SearchContext(problem, machines, InProcessExecutor(), dict(store)), level=WHOLE_SPACE)
    assert list(outcome.optimum_by_hbm.values()) == pytest.approx(best, rel=1e-12)
    assert outcome.best == proof.best
    assert len(outcome.evaluated) == len(machines)


def test_bayesian_search_answers_with_the_best_of_its_samples(enumerated):
    problem, machines, scores, _, store = enumerated
    study = ArchitectureStudy(machines, 12, seed=1)
    outcome = sweep.search(SearchContext(problem, machines, InProcessExecutor(), dict(store)), proposer=study)
    assert len(outcome.evaluated) == 12
    assert max(outcome.optimum_by_hbm.values()) == max(scores[index] for index in outcome.evaluated)


def test_bayesian_search_is_reproducible_and_learns(enumerated):
    _, machines, scores, _, _ = enumerated

    def order(seed):
        study = ArchitectureStudy(machines, 24, seed)
        while not study.finished:
            for index in study.ask(1):
                study.tell(index, scores[index])
        return list(study.counted)

    orders = [order(seed) for seed in range(4)]
    assert orders[3] == order(3)
    assert len(set(orders[3])) == 24
    early = np.mean([scores[index] for found in orders for index in found[:8]])
    late = np.mean([scores[index] for found in orders for index in found[-8:]])
    assert late > early


def test_nothing_is_paid_twice(enumerated, tmp_path):
    problem, machines, _, _, _ = enumerated
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        store = JournalledEvaluations(journal, problem, machines)
        first = search(SearchContext(problem, machines, InProcessExecutor(), store), level=3)
        lines = len(journal)
    # Each architecture of the walk once, the rest of its last chunk, and the answer once more, deeper.
    assert 0 <= lines - 1 - first.evaluations < sweep._CHUNK

    class Refuse(InProcessExecutor):
        def outcomes(self, function, items, stop, arrived):
            for item in items:
                raise AssertionError(f"{item} was evaluated again")
            return iter(())

    with Journal(path) as journal:
        store = JournalledEvaluations(journal, problem, machines)
        again = search(SearchContext(problem, machines, Refuse(), store), level=3)
    assert again == first


def test_a_stopped_walk_answers_with_what_it_has(enumerated):
    problem, machines, _, _, _ = enumerated
    told = []
    context = SearchContext(
        problem,
        machines,
        InProcessExecutor(),
        {},
        stop=lambda: "time limit" if told else None,
        progress=lambda *_: told.append(1),
    )
    outcome = search(context, level=WHOLE_SPACE)
    assert outcome.stopped == "time limit"
    assert 0 < len(outcome.evaluated) < len(machines)
    assert outcome.best is not None


def hysteresis(level):
    """The walk as a search function of :func:`dse.codesign.answer.solve`."""
    return lambda context: search(context, level=level)


@pytest.mark.parametrize("remembered", [False, True])
def test_an_answer_says_how_far_it_is_from_the_proven_one(model_file, enumerated, tmp_path, remembered):
    problem, _, _, best, store = enumerated
    optima = ProvenOptima(tmp_path)
    options = options_for(model_file, search="hysteresis", hysteresis=1)
    if remembered:
        solve(options_for(model_file), store=dict(store), optima=optima)
    result, outcome = solve(options, store=dict(store), search=hysteresis(1), optima=optima)
    optimum = best[problem.hbm_bytes.index(outcome.plans[0].hbm_bytes)]
    assert result.metrics["proven_optimum"] == pytest.approx(optimum, rel=1e-12)
    assert result.metrics["distance_from_proven"] == pytest.approx(1 - result.objective.value / optimum, abs=1e-12)
    assert result.bound == result.metrics["proven_optimum"]
    assert result.status == ("optimal" if result.metrics["distance_from_proven"] == 0 else "feasible")
    assert len(list(tmp_path.iterdir())) == 1
    assert bool(outcome.upper) is not remembered


def test_without_a_proof_the_bounds_of_the_space_bound_the_answer(model_file, enumerated, monkeypatch):
    problem, _, _, best, store = enumerated
    monkeypatch.setattr("dse.codesign.search.exhaustive.predicted_seconds", lambda *_: 1e9)
    result, outcome = solve(options_for(model_file, search="hysteresis"), store=dict(store), search=hysteresis(1))
    assert result.metrics["proven_optimum"] is None
    assert result.metrics["distance_from_proven"] is None
    assert result.bound >= best[problem.hbm_bytes.index(outcome.plans[0].hbm_bytes)] * (1 - 1e-12)
    assert len(outcome.upper) == len(options_for(model_file).problem().machines())


def test_an_answer_without_a_proof_is_not_remembered(enumerated, tmp_path):
    problem, machines, _, _, store = enumerated
    optima = ProvenOptima(tmp_path)
    optima.remember(problem, search(SearchContext(problem, machines, InProcessExecutor(), dict(store)), level=1))
    assert optima.recall(problem) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace("dse.proven/1", "dse.proven/0"),
        lambda text: text.replace("sha256:", "sha256:0"),
        lambda text: json.dumps(json.loads(text) | {"optimum_by_hbm": {}}),
        lambda text: json.dumps(json.loads(text) | {"optimum_by_hbm": {"7": 1.0}}),
        lambda text: json.dumps(json.loads(text) | {"optimum_by_hbm": {"4294967": -1.0}}),
        lambda text: json.dumps(json.loads(text) | {"optimum_by_hbm": {"4294967": "x"}}),
    ],
)
def test_damaged_proofs_are_as_good_as_none(enumerated, proof, tmp_path, damage):
    problem, *_ = enumerated
    optima = ProvenOptima(tmp_path)
    optima.remember(problem, proof)
    (path,) = tmp_path.iterdir()
    assert optima.recall(problem)
    assert ProvenOptima(tmp_path / "none").recall(problem) is None
    path.write_text(damage(path.read_text()))
    assert optima.recall(problem) is None


def test_the_command_line_walks_and_checks(dse, model_file, tmp_path):
    common = ("--accelerators", "16", "--global-batch", "32", "--microbatch", "1", "--area-budget", "1.7159")
    common += ("--tensor-parallel", "1")
    for search_arguments in (("hysteresis", "--hysteresis", "1"), ("bayesian", "--samples", "3")):
        out = tmp_path / search_arguments[0]
        done = dse(
            "codesign", model_file, *common, "--search", *search_arguments, "--out", out, "--json", "--workers", "0"
        )
        assert done.code == 0, done.err
        document = json.loads(done.out)
        assert document["method"] == search_arguments[0]
        assert document["metrics"]["proven_optimum"] is not None
        assert document["metrics"]["architectures_pruned"] == 0
        assert dse("check", out / "result.json").out == "ok\n"
        told = document | {"metrics": document["metrics"] | {"distance_from_proven": 0.5}}
        (tmp_path / "told.json").write_text(json.dumps(told))
        assert dse("check", tmp_path / "told.json").code == 1


@pytest.mark.parametrize("arguments", [("--hysteresis", "0"), ("--samples", "0"), ("--search", "hysterisis")])
def test_bad_usage(dse, model_file, arguments):
    refused = dse("codesign", model_file, *arguments)
    assert refused.code == 2
    assert len(refused.error_lines) == 1


def test_proofs_that_cannot_be_kept_are_no_fault(enumerated, proof, tmp_path):
    problem, *_ = enumerated
    (tmp_path / "file").write_text("")
    optima = ProvenOptima(tmp_path / "file" / "cache")
    optima.remember(problem, proof)
    assert optima.recall(problem) is None


def test_a_walk_that_is_stopped_has_the_bound_of_the_work(model_file):
    walked = [0]
    result, outcome = solve(
        options_for(model_file, search="hysteresis", hysteresis=WHOLE_SPACE),
        search=partial(search, level=WHOLE_SPACE),
        progress=lambda _phase, done, _total: walked.append(done),
        stop=lambda: "interrupted" if walked[-1] >= 4 else None,
    )
    assert (outcome.stopped, max(walked) < 73) == ("interrupted", True)
    assert result.status == "interrupted"
    assert result.objective.value <= result.bound < np.inf


@pytest.mark.parametrize("per", ["throughput", "per-mm2", "per-watt"])
def test_no_architecture_scores_above_the_bound_of_its_work(model_file, per):
    space = PROBLEM.pose(small(model_file, objective=per)).problem
    evaluators = JobEvaluators(space.problem, space.machines)
    bounds = work_bounds(evaluators)
    context = SearchContext(space.problem, space.machines, InProcessExecutor(), {})
    assert (exhaustive.upper_bounds(context) <= bounds * (1 + 1e-9)).all()
