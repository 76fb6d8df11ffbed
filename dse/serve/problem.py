"""The immutable problem: a model, a machine, engines, a load, limits, and what of the configuration is fixed."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dse.plan.model import Transformer
from dse.serve.engine import Engine
from dse.serve.load import Load
from dse.serve.shape import WeightFormat
from dse.serve.speculation import PLAIN, Drafter, Speculation
from hardware.chips import System
from hardware.kernel_model import KernelModel
from hardware.silicon.interval import Interval

Statistic = Literal["mean", "p50", "p90", "p99"]

MODES = ("aggregated", "disaggregated")
"""Prompts and decodes share the chips, or have workers of their own."""

_CHIP_KEYS = ("name", "rates", "hbm_bytes", "hbm_bytes_per_s", "processors", "link")
"""What a configuration's times depend on of a chip."""


@dataclass(frozen=True)
class Goals:
    """Limits on what clients see; None where there is none.

    Attributes:
        ttft_s, tpot_s: at most.
        statistic: of requests, by events; the closed form knows means alone.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    statistic: Statistic = "mean"


@dataclass(frozen=True)
class Service:
    """A chip in service, with its share of server, network and building.

    Attributes:
        kw: power.
        usd_at_cost, usd_at_price: an hour.
    """

    kw: Interval
    usd_at_cost: Interval
    usd_at_price: Interval


@dataclass(frozen=True)
class ServeProblem:
    """What a configuration is sought for.

    Attributes:
        model: what answers.
        system: the machine.
        kernels: of its chip.
        engines: of which the best counts.
        devices: how many a configuration may use.
        load: of the whole machine.
        goals: limits.
        precisions: formats of the checkpoints at hand.
        caches: formats of keys and values that are tried.
        fixed: (key, value) of what is given of the configuration.
        fewest: whether the fewest devices are sought that keep the limits, and not the most tokens for each.
        service: what a chip costs; None where its spec does not say what it is made of.
        modes: that are searched, of :data:`MODES`.
        drafts: numbers of drafts a step that are tried.
        acceptance: probability that a draft is accepted where those before it were.
        drafter: what proposes them; None for the layer that the model comes with.
    """

    model: Transformer
    system: System
    kernels: KernelModel
    engines: tuple[Engine, ...]
    devices: int
    load: Load
    goals: Goals
    precisions: tuple[WeightFormat, ...]
    caches: tuple[str, ...]
    fixed: tuple[tuple[str, Any], ...] = ()
    fewest: bool = False
    service: Service | None = None
    modes: tuple[str, ...] = ("aggregated",)
    drafts: tuple[int, ...] = (0,)
    acceptance: float = 0.0
    drafter: Drafter | None = None

    @property
    def name(self) -> str:
        """The model on so many chips."""
        return f"{self.model.name} on {self.devices:,} {self.system.chip.name}"

    @property
    def is_open(self) -> bool:
        """Whether requests arrive at a rate, and not as others end."""
        return self.load.rate_per_s > 0

    @cached_property
    def domain(self) -> int:
        """Accelerators that collectives of a replica may span: those of a node."""
        network = self.system.network
        return network.node_accelerators or network.domain_accelerators or self.devices

    def speculation(self, drafts: int) -> Speculation:
        """With so many drafts a step."""
        return Speculation(drafts, self.acceptance, self.drafter) if drafts else PLAIN

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return self.load.longest

    def opened(self) -> "ServeProblem":
        """The same with nothing fixed."""
        return replace(self, fixed=())

    def document(self) -> dict[str, Any]:
        """The problem in JSON types."""
        from dse.results.result import digest, document_of

        kernels = self.kernels
        timed = None if kernels.times is None else kernels.times.spec.model_dump(mode="json")
        known = [kernels.spec.model_dump(mode="json"), timed, kernels.link.document(), kernels.link_bytes_per_s]
        return {
            "model": self.model.document(),
            "chip": document_of({key: getattr(self.system.chip, key) for key in _CHIP_KEYS}),
            "kernels": digest(known),
            "network": self.system.network.document(),
            "engines": [each.model_dump(mode="json") for each in self.engines],
            "devices": self.devices,
            "load": self.load.document(),
            "goals": asdict(self.goals),
            "precisions": list(self.precisions),
            "caches": list(self.caches),
            "fixed": dict(self.fixed),
            "fewest": self.fewest,
            "service": self._service_document(),
            "modes": list(self.modes),
        } | self._drafts_document()

    def _drafts_document(self) -> dict[str, Any]:
        if not any(self.drafts):
            return {}
        own = None if self.drafter is None else [self.drafter.model.document(), self.drafter.weights]
        return {"drafts": list(self.drafts), "acceptance": self.acceptance, "drafter": own}

    def _service_document(self) -> dict[str, list[float]] | None:
        own = self.service
        return None if own is None else {
            name: [float(each.value), float(each.low), float(each.high)]
            for name, each in (("kw", own.kw), ("at_cost", own.usd_at_cost), ("at_price", own.usd_at_price))
        }  # fmt: skip
