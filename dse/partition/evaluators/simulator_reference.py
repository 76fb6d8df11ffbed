"""The simulator in plain form: what every chip and every link does in the steady state of a pipeline.

The rules are in :mod:`dse.partition.evaluators.simulator`; this module follows them one by one, for one partition, and
records every step, so that it can be shown. The compiled form is tested against it.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dse.partition.evaluators.simulator_operators import EFFECT_SALTS, Operators, mixed, operators_of
from dse.partition.problem import PartitionGraph
from hardware.packages import Package


@dataclass(frozen=True)
class Step:
    """A fused group on its chip: its operators from first to last, when it runs, and the memory then in use.

    Seconds are from the start of the chip's stage.
    """

    operators: tuple[int, ...]
    start_s: float
    end_s: float
    live_bytes: float
    weight_bytes: float


@dataclass(frozen=True)
class Stream:
    """The weights of a group on their way to a chip, while the weighted group before it runs."""

    operators: tuple[int, ...]
    start_s: float
    end_s: float


@dataclass(frozen=True)
class SimulatedChip:
    """One chip.

    Attributes:
        chip: its number.
        level: chips on the longest way to it.
        effect: what its program's times are multiplied with.
        steps: in the order of the schedule.
        streams: of weights.
        seconds: from the start of the stage until the next one can start.
        buffer_bytes: what is sent and received, with all copies.
    """

    chip: int
    level: int
    effect: float
    steps: tuple[Step, ...]
    streams: tuple[Stream, ...]
    seconds: float
    buffer_bytes: float

    @property
    def fullest(self) -> Step:
        """The first step with the most memory in use."""
        return max(self.steps, key=lambda step: step.live_bytes + step.weight_bytes)

    @property
    def peak_bytes(self) -> float:
        """The most memory in use."""
        return self.buffer_bytes + self.fullest.live_bytes + self.fullest.weight_bytes


@dataclass(frozen=True)
class Transfer:
    """One tensor on one link (from chip ``link`` to the next), from its first byte on it to its last byte off it."""

    operator: int
    link: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Simulation:
    """A partition in steady state, where each interval has every chip run one input and every link carry another.

    Attributes:
        stages: of the used chips.
        transfers: of one interval, from its start.
        latency_s: of one input alone.
    """

    stages: tuple[SimulatedChip, ...]
    transfers: tuple[Transfer, ...]
    latency_s: float

    @property
    def interval_s(self) -> float:
        """Between two inputs: the slowest chip, or the last transfer."""
        return max(*(stage.seconds for stage in self.stages), *(each.end_s for each in self.transfers), 0.0)

    @property
    def peak_bytes(self) -> float:
        """Memory in use on the fullest chip."""
        return max(stage.peak_bytes for stage in self.stages)


def simulate(graph: PartitionGraph, package: Package, chip: Sequence[int]) -> Simulation:
    """What a partition that satisfies (2) to (4) does on ``package``."""
    partition = _Partition(graph, package, chip)
    stages = tuple(_stage(partition, number) for number in range(max(chip) + 1))
    messages = [
        [step.operators[-1] for step in stage.steps if partition.elsewhere[step.operators[-1]]] for stage in stages
    ]
    return Simulation(stages, tuple(_transfers(partition, messages)), _latency_s(partition, stages, messages))


class _Partition:
    """What follows from graph, package and chips, before anything is in an order."""

    def __init__(self, graph: PartitionGraph, package: Package, chip: Sequence[int]) -> None:
        self.package, self.chip = package, [int(number) for number in chip]
        self.operators: Operators = operators_of(graph, package)
        self.producers: dict[int, list[int]] = defaultdict(list)
        self.consumers: dict[int, list[int]] = defaultdict(list)
        for source, target in graph.edges.tolist():
            self.producers[target].append(source)
            self.consumers[source].append(target)
        everyone = [int(operator) for operator in graph.topological_order]
        self.elsewhere = {
            operator: {self.chip[each] for each in self.consumers[operator]} - {self.chip[operator]}
            for operator in everyone
        }
        self.level = [0] * (max(self.chip) + 1)
        for number in range(len(self.level)):
            heard = [self.chip[v] for v in everyone if number in self.elsewhere[v]]
            self.level[number] = max((1 + self.level[other] for other in heard), default=0)
        groups: dict[int, list[int]] = {}
        self.group_of: dict[int, int] = {}
        for operator in everyone:
            into = int(self.operators.fused_into[operator])
            together = into >= 0 and self.chip[into] == self.chip[operator]
            head = self.group_of[into] if together else operator
            self.group_of[operator] = head
            groups.setdefault(head, []).append(operator)
        self.groups = {head: tuple(members) for head, members in groups.items()}

    def heads(self, number: int) -> list[int]:
        """The groups on a chip, by their first operators."""
        return [head for head in self.groups if self.chip[head] == number]

    def readers(self, head: int) -> set[int]:
        """The groups on the same chip that a group's output goes to."""
        return {v for v in self.consumers[self.groups[head][-1]] if self.chip[v] == self.chip[head]}

    def held_bytes(self, head: int) -> float:
        """What a group's output takes while its readers wait; 0 where it is in a buffer because it leaves the chip."""
        last = self.groups[head][-1]
        leaves = bool(self.elsewhere[last]) or not self.consumers[last]
        return 0.0 if leaves else float(self.operators.output_bytes[last])

    def weights(self, head: int) -> float:
        """Bytes of a group's weights."""
        return float(sum(self.operators.weight_bytes[list(self.groups[head])]))

    def seconds(self, head: int) -> float:
        """What a group takes without the compile effect; tensors inside it are neither written nor read."""
        members = list(self.groups[head])
        inside_bytes = 2 * sum(self.operators.output_bytes[members[:-1]])
        memory_s = sum(self.operators.memory_s[members]) - inside_bytes / self.package.memory_bytes_per_s
        return self.package.launch_s + float(max(sum(self.operators.compute_s[members]), memory_s))

    def transfer_s(self, operator: int) -> float:
        """What an operator's output takes of a link."""
        return float(self.operators.output_bytes[operator]) / self.package.link_bytes_per_s


def _schedule(partition: _Partition, number: int) -> list[int]:
    """The groups of a chip: of those that can run, the one that adds least to what is held, then the first by rank."""
    heads = partition.heads(number)
    inputs = {
        head: {partition.group_of[v] for v in partition.producers[head] if partition.chip[v] == number}
        for head in heads
    }
    missing = {head: set(inputs[head]) for head in heads}
    unread = {head: set(partition.readers(head)) for head in heads}
    ready = {head for head in heads if not missing[head]}
    order: list[int] = []

    def growth(head: int) -> float:
        freed = sum(partition.held_bytes(other) for other in inputs[head] if unread[other] == {head})
        return partition.held_bytes(head) - freed

    while ready:
        following = min(ready, key=lambda head: (growth(head), partition.operators.rank[head]))
        ready.remove(following)
        order.append(following)
        for other in inputs[following]:
            unread[other].discard(following)
        for reader in partition.readers(following):
            missing[reader].discard(following)
            if not missing[reader]:
                ready.add(reader)
    return order


def _stage(partition: _Partition, number: int) -> SimulatedChip:
    package, order = partition.package, _schedule(partition, number)
    effect = _effect(partition, number)
    sent = [v for v in partition.elsewhere if partition.chip[v] == number and partition.elsewhere[v]]
    received = [v for v in partition.elsewhere if number in partition.elsewhere[v]]
    start_s = package.stage_s + (len(sent) + len(received)) * package.transfer_launch_s
    lasts_s = [effect * partition.seconds(head) for head in order]
    begin_s, seconds, streams = _times(partition, order, start_s, lasts_s)
    live, weights = _live_bytes(partition, order), _weight_bytes(partition, order)
    steps = tuple(
        Step(partition.groups[head], begin_s[place], begin_s[place] + lasts_s[place], live[place], weights[place])
        for place, head in enumerate(order)
    )
    return SimulatedChip(
        number, partition.level[number], effect, steps, streams, seconds, _buffer_bytes(partition, number)
    )


def _streamed(partition: _Partition, order: list[int]) -> list[int]:
    """Places of the groups whose weights are streamed: of two or more groups with weights, all; one keeps its own."""
    if partition.package.weights == "resident":
        return []
    places = [place for place, head in enumerate(order) if partition.weights(head) > 0]
    return places if len(places) > 1 else []


def _times(
    partition: _Partition, order: list[int], start_s: float, lasts_s: list[float]
) -> tuple[list[float], float, tuple[Stream, ...]]:
    """(when each group begins, seconds of the stage, streams of weights)."""
    streamed = _streamed(partition, order)
    begin_s: list[float] = []
    streams: list[Stream] = []
    now_s, ready_s = start_s, start_s
    for place in range(len(order)):
        if place in streamed:
            now_s = max(now_s, ready_s) if place != streamed[0] else now_s
            following = order[streamed[(streamed.index(place) + 1) % len(streamed)]]
            ready_s = now_s + partition.weights(following) / partition.package.weight_bytes_per_s
            streams.append(Stream(partition.groups[following], now_s, ready_s))
        begin_s.append(now_s)
        now_s += lasts_s[place]
    if not streamed:
        return begin_s, now_s, ()
    # The first weights of the next input come while this one ends; its stage begins so much before they are needed.
    return begin_s, max(now_s, ready_s - begin_s[streamed[0]]), tuple(streams)


def _weight_bytes(partition: _Partition, order: list[int]) -> list[float]:
    """Weights in memory at each step: all of them, or those of the step and of the next one that has any."""
    own = [partition.weights(head) for head in order]
    streamed = _streamed(partition, order)
    if not streamed:
        return [sum(own)] * len(order)
    return [own[place] + own[min((s for s in streamed if s > place), default=streamed[0])] for place in range(len(own))]


def _live_bytes(partition: _Partition, order: list[int]) -> list[float]:
    """What is held at each step of outputs that stay on the chip: from the step that makes one to its last reader."""
    place = {head: number for number, head in enumerate(order)}
    live = [0.0] * len(order)
    for head in order:
        last = max((place[reader] for reader in partition.readers(head)), default=place[head])
        for step in range(place[head], last + 1):
            live[step] += partition.held_bytes(head)
    return live


def _buffer_bytes(partition: _Partition, number: int) -> float:
    """Two copies of every output that leaves the chip; of every input two for each level that it comes from below."""
    sizes = partition.operators.output_bytes
    buffered = 0.0
    for operator, elsewhere in partition.elsewhere.items():
        if partition.chip[operator] == number and (elsewhere or not partition.consumers[operator]):
            buffered += 2 * sizes[operator]
        if number in elsewhere:
            buffered += 2 * (partition.level[number] - partition.level[partition.chip[operator]]) * sizes[operator]
    return float(buffered)


def _effect(partition: _Partition, number: int) -> float:
    """Lognormal, by the set of operators on the chip: Box and Muller's normal number of two hashes of it."""
    members = [v for v in partition.elsewhere if partition.chip[v] == number]
    total = sum(int(partition.operators.fingerprint[v]) for v in members)
    first, second = ((mixed(total ^ salt) >> 11) * 2.0**-53 for salt in EFFECT_SALTS)
    normal = math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)
    return math.exp(partition.package.effect_sigma * normal)


def _transfers(partition: _Partition, messages: list[list[int]]) -> list[Transfer]:
    """One interval: each link carries its own chip's outputs first, then what comes over the link before, in order."""
    transfers: list[Transfer] = []
    carried: list[Transfer] = []
    for link, own in enumerate(messages):
        now_s, passed = 0.0, []
        arriving = [(v, 0.0) for v in own]
        arriving += [
            (each.operator, each.start_s + partition.package.hop_s)
            for each in carried
            if max(partition.elsewhere[each.operator]) > link
        ]
        for operator, ready_s in arriving:
            start_s = max(now_s, ready_s)
            now_s = start_s + partition.transfer_s(operator)
            passed.append(Transfer(operator, link, start_s, now_s + partition.package.hop_s))
        transfers += passed
        carried = passed
    return transfers


def _latency_s(partition: _Partition, stages: tuple[SimulatedChip, ...], messages: list[list[int]]) -> float:
    """One input alone: a chip begins when all that it reads is there; links carry first what comes from below."""
    hop_s = partition.package.hop_s
    carried: list[Transfer] = []
    finish_s = 0.0
    for stage in stages:
        link = stage.chip
        arrived = [each.end_s for each in carried if link in partition.elsewhere[each.operator]]
        end_s = max(arrived, default=0.0) + stage.seconds
        finish_s = max(finish_s, end_s)
        going = [each for each in carried if max(partition.elsewhere[each.operator]) > link]
        now_s, passed = 0.0, []
        for operator, ready_s in [
            *((each.operator, each.start_s + hop_s) for each in going),
            *((v, end_s) for v in messages[link]),
        ]:
            start_s = max(now_s, ready_s)
            now_s = start_s + partition.transfer_s(operator)
            passed.append(Transfer(operator, link, start_s, now_s + hop_s))
        carried = passed
    return finish_s
