"""The options of the co-search as people give them, and the problem they pose."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from dse.codesign.problem import CodesignProblem
from dse.models import model as named_model
from hardware.cost_model import cost_model
from hardware.inputs import fail
from hardware.machines import Machines
from hardware.network import network
from hardware.space import architecture_space, smallest_area_mm2
from hardware.specs import accelerator
from hardware.units import bytes_from_gib

_LARGEST = 10**6
"""No microbatch, memory in GB or width is larger; more is a slip of units."""


@dataclass(frozen=True)
class CodesignOptions:
    """What ``dse codesign`` takes, as text and numbers; :meth:`problem` judges them."""

    model: str
    accelerators: int = 1024
    global_batch: int = 4096
    microbatch: str = "1,2,4,8"
    hbm_gb: str = "32,64,80"
    tensor_parallel: str = "1,2,4,8"
    area_budget: str = "tpuv4"
    search: str = "exhaustive"
    network: str | None = None
    objective: str = "throughput"
    cost_model: str = "consistent"

    def document(self) -> dict[str, Any]:
        """The options as JSON types, for ``run.yaml``."""
        return asdict(self)

    def problem(self) -> CodesignProblem:
        """The problem that the options pose.

        Raises:
            InputError: an unknown name, a size that is not positive, a microbatch that does not divide the batch, or
                widths of which the model has none.
        """
        chosen = named_model(self.model)
        rules = cost_model(self.cost_model)
        microbatches = _whole_numbers("--microbatch", self.microbatch)
        for microbatch in microbatches:
            if self.global_batch % microbatch:
                raise fail(
                    "dse codesign", "--microbatch", str(microbatch), f"must divide the batch {self.global_batch}"
                )
        asked = _whole_numbers("--tensor-parallel", self.tensor_parallel)
        offered = tuple(width for width in asked if width in chosen.tensor_parallel)
        if not offered:
            widths = ", ".join(map(str, chosen.tensor_parallel))
            raise fail("dse codesign", "--tensor-parallel", self.tensor_parallel, f"{chosen.name} has widths {widths}")
        return CodesignProblem(
            model=chosen,
            cost_model=rules,
            network=network(self.network or rules.training.network.name),
            accelerators=self.accelerators,
            global_batch=self.global_batch,
            microbatches=microbatches,
            hbm_bytes=tuple(bytes_from_gib(size) for size in _positive_numbers("--hbm-gb", self.hbm_gb)),
            tensor_parallel=offered,
            area_budget_mm2=self._area_budget_mm2(),
        )

    def machines(self) -> Machines:
        """The architectures within the budget."""
        return architecture_space(self._area_budget_mm2(), cost_model(self.cost_model))

    def _area_budget_mm2(self) -> float:
        """The budget as a number: as given, or the area of the accelerator spec that is named."""
        try:
            budget = float(self.area_budget)
        except ValueError:
            return float(accelerator(self.area_budget).machines.area_mm2[0])
        if not (math.isfinite(budget) and budget > 0):
            raise fail("dse codesign", "--area-budget", self.area_budget, "must be a positive number of mm² or a spec")
        least_mm2 = smallest_area_mm2()
        if budget < least_mm2:
            rule = f"must hold the smallest architecture, which has {least_mm2:.6g} mm²"
            raise fail("dse codesign", "--area-budget", self.area_budget, rule)
        return budget


def _whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Positive whole numbers separated by commas, ascending, each once."""
    numbers = _positive_numbers(option, text)
    for number in numbers:
        if number != int(number):
            raise fail("dse codesign", option, text, "must be whole numbers separated by commas")
    return tuple(int(number) for number in numbers)


def _positive_numbers(option: str, text: str) -> tuple[float, ...]:
    """Positive numbers separated by commas, ascending, each once."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise fail("dse codesign", option, text, "must be numbers separated by commas") from None
    for number in numbers:
        if not 0 < number <= _LARGEST:
            raise fail("dse codesign", option, text, f"every number must be positive and finite, at most {_LARGEST:,}")
    return tuple(sorted(set(numbers)))


def predicted_seconds(problem: CodesignProblem, machines: Machines) -> float:
    """A rough prediction of the search's work on one core, to decide whether starting Ray pays.

    Bounding took 0.03 ms an architecture and graph where this was measured. With tensor parallelism, collectives that
    overlap weight gradients make schedules that take minutes to prove.
    """
    graphs = len(problem.microbatches) * len(problem.tensor_parallel)
    return 3e-5 * len(machines) * graphs + (60.0 if max(problem.tensor_parallel) > 1 else 0.0)
