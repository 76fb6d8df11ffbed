"""Problems and episodes to learn from, small."""

import numpy as np

from dse.parallel.pipeline.problem import PipelineProblem
from hardware.network_specs import network
from tests.parallel.pipeline.cases import profile_of


def problem_of(points=60, seed=1, devices=16, stages=2, microbatches=4, weight_bytes=1e8, **options):
    """A random pipeline on servers of eight devices."""
    joined = network("dapple").spanning(devices)
    return PipelineProblem(profile_of(points, seed, weight_bytes), joined, devices, stages, microbatches, **options)


def played(source, seed=0, count=20, number=0):
    """Random episodes to their end: (masks, actions, rewards) of each step, and whether each had ended before it."""
    episodes, draw = source.episodes(number, count), np.random.default_rng(seed)
    running, steps = np.ones(count, dtype=bool), []
    while running.any():
        seen = episodes.observations()
        masks = seen[:, -source.actions :] > 0
        actions = np.where(masks, draw.random(masks.shape), -1).argmax(1)
        rewards, ended = episodes.step(actions)
        steps.append((masks, actions, rewards, running))
        running = ~ended
    assert not episodes.observations()[:, -source.actions :].any()
    return steps
