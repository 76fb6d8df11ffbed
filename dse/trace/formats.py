"""``solution`` and ``metrics`` of a result of ``dse trace``."""

from typing import Literal

from hardware.inputs import Document


class StepDocument(Document):
    """The time of one step on one device, in states that add up to the window.

    Attributes:
        rank: of the process.
        device: its number in the profile.
        name: of the step.
        cut: what states where it begins and ends: ``host`` is a mark of the host, ``device`` spans what the step ran
            on the device, ``whole`` is from the first start to the last end.
        events: kernels, copies and fills that begin in it.
        window_s: its length: the sum of the next four.
        compute_s: in which a kernel computes.
        exposed_communication_s: in which collectives run and nothing computes.
        exposed_copy_s: in which only copies or fills run.
        idle_s: in which nothing runs.
        communication_s: in which collectives run, hidden or not.
        copy_s: in which copies or fills run, hidden or not.
        classes: time of the events of each class; of events that overlap, each counts.
    """

    rank: int
    device: int
    name: str
    cut: Literal["host", "device", "whole"]
    events: int
    window_s: float
    compute_s: float
    exposed_communication_s: float
    exposed_copy_s: float
    idle_s: float
    communication_s: float
    copy_s: float
    classes: dict[str, float]


class ShareDocument(Document):
    """What events have alike, how many there are, and their time together.

    Attributes:
        rank: of the process.
        name: of the class, layer or operator; empty where that is not known.
        events: how many.
        time_s: of all of them; of events that overlap, each counts.
    """

    rank: int
    name: str
    events: int
    time_s: float


class GemmDocument(Document):
    """Matrix products of one size, ``batch`` times m × k by k × n, on all ranks.

    Attributes:
        operator: that carries them out.
        batch: products of one call.
        m: rows of the first operand.
        n: columns of the second.
        k: what is summed over.
        element: type of the first operand, as the profiler calls it; empty where it was not recorded.
        calls: how many.
        kernels: that they launched.
        time_s: of all these kernels.
        median_s: of a call.
        flops: of all calls.
        flops_per_s: over the time of the kernels of class ``gemm`` alone; null without any.
    """

    operator: str
    batch: int
    m: int
    n: int
    k: int
    element: str
    calls: int
    kernels: int
    time_s: float
    median_s: float
    flops: int
    flops_per_s: float | None


class CollectiveDocument(Document):
    """The collectives of one kind in one group, on one rank.

    Attributes:
        rank: of the process.
        kind: such as ``all_reduce``; ``send_recv`` is how NCCL carries out an all-to-all.
        group: as the profiler calls it; empty where it was not recorded.
        calls: how many.
        bytes: that the rank puts in, all together; null where that was not recorded.
        time_s: of their kernels.
        transfer_s: what the data takes: of each the least time over the ranks; null where not all ranks are given.
        waiting_s: the rest; null likewise.
    """

    rank: int
    kind: str
    group: str
    calls: int
    bytes: int | None
    time_s: float
    transfer_s: float | None
    waiting_s: float | None


class ClockDocument(Document):
    """A clock that collectives prove to differ from that of the first rank.

    Attributes:
        rank: whose.
        first_s: how much later the same collectives end by it, at the beginning of the profile.
        last_s: at the end.
    """

    rank: int
    first_s: float
    last_s: float


class SolutionDocument(Document):
    """``solution``: where the time goes.

    Attributes:
        steps: of each rank, then the whole profile.
        classes: of work, by rank.
        layers: by rank; those of modules of which the model has several, or else the module itself.
        operators: of the host, by rank; the innermost around each launch.
        gemms: matrix products by size, those with the most time first.
        collectives: by kind, group and rank.
        clocks: those that differ.
    """

    steps: list[StepDocument]
    classes: list[ShareDocument]
    layers: list[ShareDocument]
    operators: list[ShareDocument]
    gemms: list[GemmDocument]
    collectives: list[CollectiveDocument]
    clocks: list[ClockDocument]


class MetricsDocument(Document):
    """``metrics``.

    Attributes:
        format: what wrote the profiles.
        ranks: that are given.
        events: kernels, copies and fills on all devices.
        unlinked_events: of these, those whose launch is not in the profile.
    """

    format: str
    ranks: int
    events: int
    unlinked_events: int
