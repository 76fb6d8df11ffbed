"""Runners and learners in actors: the same weights as in one process, whoever dies, and after an interruption."""

import os
import signal
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from ray.rllib.core import DEFAULT_MODULE_ID

from dse.run.progress import StoppedError, never_stop, silent
from policies.learning.actors import NO_ACTORS, LostLearnerError, TrainingActors
from policies.learning.pretraining import PretrainingPlan, Snapshot, Trainer
from policies.learning.pretraining_run import PretrainingRun, pretrain
from policies.learning.rllib.learners import LearnerActors
from policies.learning.state_file import decoded, encoded
from policies.parallel.pipeline.policy import PolicySettings
from policies.parallel.pipeline.task import PipelineTask
from policies.partition.settings import LearningSettings
from policies.partition.task import PartitionTask

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("freed")]

REFINING = LearningSettings(
    layers=1, width=8, prior="diagonal", anchor="best", anchor_visits=2, rollouts=4, graphs=4, epochs=1
)
PARTITION = PartitionTask(
    REFINING,
    packages=("mcm-4",),
    validation_samples=24,
    # Fewer than the groups of an iteration, so that some wait for another of the same graph.
    training=("alexnet", "dcgan-generator", "lenet5"),
    validation=("pointnet",),
)
PIPELINE = PipelineTask(PolicySettings(hidden=4, warm_up=50, updates=3, parts=2), validation=1)
ITERATIONS = 3


@pytest.fixture
def freed(ray_executor):
    """The session's Ray, with its two CPUs free."""
    ray_executor.release()


def begun(task, actors=NO_ACTORS):
    return task.begin(3, never_stop, silent, actors)


def weights_after(training, iterations=ITERATIONS, stop=never_stop):
    """The weights, and the curves; the actors are ended."""
    scalars = [training.iterate(stop).scalars for _ in range(iterations)]
    weights = {name: np.array(value) for name, value in training.tensors().items()}
    training.close()
    return weights, scalars


@pytest.fixture(scope="module")
def expected():
    return {task: weights_after(begun(task)) for task in (PARTITION, PIPELINE)}


def assert_same(found, wanted):
    assert found[1] == wanted[1]
    for name, value in wanted[0].items():
        np.testing.assert_array_equal(found[0][name], value)


def processes(group):
    return group.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)


def doom(group, marker):
    """Let the first runner kill its own process in the first group that it makes; the one that replaces it lives."""

    def give(runner):
        def make(_order):
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

        runner.make = make

    group.foreach_env_runner(give, local_env_runner=False, remote_worker_ids=[1])


def without_actors(training, task):
    """Another training, in this process, from the state that one has behind its actors, which are ended."""
    state = encoded(training.state())
    training.close()
    other = begun(task)
    other.restore(decoded(state))
    return other


def test_a_runner_in_an_actor_changes_no_weight_and_training_goes_on_without_it(expected):
    training = begun(PIPELINE, TrainingActors(runners=1))
    scalars = [training.iterate().scalars for _ in range(ITERATIONS - 1)]
    weights, others = weights_after(without_actors(training, PIPELINE), 1)
    assert_same((weights, scalars + others), expected[PIPELINE])


@pytest.mark.ray_interface
def test_a_runner_that_dies_is_replaced_and_training_goes_on_without_any_with_the_same_weights(expected, tmp_path):
    training = begun(PARTITION, TrainingActors(runners=2))
    group = training.runners.group
    victim = processes(group)[0]
    doom(group, tmp_path / "killed")
    scalars = [training.iterate().scalars]
    assert (tmp_path / "killed").exists()
    while group.num_healthy_remote_env_runners() < 2:
        group.probe_unhealthy_env_runners()
    assert len(set(processes(group)) - {victim}) == 2
    # The second iteration has all its runners, and the last one none.
    scalars.append(training.iterate().scalars)
    weights, others = weights_after(without_actors(training, PARTITION), ITERATIONS - 2)
    assert_same((weights, scalars + others), expected[PARTITION])


def test_an_interrupted_run_is_continued_under_a_plan_with_another_number_of_runners(tmp_path, monkeypatch):
    plan = PretrainingPlan(PARTITION, samples=2 * PARTITION.samples_per_iteration, checkpoints=2)
    spread = replace(plan, actors=TrainingActors(runners=1))
    assert spread.identity == plan.identity
    begin, asked = PartitionTask.begin, []

    def begin_here(task, seed, stop, progress, actors):
        asked.append(actors.runners)
        return begin(task, seed, stop, progress)

    # That runners in actors make the same, and that training goes on without them, is shown above.
    monkeypatch.setattr(PartitionTask, "begin", begin_here)

    def stop():
        return "interrupted" if (tmp_path / "cut" / "checkpoints" / "0001").exists() else None

    with PretrainingRun(tmp_path / "cut", spread) as run, pytest.raises(StoppedError):
        pretrain(run, silent, stop)
    tensors = []
    for name in ("cut", "whole"):
        with PretrainingRun(tmp_path / name, plan) as run:
            pretrain(run, silent, never_stop)
            tensors.append((run.checkpoint(2).checkpoint.tensors, run.scores()))
    assert asked == [1, 0, 0]
    for name, value in tensors[1][0].items():
        np.testing.assert_array_equal(tensors[0][0][name], value)
    assert tensors[0][1] == tensors[1][1]


def states_of(learners):
    return [result.get() for result in learners.group.foreach_learner(lambda learner: learner.get_state())]


@pytest.mark.ray_interface
@pytest.mark.parametrize("task", [PARTITION, PIPELINE], ids=["partition", "pipeline"])
def test_learners_learn_the_same_as_one_up_to_rounding_and_say_when_one_dies(task, expected):
    with closing(begun(task, TrainingActors(learners=2))) as training:
        training.iterate()
        # RLlib takes weights that are older than its own by this number only.
        early = training.learners.get_state() | {"weights_seq_no": 0}
        for _ in range(ITERATIONS - 1):
            training.iterate()
        found = {name: np.array(value) for name, value in training.tensors().items()}
        states = states_of(training.learners)
        training.learners.set_state(early)
        restored = states_of(training.learners)
        process, _ = training.learners.group.foreach_learner(lambda _: os.getpid())
        os.kill(process.get(), signal.SIGKILL)
        with pytest.raises(LostLearnerError):
            training.iterate()
    start = {name: np.array(value) for name, value in begun(task).tensors().items()}
    wanted = expected[task][0]
    # Adam divides by the size of a gradient, so that where one is nearly 0 its rounding moves a weight.
    moved = sum(float(((wanted[name] - start[name]) ** 2).sum()) for name in start)
    apart = sum(float(((wanted[name] - found[name]) ** 2).sum()) for name in start)
    assert moved > 0
    assert apart < 1e-3 * moved
    # What a checkpoint keeps is the first learner's, and all go on from it.
    for one, other in (states, restored):
        np.testing.assert_equal(one["rl_module"][DEFAULT_MODULE_ID], other["rl_module"][DEFAULT_MODULE_ID])
        np.testing.assert_equal(one.get("elites"), other.get("elites"))
    np.testing.assert_equal(restored[0]["rl_module"][DEFAULT_MODULE_ID], early["rl_module"][DEFAULT_MODULE_ID])
    np.testing.assert_equal(restored[0].get("elites"), early.get("elites"))


def test_a_learner_that_dies_costs_the_work_since_the_last_checkpoint():
    plan = PretrainingPlan(PARTITION, samples=32, checkpoints=2)
    trainer = Trainer(replace(plan, actors=TrainingActors(learners=1)))
    first = trainer.advance(Snapshot())
    mourned = trainer.training
    (process,) = mourned.learners.group.foreach_learner(lambda _: os.getpid())
    os.kill(process.get(), signal.SIGKILL)
    second = trainer.advance(first)
    assert trainer.training is not mourned
    assert isinstance(trainer.training.learners, LearnerActors)
    trainer.training.close()
    alone = Trainer(plan)
    wanted = alone.advance(alone.advance(Snapshot()))
    for name, value in wanted.checkpoint.tensors.items():
        np.testing.assert_array_equal(second.checkpoint.tensors[name], value)
