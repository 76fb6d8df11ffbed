"""Laws of the environments: what masks leave is a plan without faults, and rewards are those of the definition."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.parallel.pipeline.exact import near, server_cuts
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.problem import RADIUS, PipelinePlan
from policies.parallel.pipeline.candidates import candidates, coarse_cuts
from policies.parallel.pipeline.contenders import drawn_plans
from policies.parallel.pipeline.generated import FAMILIES, GeneratedSource, generated
from policies.parallel.pipeline.improvement import improve
from policies.parallel.pipeline.inference import InferenceEpisodes, ProblemSource, coarse
from policies.parallel.pipeline.machines import CONFIGS, Machine
from policies.parallel.pipeline.online import SHORTEST, STARTS, Best, PipelineTrainingSource
from tests.policies.parallel.cases import played, problem_of

CUTTINGS = ("equal", "near", "free")


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(12, 80), st.sampled_from([2, 4]), st.sampled_from(CUTTINGS), st.booleans())
def test_every_episode_ends_in_a_plan_whose_reward_is_that_of_its_length(seed, points, stages, cutting, is_published):
    problem = problem_of(points, seed, stages=stages)
    make = PipelineTrainingSource if is_published else lambda *args: ProblemSource(coarse(*args))
    source = make(problem, cutting)
    if is_published and not source.is_open:
        return
    allowed = {
        "equal": {server_cuts(problem)},
        "near": set(near(server_cuts(problem), 3, 16)),
        "free": set(itertools.combinations(range(1, 16), stages - 1)),
    }[cutting]
    steps = played(source, seed)
    for masks, _, _, running in steps:
        assert running.all()
        assert masks.any(1).all(), "a legal action leads to one"
    assert source.best.evaluations == 20
    assert not faults(problem, source.best.plan)
    assert source.best.plan.device_cuts in allowed
    unit_s = sum(problem.profile.forward_s + problem.backward_s) / problem.devices
    shortest_s = length(problem, source.best.plan).length_s
    assert source.best.length_s == pytest.approx(shortest_s)
    earned = source.scale.scaled(np.array([(shortest_s / unit_s) ** -0.5]))
    assert steps[-1][2].max() == pytest.approx(earned[0])
    assert not any(rewards.any() for _, _, rewards, _ in steps[:-1])


def test_a_pivot_of_the_paper_implies_devices_by_its_share_of_the_computing():
    problem = problem_of(200, 3, devices=32, stages=4)
    of = candidates(problem, "near")
    work = problem.profile.forward_s + problem.backward_s
    for cut, devices in zip(of.cuts, of.devices, strict=True):
        assert abs(work[:cut].sum() / work.sum() * 32 - devices) <= 0.5 + 1e-9
    for cut, center in enumerate((8, 16, 24)):
        assert (np.abs(of.devices[of.legal[cut]] - center) <= 3).all()


def test_coarse_cuts_send_the_fewest_bytes_of_their_run():
    problem = problem_of(700, 5)
    cuts = coarse_cuts(problem, 32)
    runs = np.array_split(np.arange(1, 700), 32)
    for cut, run in zip(cuts, runs, strict=True):
        assert cut in run
        assert problem.profile.cut_bytes[cut] == problem.profile.cut_bytes[run].min()


def moves_of_one_cut(seen, plan):
    """All legal plans with one cut at another candidate or at a point up to one, by enumeration."""
    problem, others = seen.pricing.problem, []
    for cut, (point, front) in enumerate(zip(plan.cuts, plan.device_cuts, strict=True)):
        place = int(np.searchsorted(seen.cuts, point))
        near = range(seen.cuts[max(0, place - 1)], seen.cuts[min(len(seen.cuts) - 1, place + 1)] + 1)
        anywhere = itertools.product(seen.cuts.tolist(), range(1, problem.devices))
        for to, devices in [*anywhere, *itertools.product(near, (front - 1, front, front + 1))]:
            cuts, device_cuts = list(plan.cuts), list(plan.device_cuts)
            cuts[cut], device_cuts[cut] = to, devices
            if abs(devices - problem.devices * (cut + 1) / problem.stages) > RADIUS:
                continue
            other = PipelinePlan(tuple(cuts), tuple(device_cuts))
            if not faults(problem, other):
                others.append(other)
    return others


def test_an_improved_plan_is_one_that_no_move_of_one_cut_makes_shorter():
    problem = problem_of(300, 7, stages=3)
    seen = coarse(problem, "near")
    best = drawn_plans(seen, 50, 1)
    drawn, drawn_s = list(best.shortest), best.length_s
    improve(seen, best)
    assert not faults(problem, best.plan)
    assert best.length_s < drawn_s
    moved_s = min(length(problem, each).length_s for each in moves_of_one_cut(seen, best.plan))
    assert moved_s >= best.length_s * (1 - 1e-12)
    each_alone = [Best.of(plan, length_s) for length_s, plan in drawn[:STARTS]]
    for one in each_alone:
        improve(seen, one)
    assert best.length_s == min(one.length_s for one in each_alone)
    assert best.evaluations == 50 + sum(one.evaluations for one in each_alone)


def test_a_search_knows_its_shortest_plans_once_each_in_order():
    problem = problem_of(60, 4)
    seen = coarse(problem, "near")
    cuts = np.array([[point] for point in range(1, 60)] * 2)
    devices = np.full((len(cuts), 1), 8)
    best, prices = Best(), seen.pricing.prices(cuts, devices)
    for first in range(0, len(cuts), 7):
        best.take(cuts[first : first + 7], devices[first : first + 7], prices[first : first + 7])
    plans = [PipelinePlan((point,), (8,)) for point in range(1, 60)]
    wanted = sorted(length(problem, plan).length_s for plan in plans if not faults(problem, plan))[:SHORTEST]
    assert [length_s for length_s, _ in best.shortest] == pytest.approx(wanted)
    assert len({plan for _, plan in best.shortest}) == SHORTEST
    assert best.evaluations == len(cuts)


def test_generated_problems_are_met_once_in_each_of_as_many_rounds_as_a_round_has_problems():
    source = GeneratedSource((CONFIGS[0], CONFIGS[2]), "near", 7)
    rounds = [source.episodes(number, 4)._problems for number in range(6)]
    met = [problem for each in rounds for problem in each]
    assert sorted(met.count(each) for each in set(met)) == [1, 1, 2, 2, 3, 3, 4, 4, 4]
    assert {problem.pricing.problem.stages for problem in met} == {2, 4}
    same = generated(CONFIGS[0], (7, 0)).profile.forward_s
    assert (met[0].pricing.problem.profile.forward_s == same).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_problems_of_every_family_have_plans(family):
    for number, machine in enumerate(CONFIGS):
        problem = generated(machine, (3, number), family)
        best = Best()
        episodes = InferenceEpisodes([coarse(problem, "near", machine.lines)], [best])
        for _ in range(2 * (machine.stages - 1)):
            episodes.step(np.where(episodes.observations()[:, -128:] > 0, 1.0, 0.0).argmax(1))
        assert not faults(problem, best.plan)


def test_families_of_transformers_and_of_convolutional_networks_look_like_them():
    tapering = generated(CONFIGS[0], (3, 1), "tapering").profile
    half = tapering.points // 2
    assert tapering.weight_bytes[half:].sum() > tapering.weight_bytes[:half].sum()
    assert tapering.cut_bytes[1:half].mean() > tapering.cut_bytes[half:-1].mean()
    blocks = generated(CONFIGS[0], (3, 1), "blocks").profile
    inner = blocks.forward_s[1:-8]
    repeated = [size for size in range(4, 24) if np.isclose(inner[:size], inner[size : 2 * size]).all()]
    assert repeated


def test_families_come_in_turn():
    source = GeneratedSource((CONFIGS[0],), "near", 7, ("random", "tapering"))
    met = source.episodes(0, 2)._problems
    for number, family in enumerate(("random", "tapering")):
        same = generated(CONFIGS[0], (7, number), family).profile.forward_s
        assert (met[number].pricing.problem.profile.forward_s == same).all()


def test_episodes_of_fewer_stages_end_earlier_and_the_others_go_on():
    problems = [coarse(generated(machine, (1, 2)), "near") for machine in (CONFIGS[0], CONFIGS[2])]
    best = [Best(), Best()]
    episodes = InferenceEpisodes(problems, best)
    ends = []
    for _ in range(6):
        seen = episodes.observations()
        masks = seen[:, -128:] > 0
        _, ended = episodes.step(np.where(masks, 1.0, 0.0).argmax(1))
        ends.append(ended.tolist())
    assert ends == [[False, False], *[[True, False]] * 4, [True, True]]
    assert [each.evaluations for each in best] == [1, 1]
    assert [len(each.plan.cuts) for each in best] == [1, 3]


def test_rewards_are_told_as_distances_from_random_plans():
    source = ProblemSource(coarse(problem_of(60, 2, devices=32, stages=4), "near"))
    earned = np.concatenate([rewards for *_, rewards, _ in played(source, count=200)])
    last = earned[-200:]
    assert abs(last.mean()) < 0.5
    assert 0.5 < last.std() < 2
    assert np.abs(last).max() <= 5


def test_a_machine_is_told_by_its_network_devices_stages_and_microbatches():
    problem = problem_of()
    assert Machine("dapple", 16, 2, 4).runs(problem)
    for other in (("dapple", 16, 2, 16), ("dapple", 24, 2, 4), ("dapple", 16, 4, 4), ("dgx-a100", 16, 2, 4)):
        assert not Machine(*other).runs(problem)
