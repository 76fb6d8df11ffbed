"""What a setting is worth on training graphs: the simulated share of the bound that its annealed placements reach."""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from dse.fabric.bound import own_bound
from dse.fabric.cases import block_case
from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Pipeline
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.setting import Setting
from dse.fabric.tuning.plan import Task, TuningPlan
from dse.results.result import digest
from dse.run.progress import StopSignal, ask, never_stop
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots, operator_slots


@dataclass(frozen=True, eq=False)
class TrainingGraph:
    """A graph spread over units, with what judges its placements.

    Attributes:
        pipeline: of the graph.
        bound_slots: what no placement of it can beat.
        simulator: of the pipeline.
    """

    pipeline: Pipeline
    bound_slots: float
    simulator: Simulator


@dataclass(frozen=True, eq=False)
class Judge:
    """The share of the bound that a task reaches on each of its graphs, as a function for executors and workers.

    Graphs are drawn when they are first needed, and stay.

    Attributes:
        plan: of the run.
        stop: consulted in this process only; a reason ends the task under way with StoppedError.
    """

    plan: TuningPlan
    stop: StopSignal = never_stop
    _graphs: dict[int, TrainingGraph] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Judge, (self.plan,)

    @cached_property
    def fabric(self) -> Fabric:
        """On which graphs are placed."""
        return fabric(self.plan.fabric)

    @cached_property
    def slots(self) -> OperatorSlots:
        """Of operators on it."""
        return operator_slots(self.plan.slots)

    def graph(self, number: int) -> TrainingGraph:
        """A training graph by its number."""
        if number not in self._graphs:
            pipeline = block_case(self.plan.first_graph + number, self.fabric, self.slots).expansion.pipeline
            slots = own_bound(pipeline, self.fabric).slots
            self._graphs[number] = TrainingGraph(pipeline, slots, Simulator(pipeline, self.fabric, self.stop))
        return self._graphs[number]

    def __call__(self, task: Task) -> list[float]:
        """Bound over simulated interval on each graph of a task; 0 in a deadlock.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        return [self._share(task, number) for number in task.graphs]

    def _share(self, task: Task, number: int) -> float:
        ask(self.stop)
        graph = self.graph(number)
        settings = task.setting.schedule(AnnealSettings(self.plan.moves_per_unit * len(graph.pipeline.units)))
        annealing = Annealing(graph.pipeline, self.fabric, task.setting.weights, settings, self.stop)
        placement = annealing(Chain(self.plan.chain_seed(task, number))).placement
        ask(self.stop)  # a chain that was cut short says nothing
        interval_slots = throughput(graph.simulator, placement).interval_slots
        return 0.0 if interval_slots is None else graph.bound_slots / interval_slots


def plan_digest(plan: TuningPlan) -> str:
    """What identifies a run: its plan, the setting that it begins with, and the simulator of its fabric."""
    simulator, untuned = simulator_fingerprint(fabric(plan.fabric)), Setting.untuned().document()
    return digest({"plan": asdict(plan), "untuned": untuned, "simulator": simulator})
