"""Operator and data plans by deep Q-learning: the episodes' laws, back-tracing, and plans against the exact ones."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.parallel.linkage_plans import linkage_plan
from dse.parallel.prices import Prices
from dse.sharding.propagation import Ending, Propagation
from policies.parallel.linkage import search
from policies.parallel.linkage.contenders import greedy, greedy_plan
from policies.parallel.linkage.dimensions import Dimensions, dimensions_of
from policies.parallel.linkage.episodes import OPEN, SPLIT, WHOLE, DecisionEpisodes, DecisionSource
from policies.parallel.linkage.methods import LinkageTraining
from policies.parallel.linkage.search import Budget, trained
from policies.parallel.training import QTraining
from tests.parallel.problems import MLP, dump, mlp

SHORT = Budget(rounds=8, stable=3, updates=4)
STEP = mlp("4", objective="count")
VGG = dump("vgg-tiny.hlo", "4", objective="count")


@st.composite
def dimensions(draw):
    """Some groups of some dimensions, any of which may exclude each other or be whole."""
    groups = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    of = np.sort(np.append(np.arange(groups), random.integers(-1, groups, draw(st.integers(0, 6)))))
    excludes = np.triu(random.random((groups, groups)) < 0.4, 1)
    return Dimensions(
        tuple((0, place) for place in range(len(of))),
        of.astype(np.int64),
        tuple(range(groups)),
        excludes | excludes.T,
        random.random(groups) < 0.8,
    )


def max_split(of):
    """The most dimensions that groups can split together, by enumeration."""
    groups = np.flatnonzero(of.splittable).tolist()
    sets = [each for count in range(len(groups) + 1) for each in combinations(groups, count)]
    free = [each for each in sets if not of.excludes[np.ix_(each, each)].any()]
    return max(int(of.weights[list(each)].sum()) for each in free)


def played(source, seed, count=8):
    """Rewards of every step [steps, B] of random episodes, and the episodes."""
    draw = np.random.default_rng(seed)
    episodes, rewards, ended = source.episodes(seed, count), [], np.zeros(count, dtype=bool)
    while not ended.all():
        masks = episodes.observations()[:, -2:]
        assert (masks[~ended] == 1).all()
        assert (masks[ended] == 0).all() or not rewards
        earned, now = episodes.step(draw.integers(0, 2, count))
        assert (earned[ended] == 0).all()
        rewards.append(earned)
        ended = now
    return np.array(rewards), episodes


@given(dimensions(), st.booleans(), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_plans_have_no_conflict_and_rewards_count_what_was_decided(of, linked, seed):
    source = DecisionSource(of, linked)
    rewards, episodes = played(source, seed)
    for statuses, earned in zip(episodes.statuses, rewards.T, strict=True):
        split = np.flatnonzero(statuses == SPLIT)
        assert not of.excludes[np.ix_(split, split)].any()
        assert of.splittable[split].all()
        if linked:
            known = {each: int(of.weights[statuses == each].sum()) for each in (SPLIT, WHOLE)}
            is_conflict = (statuses == OPEN).any()
            assert earned.sum() == pytest.approx(0.4 * known[SPLIT] + 0.1 * known[WHOLE] - is_conflict)
    for found in source.plans.values():
        assert found.dimensions == of.weights[list(found.split)].sum() <= max_split(of)


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_decisions_end_as_propagation_does(seed, inputs):
    of = dimensions_of(STEP, "inputs" if inputs else "variables")
    episodes = DecisionEpisodes(DecisionSource(of, not inputs), np.full((1, len(of.numbers)), OPEN, dtype=np.int8))
    propagation, draw = Propagation(STEP.graph, STEP.linkage, STEP.mesh.axes[0].size), np.random.default_rng(seed)
    ended = False
    while not ended:
        place, split = of.places[episodes.places[0]], bool(draw.integers(2))
        outcome = propagation.decide(place, split)
        rewards, now = episodes.step(np.array([int(split)]))
        ended = bool(now[0])
        assert (rewards[0] == -1) == (outcome.ending is Ending.CONFLICT)
    if rewards[0] != -1:
        for place, group in zip(of.places, of.group, strict=True):
            assert propagation.is_split(place) == (group >= 0 and episodes.statuses[0, group] == SPLIT)


@given(dimensions(), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_back_tracing_opens_a_whole_group_and_leaves_no_deduction_without_its_premise(of, seed):
    source = DecisionSource(of, linked=True)
    played(source, seed)
    if not source.plans or not source.trace_back():
        return
    start = set(source.start.split)
    for statuses in source.episodes(seed, 4).statuses:
        split = np.flatnonzero(statuses == SPLIT)
        assert set(split.tolist()) <= start
        assert not of.excludes[np.ix_(split, split)].any()
        assert (of.excludes[split].any(axis=0) == (statuses == WHOLE)).all()
        opened = np.flatnonzero((statuses == OPEN) & of.splittable)
        assert any(each not in start for each in opened)


@pytest.fixture
def trainings(monkeypatch):
    """Those that are begun; of each the scalars of its rounds, and what the policy's own plan has earned after each."""
    begun = []

    class Watched(QTraining):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.scalars_of_rounds, self.earned = [], []
            begun.append(self)

        def iterate(self):
            iteration = super().iterate()
            self.scalars_of_rounds.append(iteration.scalars)
            return iteration

        def sample(self, count, explore=True):
            episodes = super().sample(count, explore=explore)
            if not explore:
                self.earned.append(sum(each.get_return() for each in episodes))
            return episodes

    monkeypatch.setattr(search, "QTraining", Watched)
    return begun


def test_operator_plans_split_as_much_as_the_exact_ones():
    of = dimensions_of(VGG, "variables")
    outcome = trained(of, "variables", seed=1, budget=Budget(rounds=4, stable=4, updates=4))
    assert outcome.second == linkage_plan(VGG, Prices(VGG)).value == max_split(of)
    assert outcome.first <= outcome.second
    assert outcome.conflicts < outcome.evaluations


def test_the_policys_own_operator_plan_becomes_an_exact_one_by_learning(trainings):
    of = dimensions_of(STEP, "variables")
    budget = Budget(rounds=8, stable=8, updates=12)
    outcome = trained(of, "variables", seed=1, budget=budget)
    most = max_split(of)
    assert outcome.first == outcome.second == linkage_plan(STEP, Prices(STEP)).value == most
    (training,) = trainings
    before, *_, after = training.earned[: budget.rounds]
    assert before < after == pytest.approx(0.4 * most + 0.1 * (of.weights.sum() - most))


@pytest.mark.parametrize(("step", "budget"), [(STEP, SHORT), (VGG, Budget(rounds=20, stable=5))])
def test_data_plans_split_as_many_dimensions_of_inputs_as_can_be(step, budget):
    of = dimensions_of(step, "inputs")
    outcome = trained(of, "inputs", seed=1, budget=budget)
    assert outcome.plans[0].dimensions == max_split(of)
    # Inputs alone are decided, and that of the batch is one of the best plans.
    assert {value for value, _ in of.places} == {each.value for each in step.graph.arguments if each.role == "input"}
    batch = int(of.group[[dim for _, dim in of.places].index(0)])
    assert any(batch in each.split for each in outcome.plans if each.dimensions == max_split(of))


def test_training_is_a_function_of_its_seed(trainings):
    of = dimensions_of(STEP, "variables")
    # Enough steps in the first round that every later one learns.
    budget = Budget(rounds=2, stable=2, episodes=80, updates=2)
    outcomes = [trained(of, "variables", seed=seed, budget=budget) for seed in (3, 3, 4)]
    first, again, other = (training.scalars_of_rounds for training in trainings)
    assert all("loss" in scalars for scalars in first[1:])
    assert first == again
    assert first != other
    assert outcomes[0] == outcomes[1]


def test_where_training_has_no_plan_the_answer_is_the_greedy_one(monkeypatch):
    monkeypatch.setattr(search, "trained", lambda *_, **__: search.Outcome((), None, None, 1, 1))
    of = dimensions_of(STEP, "variables")
    answer = LinkageTraining("variables")(STEP, Prices(STEP), 0, lambda: None)
    assert answer.value == greedy_plan(of).dimensions == greedy(of, "variables", 1, 0) > 0


@pytest.mark.parametrize("step", [STEP, VGG])
@pytest.mark.parametrize("decided", ["variables", "inputs"])
def test_the_greedy_plan_has_no_conflict_and_no_group_could_be_added(step, decided):
    of = dimensions_of(step, decided)
    plan = greedy_plan(of)
    split = list(plan.split)
    assert not of.excludes[np.ix_(split, split)].any()
    assert of.splittable[split].all()
    assert plan.dimensions == of.weights[split].sum() <= max_split(of)
    others = np.flatnonzero(of.splittable & ~of.excludes[split].any(axis=0))
    assert set(others.tolist()) <= set(split)


def test_the_command_answers_with_the_bound_of_linkage_and_the_checker_agrees(dse, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "Budget", lambda: SHORT)
    path = tmp_path / "mlp.hlo"
    path.write_text(MLP)
    asked = ("parallel", path, "--mesh", 4, "--method", "dqn", "--objective", "count", "--json")
    answer = dse(*asked)
    assert answer.code == 0
    result = json.loads(answer.out)
    assert result["method"] == "dqn"
    assert result["objective"]["value"] <= result["bound"]
    assert result["bound"] == linkage_plan(STEP, Prices(STEP)).bound
    kept = tmp_path / "result.json"
    kept.write_text(answer.out)
    assert dse("check", kept).code == 0


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (("--mesh", "a=2,b=2"), "must have exactly one axis of more than one device"),
        (("--mesh", "1"), "must have exactly one axis of more than one device"),
        (("--pin", "params['w1']=a,-"), "must not be given with --method dqn"),
        (("--decide", "inputs", "--objective", "count"), "must not be inputs with --objective count"),
    ],
)
def test_what_episodes_do_not_decide_is_one_line(dse, tmp_path, asked, rule):
    path = tmp_path / "mlp.hlo"
    path.write_text(MLP)
    answer = dse("parallel", path, "--method", "dqn", *asked)
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert rule in answer.err
