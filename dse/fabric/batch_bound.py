"""A lower bound on the slots in which a batch passes an empty pipeline, for any placement and any routes.

The simulator's rules are those of :mod:`dse.fabric.evaluators`. A batch of B samples departs when all units that send
nothing have ended it, and every other unit is upstream of one of these; so each unit has done its part of all B samples
by then.
"""

from collections import defaultdict

from dse.fabric.bound import bounds
from dse.fabric.model import Net, Pipeline, Sink, UnitKind
from hardware.fabrics import Fabric


def batch_bound_slots(pipeline: Pipeline, fabric: Fabric, batch: int) -> int:
    """Slots until the last of ``batch`` samples has departed, at least.

    - A compute unit with S steps begins when what is before it allows (its *head*), goes through B · S steps, one a
      slot at most, and what is behind it still has to end the last sample (its *tail*).
    - Ports, channels and links pass one flit in a slot, whichever samples they belong to: B times what they need for
      one, but for what the last flit holds them longer than a slot.
    """
    heads, tails = _heads(pipeline), _tails(pipeline)
    least = max(
        (heads[unit] + batch * int(steps) + tails[unit] for unit, steps in enumerate(pipeline.steps)), default=0
    )
    last = max(fabric.transposed_read_slots, fabric.channel_slots) - 1
    shared = [each.slots for each in bounds(pipeline, fabric) if each.resource in ("memory_port", "off_chip", "links")]
    return max(least, int(batch * max(shared, default=0)) - last)


def _heads(pipeline: Pipeline) -> list[int]:
    """Slots before each unit can do anything for the first sample.

    What a memory unit holds is read when all of it is written, and the last flit of a compute unit is written in its
    last step. A reader of a compute unit waits for the first flit, which is written in step ``A + ⌈(S − A) / F⌉``.
    Every compute unit reads the first flit of all its nets in its first step.
    """
    heads = [0] * len(pipeline.units)
    for net in _in_order(pipeline):
        steps = int(pipeline.steps[net.source])
        for sink in net.sinks:
            if pipeline.units[sink.unit].kind == UnitKind.MEMORY:
                ready = steps
            elif steps:
                start = steps // 2 if net.late else 0
                ready = start - (-(steps - start) // net.flits)
            else:
                ready = 0
            heads[sink.unit] = max(heads[sink.unit], heads[net.source] + ready)
    return heads


def _tails(pipeline: Pipeline) -> list[int]:
    """Slots from the last thing that each unit does for a sample to the sample's departure.

    Behind a memory unit, which is read when the sample is whole, a compute unit has all of its steps before it. Behind
    a compute unit it has those from the step on in which it reads the last flit, ``⌊(F − 1) B / F⌋ + 1``.
    """
    tails = [0] * len(pipeline.units)
    for net in reversed(_in_order(pipeline)):
        for sink in net.sinks:
            tails[net.source] = max(tails[net.source], _steps_left(pipeline, net, sink) + tails[sink.unit])
    return tails


def _steps_left(pipeline: Pipeline, net: Net, sink: Sink) -> int:
    steps = int(pipeline.steps[sink.unit])
    if pipeline.units[net.source].kind == UnitKind.MEMORY:
        return steps
    within = (steps + 1) // 2 if sink.early else steps
    return steps - (net.flits - 1) * within // net.flits if steps else 0


def _in_order(pipeline: Pipeline) -> list[Net]:
    """The nets, each behind those that go to its source."""
    sent: dict[int, list[Net]] = defaultdict(list)
    for net in pipeline.nets:
        sent[net.source].append(net)
    return [net for unit in pipeline.order for net in sent[unit]]
