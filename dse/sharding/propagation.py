"""Decisions taken one at a time, what follows from each, and the way back: the episodes of the Auto-MAP paper.

A decision splits a dimension of a value along one mesh axis, or leaves it whole. It holds for the whole linkage group
(:mod:`dse.sharding.linkage`). Where a group is split, every other group that meets it in a value or an operation
has to be whole. Groups that cannot be split at all are whole from the start.

Propagation ends in one of three ways (paper, section 3.2): all groups are decided, nothing more follows, or the
decision conflicts with what is known. A conflict changes nothing. Every deduction remembers its premise, so that
:meth:`Propagation.reason` says why a dimension is split or whole.

A decision costs O(groups that it meets), all decisions of an episode together O(meetings).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from dse.graph.step import StepGraph
from dse.sharding.factors import Place
from dse.sharding.linkage import Linkage, LinkageGroup, Meeting


class Ending(Enum):
    """How propagation ended."""

    COMPLETE = "everything is decided"
    OPEN = "nothing more follows"
    CONFLICT = "the decision conflicts with what is known"


@dataclass(frozen=True)
class _Known:
    """What is known of a group: whether it is split, and why."""

    is_split: bool
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What a decision led to.

    Attributes:
        ending: of propagation.
        groups: decided by it: its own group first, then those that follow; none in a conflict.
        conflict: what it conflicts with; empty without a conflict.
    """

    ending: Ending
    groups: tuple[int, ...] = ()
    conflict: str = ""


@dataclass
class Propagation:
    """The state of an episode on one mesh axis.

    Args:
        graph: the step.
        linkage: its linkage groups.
        parts: devices along the axis.
    """

    graph: StepGraph
    linkage: Linkage
    parts: int
    _known: dict[int, _Known] = field(init=False, default_factory=dict)
    _steps: list[tuple[int, ...]] = field(init=False, default_factory=list)
    _meetings: dict[int, list[Meeting]] = field(init=False)

    def __post_init__(self) -> None:
        self._meetings = defaultdict(list)
        for meeting in self.linkage.meetings:
            for number in meeting.groups:
                self._meetings[number].append(meeting)
        for number, group in enumerate(self.linkage.groups):
            if not group.allows(self.parts):
                self._known[number] = _Known(False, obstacle_text(self.graph, group, self.parts))

    def is_split(self, place: Place) -> bool | None:
        """Whether a dimension is split; None while that is open. Dimensions of one element are whole."""
        group = self.linkage.group_of.get(place)
        if group is None:
            return False
        known = self._known.get(group)
        return None if known is None else known.is_split

    def reason(self, place: Place) -> str:
        """Why a dimension is split or whole; empty while that is open."""
        group = self.linkage.group_of.get(place)
        if group is None:
            return "has one element or depends only on constants"
        known = self._known.get(group)
        return "" if known is None else known.reason

    @property
    def ending(self) -> Ending:
        """Whether anything is open."""
        return Ending.COMPLETE if len(self._known) == len(self.linkage.groups) else Ending.OPEN

    def decide(self, place: Place, split: bool) -> Outcome:
        """Split a dimension along the axis, or leave it whole, and all that follows.

        Args:
            place: (value, dimension).
            split: whether it is split.
        """
        name = self._name(place)
        group = self.linkage.group_of.get(place)
        if group is None or group in self._known:
            if self.is_split(place) == split:
                self._steps.append(())
                return Outcome(self.ending)
            return Outcome(Ending.CONFLICT, conflict=f"{name} {self.reason(place)}")
        self._known[group] = _Known(split, f"is {'split' if split else 'not split'} because of {name}")
        decided = [group]
        for meeting in self._meetings[group] if split else ():
            for other in meeting.groups:
                if other not in self._known:
                    where = self.graph.values[meeting.value].name
                    self._known[other] = _Known(
                        False, f"must not be split, because in {where} it is combined with {name}, which is split"
                    )
                    decided.append(other)
        self._steps.append(tuple(decided))
        return Outcome(self.ending, tuple(decided))

    def undo(self) -> None:
        """Take the last decision back that did not conflict, with all that followed from it.

        Raises:
            IndexError: there is none.
        """
        for group in self._steps.pop():
            del self._known[group]

    def _name(self, place: Place) -> str:
        names = {argument.value: argument.name for argument in self.graph.arguments}
        return f"dimension {place[1]} of {names.get(place[0], self.graph.values[place[0]].name)}"


def obstacle_text(graph: StepGraph, group: LinkageGroup, parts: int) -> str:
    """Why a group cannot be split into so many parts, to follow the name of one of its dimensions; empty if it can."""
    values, operations = graph.values, graph.operations
    if group.obstacles:
        obstacle = group.obstacles[0]
        operation = operations[obstacle.operation]
        more = f" and {len(group.obstacles) - 1:,} more operations" if len(group.obstacles) > 1 else ""
        where = f"dimension {obstacle.place[1]} of {values[obstacle.place[0]].name}"
        return f"must not be split in {values[operation.results[0]].name} ({operation.opcode}; {where}{more})"
    if group.doubled:
        return f"is tied to two dimensions of {values[group.doubled[0]].name}"
    if group.size % parts:
        other = min(group.places, key=lambda place: values[place[0]].dims[place[1]])
        size = values[other[0]].dims[other[1]]
        tied = f"is tied to dimension {other[1]} of {values[other[0]].name}"
        return f"{tied}, whose size {size:,} is not a multiple of {parts}"
    return ""
