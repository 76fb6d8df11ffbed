"""How rules are tuned: on which graphs, with how many simulations, and in which stages.

The budget is counted in simulations, so that rules can be tuned with as many as a learned cost has samples. It goes to
three stages: every graph once under the untuned mixture, which says how hard it is; trials, each of them on a part of
the graphs; and the untuned setting and the best trials again on all graphs with fresh seeds, of which the best is the
result. So the final choice does not depend on the luck of one trial.
"""

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np

from dse.fabric.setting import Setting

Stage = Literal["mixture", "trial", "final"]
"""The stages, in order."""

_STAGE_NUMBERS = MappingProxyType({"mixture": 0, "trial": 1, "final": 2})


@dataclass(frozen=True)
class Task:
    """A setting on some graphs.

    Attributes:
        stage: that it belongs to.
        number: within the stage.
        setting: that is judged.
        graphs: on which, as numbers below :attr:`TuningPlan.graphs`.
    """

    stage: Stage
    number: int
    setting: Setting
    graphs: tuple[int, ...]

    @property
    def key(self) -> str:
        """What the journal calls it."""
        return f"{self.stage} {self.number}"


@dataclass(frozen=True)
class TuningPlan:
    """A run of tuning; what it gives depends on nothing else.

    Attributes:
        fabric: a name or a file.
        simulations: in all stages together, at most.
        first_graph: seed of the first training graph (:func:`dse.fabric.cases.block_case`).
        graphs: how many there are, with seeds in a row.
        graphs_per_trial: that a trial is judged on; the next trial takes the next ones in turn.
        finalists: trials that are judged again on all graphs, the untuned setting among them.
        moves_per_unit: moves of a chain, for each unit of its pipeline.
        seed: of the sampler and of all chains.
        slots: table of the operators' slots.

    Raises:
        ValueError: a value that breaks a rule; fewer simulations than the stages need with one trial for each finalist.
    """

    fabric: str
    simulations: int
    first_graph: int = 20_000
    graphs: int = 64
    graphs_per_trial: int = 16
    finalists: int = 8
    moves_per_unit: int = 1000
    seed: int = 0
    slots: str = "streaming"

    def __post_init__(self) -> None:
        for name in ("graphs", "graphs_per_trial", "finalists", "moves_per_unit"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, but got {getattr(self, name)}")
        if self.graphs_per_trial > self.graphs:
            raise ValueError(
                f"`graphs_per_trial <= graphs` must hold, but got {self.graphs_per_trial} and {self.graphs}"
            )
        if self.trials < self.finalists:
            needed = self.graphs * (1 + self.finalists) + self.graphs_per_trial * self.finalists
            raise ValueError(f"`simulations` must be at least {needed}, but got {self.simulations}")

    @cached_property
    def trials(self) -> int:
        """Trials that the budget pays for in addition to the other stages."""
        return (self.simulations - self.graphs * (1 + self.finalists)) // self.graphs_per_trial

    def mixture_task(self) -> Task:
        """All graphs under the untuned mixture."""
        return Task("mixture", 0, Setting.untuned(), tuple(range(self.graphs)))

    def trial_task(self, number: int, setting: Setting) -> Task:
        """A trial on its part of the graphs."""
        first = number * self.graphs_per_trial
        graphs = tuple((first + place) % self.graphs for place in range(self.graphs_per_trial))
        return Task("trial", number, setting, graphs)

    def final_task(self, number: int, setting: Setting) -> Task:
        """A finalist, by its number as a trial, on all graphs."""
        return Task("final", number, setting, tuple(range(self.graphs)))

    def chain_seed(self, task: Task, graph: int) -> int:
        """The seed of a task's chain on a graph: another one for every stage, task and graph."""
        generator = np.random.default_rng([self.seed, _STAGE_NUMBERS[task.stage], task.number, graph])
        return int(generator.integers(2**63))
