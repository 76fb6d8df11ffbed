"""Walks count what one process would, whatever order the parts of several workers end in, and however often killed.

The workers are played here: by an executor for :func:`dse.codesign.search.sweep.search`, and by trials for Tune's
searcher. Areas are those of a small space, scores are drawn, and evaluations only carry them.
"""

import math
from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import tune_sweep
from actors.tune_sweep import SweepSearcher
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluate, Evaluator
from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
from dse.codesign.problem import Evaluation
from dse.codesign.search import sweep
from dse.codesign.search.exhaustive import NODES
from dse.codesign.search.hysteresis import RULES, AreaWalk, area_groups
from dse.codesign.search.sweep import Sweep, architectures_of
from dse.run.executor import InProcessExecutor, applied, ignore
from dse.run.progress import never_stop
from tests.codesign.test_hysteresis import literal_algorithm_1, literal_hysteresis
from tests.codesign.tiny import tiny_problem

LITERAL = {"decreasing": literal_algorithm_1, "no-new-best": literal_hysteresis}

AHEAD = 5
"""Items that workers have at the same time."""

NEVER = -1
"""Parts after which a process is killed that lives."""

TRIALS = 2
"""Trials that run at the same time; one more waits."""


class KilledError(Exception):
    """The process has ended; what had arrived is in the store."""


class AnyOrder(InProcessExecutor):
    """Workers that end what they have in any order, until the process is killed after so many parts."""

    def __init__(self, random, parts_left):
        self._random, self._left = random, parts_left

    def outcomes(self, function, items, stop=never_stop, arrived=ignore):
        items, waiting, ended = iter(items), deque(), {}
        while waiting.extend(islice(items, AHEAD - len(waiting))) or waiting:
            item = self._random.choice([each for each in waiting if each not in ended])
            if self._left == 0:
                raise KilledError
            self._left -= 1
            ended[item] = applied(function, item)
            arrived([(item, ended[item])])
            while waiting and waiting[0] in ended:
                yield ended[waiting.popleft()]


def by_executor(context, proposer, random, parts_left):
    """The walk over the engine's own map."""
    return sweep.search(replace(context, executor=AnyOrder(random, parts_left)), proposer=proposer)


def by_trials(context, proposer, random, parts_left):
    """The walk as Tune drives it: the parts of a trial end in their order, those of different trials in any."""
    state = Sweep(context, proposer)
    searcher, running, trials = SweepSearcher(state, TRIALS, never_stop), {}, 0
    while (suggested := searcher.suggest(f"trial {trials}")) != searcher.FINISHED:
        if suggested is not None:
            running[f"trial {trials}"] = deque(enumerate(suggested["parts"]))
            trials += 1
            continue
        if parts_left == 0:
            raise KilledError
        parts_left -= 1
        trial = random.choice(list(running))
        part, task = running[trial].popleft()
        seconds = len(architectures_of(task)) / state.jobs
        report = {"part": part, "answer": applied(state.evaluators, task), "seconds": seconds}
        if running[trial]:
            searcher.on_trial_result(trial, report)
        else:
            del running[trial]
            searcher.on_trial_complete(trial, report)
    assert searcher.fault is None
    return state.outcome(None)


class Space:
    """Two jobs on 73 architectures in 7 groups of equal area, whose evaluations are looked up."""

    def __init__(self, folder):
        models = (("one", 1, 64), ("two", 1, 64))
        self._problem = tiny_problem(folder, models, microbatch="1", tensor_parallel="1", hbm_gb="1")
        self.machines = self._problem.machines()
        (self._plan,) = Evaluator(self._problem.jobs[0], self.machines).evaluate_many([0])[0].plans
        self._scores = []
        self.evaluated = Counter()

    def context(self, scores):
        """The search where architectures have these scores; its store has what is evaluated deeply after a walk."""
        self._scores = scores
        self.evaluated.clear()
        deep = {
            JobTask(job, Evaluate(index, NODES[0])): self._evaluation(job, index)
            for job in range(2)
            for index in range(len(scores))
        }
        return SearchContext(self._problem, self.machines, InProcessExecutor(), deep)

    def _evaluation(self, job, index):
        score, batch = self._scores[index], self._problem.jobs[job].global_batch
        batch_s = batch / score if score else math.inf
        plan = replace(self._plan, placement=replace(self._plan.placement, batch_s=batch_s)) if score else None
        return Evaluation(index, (plan,), (batch_s,))

    def look_up(self, _evaluators, asked):
        """In place of :meth:`JobEvaluators.__call__`."""
        self.evaluated.update((asked.job, index) for index in architectures_of(asked))
        return [self._evaluation(asked.job, index) for index in architectures_of(asked)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    space = Space(tmp_path_factory.mktemp("model"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobEvaluators, "__call__", lambda evaluators, asked: space.look_up(evaluators, asked))
        patch.setattr(Sweep, "predicted_s", lambda _sweep, architectures: float(architectures))
        # Trials of some groups, in parts that are smaller than a group.
        for name, architectures in (("_TRIAL_S", 20.0), ("_FIRST_TRIAL_S", 20.0), ("_PART_S", 6.0)):
            patch.setattr(tune_sweep, name, architectures)
        yield space


SCORES = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drive", [by_executor, by_trials])
@given(
    level=st.integers(1, 4),
    drawn=st.lists(SCORES, min_size=73, max_size=73),
    highest=st.lists(SCORES, min_size=7, max_size=7),
    kills=st.lists(st.integers(1, 12), max_size=3),
    random=st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_a_walk_commits_parts_in_its_order_however_they_end_and_it_is_killed(
    walked, drive, rule, level, drawn, highest, kills, random
):
    groups = area_groups(walked.machines.area_mm2)
    scores = list(drawn)
    for group, limit in zip(groups, highest, strict=True):
        for index in group:
            scores[index] = min(drawn[index], limit)
    context = walked.context(scores)

    def proposer():
        return AreaWalk(context.machines.area_mm2, RULES[rule](level))

    alone = sweep.search(replace(context, store=dict(context.store)), proposer=proposer())
    walked.evaluated.clear()
    for parts_left in kills:
        with suppress(KilledError):
            drive(context, proposer(), random, parts_left)
    outcome = drive(context, proposer(), random, NEVER)
    count = LITERAL[rule](level, [max(scores[index] for index in group) for group in groups])
    assert list(outcome.evaluated) == [index for group in groups[:count] for index in group]
    assert outcome == alone
    assert outcome.best is None or scores[outcome.best] == max(scores[index] for index in outcome.evaluated)
    assert set(walked.evaluated.values()) <= {1}, "what had arrived before a kill was evaluated again"
