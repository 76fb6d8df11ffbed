"""What a simulation finds, and what both forms of the simulator check before they begin."""

from dataclasses import dataclass

from dse.fabric.model import Pipeline, Placement, placement_faults
from hardware.fabrics import Fabric


@dataclass(frozen=True)
class Outcome:
    """The end of a simulation.

    Attributes:
        departures: the slot in which each sample departs, in order; fewer than requested in a deadlock.
        blocked: in a deadlock, the samples that each unit has ended; otherwise empty.
    """

    departures: tuple[int, ...]
    blocked: tuple[int, ...] = ()

    @property
    def is_deadlock(self) -> bool:
        """Whether nothing could happen any more before the last sample departed."""
        return bool(self.blocked)


def require_legal(pipeline: Pipeline, placement: Placement, fabric: Fabric) -> None:
    """Raises ValueError with all faults of a placement, if it has any."""
    faults = placement_faults(pipeline, placement, fabric)
    if faults:
        raise ValueError("; ".join(faults))


def require_samples(samples: int, fed_samples: int | None) -> None:
    """Raises ValueError unless ``1 <= samples <= fed_samples`` holds; None: any number is fed in."""
    if samples < 1 or (fed_samples is not None and fed_samples < samples):
        fed = "any number" if fed_samples is None else fed_samples
        raise ValueError(f"`1 <= samples <= fed_samples` must hold, but got {samples} and {fed}")


def samples_to_feed(pipeline: Pipeline, placement: Placement, fabric: Fabric, samples: int) -> int:
    """As many as a stream without end needs until ``samples`` have departed, and a finite number.

    No unit is further ahead of one that it sends to, in samples, than what fits between them. All that fits on the
    fabric is added to ``samples``. So a part of the pipeline that could run on for ever does not hide that another one
    is deadlocked.
    """
    in_units = sum(unit.samples + 1 for unit in pipeline.units)
    at_links = max(fabric.min_flow_flits, fabric.max_flow_flits)
    at_port = fabric.port_flits + fabric.channel_latency_slots
    links: list[int] = (placement.route_first[1:] - placement.route_first[:-1]).tolist()
    in_nets = sum(-(-(at_port + at_links * many) // net.flits) for net, many in zip(pipeline.nets, links, strict=True))
    return samples + in_units + in_nets
