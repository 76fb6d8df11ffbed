"""Learning: masks, the loss, resuming, and that it gets better than chance."""

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

from policies.parallel.learner import StepBatch
from policies.parallel.module import QModule
from policies.parallel.networks import PlaceNetwork, q_values
from policies.parallel.pipeline.online import PipelineTrainingSource
from policies.parallel.replay import StepReplay
from policies.parallel.settings import Layout, QSettings
from policies.parallel.training import QTraining
from tests.policies.parallel.cases import problem_of

SMALL = {"hidden": 8, "episodes": 10, "updates": 2, "warm_up": 20, "epsilon_steps": 200}


@pytest.fixture
def training():
    """Makes trainings of one small problem that are all the same."""
    problem = problem_of(60, 1, devices=32, stages=4)

    def make(**changed):
        source = PipelineTrainingSource(problem, "near")
        return QTraining(QSettings(source.layout, **SMALL | changed), source, seed=3)

    return make


def test_values_of_illegal_actions_are_minus_infinity_after_the_mean_over_the_legal_ones():
    torch.manual_seed(0)
    settings = QSettings(Layout(2, 5, 3), hidden=4)
    network = PlaceNetwork(settings)
    seen = torch.rand(6, settings.layout.size)
    seen[:, -5:] = torch.tensor([1.0, 0, 1, 1, 0])
    value, advantages = network(seen)
    values = q_values(network, settings, seen)
    assert torch.isneginf(values[:, [1, 4]]).all()
    assert torch.isfinite(values[:, [0, 2, 3]]).all()
    torch.testing.assert_close(values[:, [0, 2, 3]].mean(1, keepdim=True), value)
    torch.testing.assert_close(values[:, 0] - values[:, 2], advantages[:, 0] - advantages[:, 2])


@pytest.mark.parametrize("explore", [False, True])
def test_a_masked_action_is_never_taken(training, explore):
    under_way = training()
    for _ in range(4):
        under_way.iterate()
        for episode in under_way.sample(10, explore=explore):
            for step, action in enumerate(episode.get_actions()):
                assert episode.get_observations(step)[-under_way.runner.source.actions :][action] == 1


def test_targets_are_those_of_double_q_learning(training):
    under_way = training()
    for _ in range(4):
        under_way.iterate()
    module = under_way.learner.module[DEFAULT_MODULE_ID]
    assert isinstance(module, QModule)
    steps = under_way._replay.draw(16, lookahead=1, beta=0.6, gamma=0.6)
    assert not np.allclose(*(next(each.parameters()).detach() for each in (module.network, module._target)))
    errors = []
    for step in steps:
        seen, behind = (torch.from_numpy(each)[None] for each in (step.seen, step.behind))
        with torch.no_grad():
            own = q_values(module.network, module.settings, seen)[0, step.action]
            target = torch.tensor(step.reward)
            if not step.is_last:
                best = q_values(module.network, module.settings, behind).argmax(1)
                target = target + 0.6 * q_values(module._target, module.settings, behind)[0, best[0]]
        errors.append(float(abs(own - target)))
    batch = StepBatch()(rl_module=under_way.learner.module, batch={}, episodes=steps)[DEFAULT_MODULE_ID]
    module.train()
    output = module.forward_train(batch)
    under_way.learner.compute_loss_for_module(
        module_id=DEFAULT_MODULE_ID, config=under_way.learner.config, batch=batch, fwd_out=output
    )
    logged = under_way.learner.metrics.peek((DEFAULT_MODULE_ID, "td_error"))
    np.testing.assert_allclose(np.concatenate([np.atleast_1d(each) for each in logged]), errors, atol=1e-5)


def test_the_replay_draws_the_steps_that_the_one_of_rllib_draws(training):
    """Through rounds of episodes that push older ones out, and draws that change priorities."""
    under_way, random = training(), np.random.default_rng(1)
    own, theirs = StepReplay(150, 0.2, seed=5), PrioritizedEpisodeReplayBuffer(capacity=150, alpha=0.2)
    theirs.rng = np.random.default_rng(5)
    for _ in range(8):
        episodes = under_way.sample(15, random_actions=True)
        own.add(episodes)
        theirs.add(episodes)
        assert len(own) == theirs.get_num_timesteps() <= 150
        steps = own.draw(64, lookahead=3, beta=0.6, gamma=0.6)
        wanted = theirs.sample(num_items=64, n_step=(1, 4), beta=0.6, gamma=0.6)
        assert {step.n_step for step in steps} == {1, 2, 3}
        for step, of in zip(steps, wanted, strict=True):
            np.testing.assert_array_equal([step.seen, step.behind], of.get_observations(slice(0, 2)))
            assert (step.action, step.reward, step.is_last) == (of.get_actions(0), of.get_rewards(0), of.is_terminated)
            outputs = [of.get_extra_model_outputs(name, 0) for name in ("weights", "n_step")]
            assert [step.weight, step.n_step] == pytest.approx(outputs, rel=1e-12)
        errors = random.random(64) * 3
        errors[0] = 0.0
        own.update_priorities(errors)
        theirs.update_priorities(errors)


def test_a_round_larger_than_the_replay_leaves_its_last_episodes(training):
    episodes = training().sample(15, random_actions=True)
    replay = StepReplay(8, 0.2, seed=0)
    replay.add(episodes)
    assert len(replay) == sum(map(len, episodes[-(8 // len(episodes[-1])) :]))


def test_a_training_goes_on_from_its_state_as_if_it_had_not_stopped(training):
    through, stopped, resumed = training(), training(), training()
    for _ in range(6):
        last = through.iterate()
    for _ in range(3):
        stopped.iterate()
    resumed.restore(stopped.state())
    for _ in range(3):
        again = resumed.iterate()
    assert again == last
    for name, tensor in through.tensors().items():
        np.testing.assert_array_equal(tensor, resumed.tensors()[name])


def test_a_trained_network_knows_good_last_cuts_from_bad_ones(training):
    under_way = training(hidden=16, updates=10, lookahead=3, epsilon_steps=2000)
    for _ in range(20):
        under_way.iterate()
    module, random = under_way.learner.module[DEFAULT_MODULE_ID], under_way.sample(200, random_actions=True)
    seen = torch.from_numpy(np.stack([each.get_observations(2) for each in random]))
    with torch.no_grad():
        values = q_values(module.network, module.settings, seen).numpy()
    own = [values[row, each.get_actions(2)] for row, each in enumerate(random)]
    assert np.corrcoef(own, [each.get_return() for each in random])[0, 1] > 0.5
