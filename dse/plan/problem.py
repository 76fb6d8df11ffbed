"""The immutable problem: a model, a machine, a batch, a software stack, and what of the plan is fixed."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dse.plan.headroom import Headroom, headroom
from dse.plan.model import Transformer
from dse.plan.software import Software
from dse.plan.stack import Stack
from dse.plan.training_plan import SETTINGS
from hardware.chips import System
from hardware.machines import ARRAY_FIELDS, Machines
from hardware.network import Network

_CHIP_KEYS = ("name", "title", "peak_flops", "hbm_bytes", "hbm_bytes_per_s", "network")
"""What a plan depends on of a chip."""

_OF_CHOICE = {"date", "platforms", "measured_on", "use"}
"""What a stack is chosen by, and no cost depends on."""


@dataclass(frozen=True)
class PlanProblem:
    """What a plan is made for.

    Attributes:
        model: what trains.
        system: the machine, which has any number of devices.
        devices: how many the plan uses, all of them.
        global_batch: samples of a step.
        sequence: tokens of a sample.
        stack: the software.
        fixed: (key, value) of what is given of the plan.
        machine: an accelerator of the template, whose cores then price kernels instead of the data sheet of the chip.
        headroom_bytes: of a device's memory, kept free for what is not counted; None where what sources say of it is
            counted instead (:mod:`dse.plan.headroom`).
        relaxed: the constraint that plans need not keep (:data:`dse.plan.constraints.CONSTRAINTS`); none by default.
        stack_is_named: whether the user says that this is the software, and not another one that could be meant.
    """

    model: Transformer
    system: System
    devices: int
    global_batch: int
    sequence: int
    stack: Stack
    fixed: tuple[tuple[str, Any], ...]
    machine: Machines | None = None
    relaxed: str = ""
    headroom_bytes: int | None = 0
    stack_is_named: bool = True

    @property
    def usable_bytes(self) -> int:
        """What a plan may take of a device's memory."""
        return self.system.chip.hbm_bytes - (self.headroom_bytes or 0)

    @cached_property
    def headroom(self) -> Headroom | None:
        """What is counted beside tensors; None where a given amount is kept free instead."""
        if self.headroom_bytes is not None:
            return None
        node_ranks = self.system.network.node_accelerators or self.devices
        return headroom(self.system.chip, self.stack, self.model.hidden, node_ranks)

    @property
    def name(self) -> str:
        """The model on so many chips."""
        return f"{self.model.name} on {self.devices:,} {self.system.chip.name}"

    @property
    def precision(self) -> str:
        """Of the operands of linear layers."""
        precision: str = dict(self.fixed)["precision"]
        return precision

    @property
    def settings(self) -> dict[str, Any]:
        """What is fixed of the keys that are never chosen, but for the precision."""
        return {key: value for key, value in self.fixed if key in SETTINGS and key != "precision"}

    @cached_property
    def software(self) -> Software:
        """The stack as the settings have it."""
        return Software.of(self.stack, self.settings)

    @cached_property
    def network(self) -> Network:
        """What joins the devices, where collectives move their bytes at the stack's share of the links.

        A share that is only assumed says how far collectives are from the rates of links. Timed ones need none: their
        rates are raised by as much as all bytes are.
        """
        link, joined = self.stack.link, self.system.network.spanning(self.devices)
        return joined.with_timed_rates(1 / link.value) if link.assumed else joined

    @cached_property
    def model_flops(self) -> float:
        """Of a step, what MFU is measured by."""
        return self.model.flops_per_sample(self.sequence) * self.global_batch

    @property
    def host_bytes_per_s(self) -> float:
        """Of a device's link to the host's memory, at the stack's share of links.

        Only called of chips that state it: plans that need it are refused on others.
        """
        assert self.system.chip.host_bytes_per_s is not None, "plans that need it are refused"
        return self.system.chip.host_bytes_per_s * self.stack.link.value

    def document(self) -> dict[str, Any]:
        """The problem in JSON types."""
        from dse.results.result import document_of

        # Timed shares are in the stack, where they stand for what it assumes.
        chip = {key: getattr(self.system.chip, key) for key in _CHIP_KEYS}
        document = {
            "model": self.model.document(),
            "chip": document_of(chip),
            "network": self.system.network.document(),
            "devices": self.devices,
            "global_batch": self.global_batch,
            "sequence": self.sequence,
            "stack": self.stack.model_dump(mode="json", exclude=_OF_CHOICE),
            "fixed": dict(self.fixed),
        }
        if self.software.offloads_optimizer or self.software.offloads_activations:
            document["host_bytes_per_s"] = self.system.chip.host_bytes_per_s
        if self.headroom_bytes:
            document["headroom_bytes"] = self.headroom_bytes
        if self.headroom is not None:
            document["headroom"] = asdict(self.headroom)
        if self.machine is not None:
            document["machine"] = machine_document(self.machine)
        return document | {"relaxed": self.relaxed} if self.relaxed else document


def machine_document(machine: Machines) -> dict[str, Any]:
    """Everything that decides times and joules of kernels on an accelerator of the template, in JSON types."""
    rates = {
        name: getattr(machine, name)
        for name in ("clock_hz", "hbm_bytes_per_s", "global_buffer_words_per_cycle", "element_bytes")
    }
    sizes = {name: getattr(machine, name)[0].item() for name in ARRAY_FIELDS}
    energy = {} if machine.process_nm is None else {"energy": asdict(machine.energy)}
    between = {"dies": machine.dies, "d2d_bytes_per_s": machine.d2d_bytes_per_s} if machine.dies > 1 else {}
    return {**sizes, **rates, **energy, **between, "rules": machine.rules.model_dump(mode="json")}


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})
