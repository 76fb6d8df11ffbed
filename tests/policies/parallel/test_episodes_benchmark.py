"""The curve of a pretraining: what it says of families that were learned from, and of the others."""

import pytest

from benchmarks.parallel_episodes import excess_of
from policies.learning.scores import Score
from policies.parallel.pipeline.policy import PolicySettings
from policies.parallel.pipeline.task import PipelineTask


@pytest.mark.parametrize("families", [("random",), ("random", "blocks")])
def test_families_that_were_learned_from_stand_apart(families):
    names = PipelineTask(PolicySettings(), validation=2).validation_names

    def value(name):
        return (
            0.5
            if any(name.startswith(f"{each} on") for each in ("blocks", "tapering") if each not in families)
            else 0.8
        )

    score = Score(1, 50, {"greedy": {name: value(name) for name in names}})
    assert excess_of(score, families, "greedy") == pytest.approx((0.25, 1.0))
