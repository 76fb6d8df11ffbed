"""Networks between accelerators: what a transfer and a ring collective cost.

Every collective is a ring: ``steps`` messages in sequence, each of ``bytes / participants``. A message may be
split over several channels (rings that run side by side); each channel adds its latency to every step and brings its
share of the bandwidth, so more channels pay only for larger messages:

    time = launch + min over n in [1, channels] of (steps · n · latency + wire_bytes · channels / (n · bandwidth))

For each n this is an α–β line, and the minimum of lines that rise with the bytes rises too. A network of one channel
is the plain α–β model, ``launch + steps · latency + wire_bytes / bandwidth``.

A network may have levels: nodes, joined inside by a network of their own, are joined by an outer one. Accelerators are
ranked node by node. With tensor parallelism innermost, then data, then the pipeline (Megatron: Narayanan et al., SC
2021), the members of a tensor-parallel group are neighbours, and replicas are as many ranks apart as a group is wide.
A collective that spans nodes runs in parts (Mikami et al. 2018, 2D-torus all-reduce; Cho et al., BlueConnect, MLSys
2019): with g of its members in a node, an all-reduce is a reduce-scatter inside, an all-reduce across nodes of the g-th
part that each member then holds, and an all-gather inside. Each part is a ring.

The links of a level may belong to a node and not to an accelerator: servers with one network card. Accelerators of a
node that communicate across nodes at once share them: the g members of one group, which work on g parts, and members
of other groups that run the same collective at the same time.

One set of constants for every kind of collective is what libraries' own planners have. Where whole collectives were
timed kind by kind, a level has constants of their own for these kinds (:class:`TimedCollective`): a part that is flat,
one for each step of the ring, and a rate,

    time = launch(kind) + steps · latency(kind) + wire_bytes / bandwidth(kind)

Steps and bytes are those of the ring above. A kind that takes as long among few as among many has no latency of a step:
an all-to-all through switches. Kinds that were not timed, transfers and permutes have the constants of the level. Each
part of a collective across nodes has those of its own kind at its own level.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from hardware.operations import CollectiveKind


class Ring(NamedTuple):
    """Messages in sequence over the links of one level, all of the same size.

    Attributes:
        launch_s, latency_s, bytes_per_s, channels: of the level, or of the kind of collective there (:class:`Line`).
        steps: messages of an accelerator.
        share: of the array in each message, counted as so many more bytes where the message has a part of the links.
    """

    launch_s: float
    latency_s: float
    bytes_per_s: float
    channels: int
    steps: int
    share: float

    def seconds(self, size_bytes: float) -> float:
        """Of an array of so many bytes; 0 for nothing.

        Raises:
            ValueError: ``size_bytes`` is negative.
        """
        step_bytes = size_bytes * self.share
        if step_bytes < 0:
            raise ValueError(f"`size_bytes >= 0` must hold, but got {size_bytes}")
        if self.steps == 0 or step_bytes == 0:
            return 0.0
        used = used_channels(step_bytes, self.bytes_per_s, self.latency_s, self.channels)
        channel_s = step_bytes * self.channels / (used * self.bytes_per_s)
        return self.launch_s + self.steps * (used * self.latency_s + channel_s)


class Line(NamedTuple):
    """What prices a message over the links of a level (:class:`Network`)."""

    launch_s: float
    latency_s: float
    bytes_per_s: float
    channels: int


@dataclass(frozen=True)
class TimedCollective:
    """Constants of one kind of collective over the links of a level, where whole ones were timed.

    ``rate_share`` is their rate over ``bytes_per_s`` of the level (above 1 where they are faster), so that links twice
    as fast make it twice as fast.
    """

    kind: CollectiveKind
    launch_s: float
    latency_s: float
    rate_share: float

    def __post_init__(self) -> None:
        if self.kind == "permute":
            raise ValueError("`kind` must not be permute, which is a transfer")
        for name, value in (("latency_s", self.latency_s), ("launch_s", self.launch_s)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{name}` must be finite and not negative, but got {value}")
        if not (math.isfinite(self.rate_share) and self.rate_share > 0):
            raise ValueError(f"`rate_share` must be positive and finite, but got {self.rate_share}")


_OF_TIMED = ("timed", "timed_on", "timed_ranks")
"""Fields of a network that say nothing where no collective was timed."""


@dataclass(frozen=True)
class Network:
    """A network as one accelerator sees it: a flat one, or the outermost of several levels.

    ``bytes_per_s`` is the sustained rate of one accelerator in one direction, all its links together. Rings are taken
    to use all links (several rings side by side where the links lead to different neighbours). ``latency_s`` is paid
    per step and channel, ``launch_s`` once per transfer or collective. ``additions_included``: the constants are of
    measured collectives, whose time holds their additions too (of levels, those of the innermost one, where
    tensor-parallel groups are). ``inner`` is the network inside the nodes of ``inner_accelerators`` that this one
    joins; a flat network has none. ``domain_accelerators`` is how many accelerators its links join at most (0: any
    number); a machine of more is priced as if they joined them all, which whoever answers for it has to say.

    ``shared``: the links, and so ``bytes_per_s``, belong to a node; on a flat network an accelerator is a node.
    ``transfer_share`` is the share of ``bytes_per_s`` that one transfer between two accelerators gets when it is alone
    (less than 1 where links lead to different neighbours, or one connection does not fill the link), ``ring_share``
    the share that each member of a collective brings: a group of k uses min(1, k · ``ring_share``) of the links.
    ``timed`` has the kinds of collectives that were timed over the links of this level, each once; ``timed_on`` is the
    accelerator that they were timed on ("": not known), among ``timed_ranks`` at most.
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    launch_s: float = 0.0
    channels: int = 1
    additions_included: bool = False
    inner: "Network | None" = None
    inner_accelerators: int = 0
    domain_accelerators: int = 0
    shared: bool = False
    transfer_share: float = 1.0
    ring_share: float = 1.0
    timed: tuple[TimedCollective, ...] = ()
    timed_on: str = ""
    timed_ranks: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bytes_per_s) and self.bytes_per_s > 0):
            raise ValueError(f"`bytes_per_s` must be positive and finite, but got {self.bytes_per_s}")
        for name, value in (("latency_s", self.latency_s), ("launch_s", self.launch_s)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{name}` must be finite and not negative, but got {value}")
        if self.domain_accelerators < 0:
            raise ValueError(f"`domain_accelerators` must not be negative, but got {self.domain_accelerators}")
        for name, value in (("transfer_share", self.transfer_share), ("ring_share", self.ring_share)):
            if not 0 < value <= 1:
                raise ValueError(f"`0 < {name} <= 1` must hold, but got {value}")
        if self.channels < 1:
            raise ValueError(f"`channels` must be at least 1, but got {self.channels}")
        if (self.inner is None) != (self.inner_accelerators == 0) or self.inner_accelerators < 0:
            raise ValueError(f"`inner_accelerators` must be given with `inner`, but got {self.inner_accelerators}")
        if len({each.kind for each in self.timed}) < len(self.timed):
            raise ValueError("`timed` must have each kind of collective exactly once")

    def __repr__(self) -> str:
        """All fields; without ``timed`` where nothing was, so that digests stay those from before there was any."""
        shown = (each.name for each in fields(self) if each.name not in _OF_TIMED or self.timed)
        return f"Network({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def document(self) -> dict[str, Any]:
        """All fields in JSON types; without ``timed`` where nothing was, as :meth:`__repr__`."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        document["inner"] = None if self.inner is None else self.inner.document()
        of_timed = {name: document.pop(name) for name in _OF_TIMED}
        timed = [asdict(each) for each in self.timed]
        return document | of_timed | {"timed": timed} if timed else document

    def untimed(self, kind: CollectiveKind) -> "Network":
        """The network with the constants of its level for such collectives."""
        return replace(self, timed=tuple(each for each in self.timed if each.kind != kind))

    def with_timed_rates(self, factor: float) -> "Network":
        """The network with ``factor`` times the rates of timed collectives, at every level."""
        timed = tuple(replace(each, rate_share=factor * each.rate_share) for each in self.timed)
        inner = None if self.inner is None else self.inner.with_timed_rates(factor)
        return replace(self, timed=timed, inner=inner)

    def line(self, kind: CollectiveKind) -> Line:
        """What prices the steps of such a collective over the links of this level."""
        for each in self.timed:
            if each.kind == kind:
                return Line(each.launch_s, each.latency_s, each.rate_share * self.bytes_per_s, 1)
        return Line(self.launch_s, self.latency_s, self.bytes_per_s, self.channels)

    @property
    def node_accelerators(self) -> int:
        """Accelerators of a node, the innermost level; 0 on a flat network."""
        return 0 if self.inner is None else self.inner.node_accelerators or self.inner_accelerators

    @property
    def node_bytes_per_s(self) -> float:
        """The rate inside a node, as ``bytes_per_s`` is the rate between them; 0 on a flat network."""
        return 0.0 if self.inner is None else self.inner.node_bytes_per_s or self.inner.bytes_per_s

    @property
    def accelerator_bytes_per_s(self) -> float:
        """What of ``bytes_per_s`` each accelerator has when all of its node communicate across nodes at once."""
        return self.bytes_per_s / max(1, self.inner_accelerators) if self.shared else self.bytes_per_s

    @property
    def all_bytes_per_s(self) -> float:
        """The rates of all levels together: what leaves and enters an accelerator, each way, if all links are busy."""
        return self.accelerator_bytes_per_s + (0.0 if self.inner is None else self.inner.all_bytes_per_s)

    def spanning(self, accelerators: int) -> "Network":
        """The network that a machine of so many accelerators needs: without the levels above the node that holds it.

        Raises:
            ValueError: ``accelerators`` is below 1.
        """
        if accelerators < 1:
            raise ValueError(f"`accelerators >= 1` must hold, but got {accelerators}")
        if self.inner is None or accelerators > self.inner_accelerators:
            return self
        return self.inner.spanning(accelerators)

    def spread_s(self, token_bytes: float, reached: Callable[[int], float], participants: int) -> float:
        """Seconds to send every accelerator's tokens to where they are wanted, once to each node of every level.

        A token crosses the links between nodes once for each node that holds a receiver, and is copied inside (DeepEP;
        DeepSeek-V3, 2024, section 3.2.2). All levels work at once, so the slowest decides. Of neighbouring
        accelerators, all of which send.

        Args:
            token_bytes: of the tokens of one accelerator.
            reached: of so many equal parts of the participants, those that a token goes to; mean.
            participants: accelerators; 1 takes no time.

        Raises:
            ValueError: a size is negative, or ``participants`` below 1.
        """
        level: Network | None = self.spanning(participants)
        members, slowest = participants, 0.0
        while level is not None and members > 1:
            inside = min(members, level.inner_accelerators or 1)
            parts = math.ceil(members / inside)
            links = max(1, level.inner_accelerators) if level.shared else 1
            alone = replace(level, inner=None, inner_accelerators=0)
            size_bytes = parts * links * token_bytes * reached(math.ceil(participants / inside))
            slowest = max(slowest, alone.collective_s("all_to_all", size_bytes, parts))
            level, members = level.inner, inside
        return slowest

    def transfer_s(self, size_bytes: float, inside: bool = False) -> float:
        """Seconds to send ``size_bytes`` from one accelerator to another, alone on the links; 0 for nothing.

        They are in different nodes, or, with ``inside``, in the same one (of the innermost level).

        Raises:
            ValueError: ``size_bytes`` is negative.
        """
        if inside and self.inner is not None:
            return self.inner.transfer_s(size_bytes, inside)
        return self._transfer(1, 1 / self.transfer_share).seconds(size_bytes)

    def stage_transfer_s(self, size_bytes: float, senders: range, receivers: range) -> float:
        """Seconds to send an array from the accelerators of one pipeline stage to those of the next; 0 for nothing.

        The ``senders`` (ranks) hold ``size_bytes`` in equal consecutive parts and the ``receivers`` are to hold it in
        as many equal parts as they are, so that each sends to those whose parts overlap its own. Messages over
        different levels, or between different accelerators, are sent at the same time; an accelerator sends and
        receives its own in sequence over its links of a level, and accelerators of a node share links that
        are shared. The slowest decides. From one accelerator to one other this is :meth:`transfer_s`; it never falls
        as bytes grow, and is the same in the other direction. What an accelerator has already is not sent.

        Raises:
            ValueError: ``size_bytes`` is negative, or a stage has no accelerators.
        """
        return max((ring.seconds(size_bytes) for ring in self.stage_transfer_rings(senders, receivers)), default=0.0)

    def stage_transfer_rings(self, senders: range, receivers: range) -> tuple[Ring, ...]:
        """The messages of :meth:`stage_transfer_s`, of which the slowest decides; none where nothing is sent.

        Raises:
            ValueError: a stage has no accelerators.
        """
        if not senders or not receivers:
            raise ValueError(f"each stage must have at least one accelerator, but got {senders} and {receivers}")
        levels = self._levels
        rings: dict[Ring, None] = {}
        loads: dict[tuple[int, str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for sender, receiver, share in _messages(senders, receivers):
            depth = self._between(sender, receiver)
            level = levels[depth]
            rings[level._transfer(1, share / level.transfer_share)] = None
            for side, rank in (("sends", sender), ("receives", receiver)):
                owner = rank // max(1, level.inner_accelerators) if level.shared else rank
                loads[depth, side, owner][rank].append(share)
        for (depth, _, _), by_rank in loads.items():
            messages = max(map(len, by_rank.values()))
            rings[levels[depth]._transfer(messages, sum(map(sum, by_rank.values())) / messages)] = None
        return tuple(rings)

    @property
    def _levels(self) -> "tuple[Network, ...]":
        """From the outermost to the innermost."""
        return (self,) if self.inner is None else (self, *self.inner._levels)

    def _between(self, one: int, other: int) -> int:
        """The depth of the level whose links join two ranks; 0 is this one."""
        if self.inner is None or one // self.inner_accelerators != other // self.inner_accelerators:
            return 0
        return 1 + self.inner._between(one, other)

    def collective_s(
        self, kind: CollectiveKind, size_bytes: float, participants: int, stride: int = 1, groups: int = 1
    ) -> float:
        """Seconds of a collective over ``participants`` accelerators, ``stride`` ranks apart; 0 for a single one.

        ``size_bytes`` is the full tensor on each of them: the input of an all-reduce or a reduce-scatter, the output
        of an all-gather, what each sends to another one in a permute; of an all-to-all it is what all of them hold
        together, each a part. On one level they form a ring: an all-reduce takes 2 · (participants − 1) steps, a
        permute one, the others participants − 1; each step moves ``size_bytes / participants`` (Thakur, Rabenseifner,
        Gropp 2005, section 4), the whole of a permute, or, of an all-to-all, what one of them has for another,
        ``size_bytes / participants²``. Of several levels, each takes its part; the first participant is the first of
        its node, and the last node counts as full. Additions are not in it, unless ``additions_included``.

        An all-to-all across nodes goes in two parts: inside a node each collects what one of the members of every other
        node is to have, and then it is exchanged with the members at the same place in other nodes. A permute is
        priced as if every member sent to another node.

        ``groups`` collectives run at once, of neighbouring ranks: r, r + 1, … are members of different ones. They
        share links that are shared. Where every rank of a machine takes part, there are ``stride`` of them.

        Raises:
            ValueError: ``size_bytes`` is negative, or ``participants``, ``stride`` or ``groups`` below 1.
        """
        for name, count in (("participants", participants), ("stride", stride), ("groups", groups)):
            if count < 1:
                raise ValueError(f"`{name} >= 1` must hold, but got {count}")
        together = min(participants, max(1, self.inner_accelerators // stride))
        if self.inner is not None and together == participants > 1:
            return self.inner.collective_s(kind, size_bytes, participants, stride, groups)
        nodes = math.ceil(participants / together)
        sharing = min(max(1, self.inner_accelerators), groups * together) if self.shared else 1
        if self.inner is None or together == 1:
            return self._level_s(kind, size_bytes, nodes, sharing)
        inside_bytes = size_bytes / nodes if kind == "all_to_all" else size_bytes
        inside = [
            self.inner.collective_s(part, inside_bytes, together, stride, groups)
            for part in _PARTS_INSIDE.get(kind, (kind,))
        ]
        if kind == "permute":
            return max(*inside, self._level_s(kind, size_bytes, nodes, sharing))
        return sum(inside) + self._level_s(kind, size_bytes / together, nodes, sharing)

    def all_reduce_rings(self, ranks: range) -> tuple[Ring, ...]:
        """The parts of an all-reduce over neighbouring ``ranks``, in sequence; none for a single one.

        Their seconds are those of :meth:`collective_s` where the first rank is the first of a node. Elsewhere a node
        with fewer of the ranks counts as full too.
        """
        return self._rings("all_reduce", ranks)

    def _rings(self, kind: CollectiveKind, ranks: range) -> tuple[Ring, ...]:
        if len(ranks) < 2:
            return ()
        if self.inner is None:
            return (self._ring(kind, len(ranks), 1),)
        width = self.inner_accelerators
        inside = [
            range(max(ranks.start, first), min(ranks.stop, first + width))
            for first in range(ranks.start // width * width, ranks.stop, width)
        ]
        largest = max(inside, key=len)
        within = range(largest.start % width, largest.start % width + len(largest))
        if len(inside) == 1:
            return self.inner._rings(kind, within)
        parts = [self.inner._rings(part, within) for part in _PARTS_INSIDE.get(kind, (kind,))]
        across = self._ring(kind, len(inside), len(largest) if self.shared else 1, 1 / len(largest))
        return (*sum(parts, ()), across)

    def _level_s(self, kind: CollectiveKind, size_bytes: float, participants: int, sharing: int) -> float:
        """A ring over the links of this level, of which ``sharing`` rings have the same ones."""
        return self._ring(kind, participants, sharing).seconds(size_bytes)

    def _ring(self, kind: CollectiveKind, participants: int, sharing: int, part: float = 1.0) -> Ring:
        """Such a ring for a ``part`` of an array."""
        if kind == "permute":
            return self._transfer(min(1, participants - 1), part / min(1 / sharing, self.transfer_share))
        share = min(1.0, participants * self.ring_share) / sharing
        steps = (2 if kind == "all_reduce" else 1) * (participants - 1)
        return Ring(*self.line(kind), steps, part / (participants ** (2 if kind == "all_to_all" else 1) * share))

    def _transfer(self, steps: int, share: float) -> Ring:
        return Ring(self.launch_s, self.latency_s, self.bytes_per_s, self.channels, steps, share)


_PARTS_INSIDE: Mapping[CollectiveKind, tuple[CollectiveKind, ...]] = {"all_reduce": ("reduce_scatter", "all_gather")}
"""What runs inside nodes of a collective across them, where it is not the same collective."""


def _messages(senders: range, receivers: range) -> Iterator[tuple[int, int, float]]:
    """(sender, receiver, share of the array) for all parts that overlap and are not there already."""
    sending, receiving = len(senders), len(receivers)
    place = 0  # in shares of 1 / (sending · receiving)
    while place < sending * receiving:
        sender, receiver = place // receiving, place // sending
        end = min((sender + 1) * receiving, (receiver + 1) * sending)
        if senders[sender] != receivers[receiver]:
            yield senders[sender], receivers[receiver], (end - place) / (sending * receiving)
        place = end


def used_channels(step_bytes: float, bytes_per_s: float, latency_s: float, channels: int) -> float:
    """The number of channels that carries a step of ``step_bytes`` fastest.

    Between 1 and ``channels``, and not rounded: libraries also split a message unevenly.
    """
    if latency_s == 0:
        return float(channels)
    best = math.sqrt(step_bytes * channels / (bytes_per_s * latency_s))
    return min(max(best, 1.0), float(channels))
