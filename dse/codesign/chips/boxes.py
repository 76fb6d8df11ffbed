"""Boxes of chips: what they hold, the least that their chips take, and how they are split."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.silicon import Silicon, highest_clock_hz, least
from dse.plan.problem import PlanProblem
from dse.plan.template_kernels import RooflineKernels
from hardware.chip_space import CoreDesigns, Memory, least_designs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_ONE = CoreDesigns(*(np.ones(1, dtype=np.int64) for _ in range(6)))


@dataclass(frozen=True)
class Box:
    """Chips of one precision and domain: every combination of these, with any SRAM, node and number of dies.

    Attributes:
        precision: the narrowest of its plans.
        domain: packages of a domain.
        cores: positions among designs with the least SRAM.
        clocks, links: first and last position, of clocks and of link rates.
        memories: positions.
        realisations: positions of nodes and numbers of dies.
    """

    precision: str
    domain: int
    cores: Indices
    clocks: tuple[int, int]
    links: tuple[int, int]
    memories: tuple[int, ...]
    realisations: tuple[int, ...]


@dataclass(frozen=True)
class Corner:
    """What no chip of a box does better; arrays of shape [cores of the box].

    Attributes:
        box: with what may be within all limits alone.
        divisor: the least of each design.
        elements_hz, lanes_hz: the most of each, times its highest clock.
    """

    box: Box
    divisor: Floats
    elements_hz: Floats
    lanes_hz: Floats

    def part(self, chosen: NDArray[np.bool_]) -> "Corner":
        """Some of the designs."""
        arrays = (each[chosen] for each in (self.divisor, self.elements_hz, self.lanes_hz))
        return Corner(replace(self.box, cores=self.box.cores[chosen]), *arrays)


class BoxFigures:
    """What boxes of one problem take, worked out once for each realisation, memory and link rate."""

    def __init__(self, problem: ChipProblem) -> None:
        self.problem = problem
        self.cores: CoreDesigns = least_designs(problem.space)
        self.clocks_hz: Floats = np.array(sorted(problem.space.clock_hz.values))
        self.links = sorted(problem.space.scale_up.bytes_per_s.values)
        self.memories: tuple[Memory, ...] = problem.space.choices
        self.realisations = problem.realisations
        self._silicon = cache(self._silicon_of)
        self.least = cache(self._least_of)

    def roots(self) -> Iterator[Box]:
        """All chips."""
        for precision in self.problem.precisions:
            for domain in sorted(self.problem.space.scale_up.domains.values):
                yield Box(
                    precision,
                    domain,
                    np.arange(len(self.cores)),
                    (0, len(self.clocks_hz) - 1),
                    (0, len(self.links) - 1),
                    tuple(range(len(self.memories))),
                    tuple(range(len(self.realisations))),
                )

    def corner(self, box: Box) -> Corner | None:
        """The best corner of a box at its cheapest realisation; None where nothing is within the limits."""
        problem, limits = self.problem, self.problem.limits
        lowest, highest = (float(self.clocks_hz[each]) for each in box.clocks)
        divisor, clock = np.full((2, len(box.cores)), np.inf)
        clock[:] = 0.0
        possible = []
        for number in box.realisations:
            made = self.least(box.precision, number, box.memories, box.links[0])
            node_hz = highest_clock_hz(self.realisations[number].node)
            static, slope = made.static_w[box.cores], made.w_per_hz[box.cores]
            reached = np.minimum(min(highest, node_hz), (limits.power_w - static) / slope * (1 + 1e-9))
            fits = made.fits[box.cores] & (reached >= lowest) & (made.usd[box.cores] <= limits.usd)
            if not fits.any():
                continue
            possible.append(number)
            each = np.broadcast_to(problem.divisor(made, lowest), made.fits.shape)[box.cores]
            divisor = np.minimum(divisor, np.where(fits, each, np.inf))
            clock = np.maximum(clock, np.where(fits, reached, 0.0))
        if not possible:
            return None
        place = np.searchsorted(self.clocks_hz, clock, side="right") - 1
        clock = self.clocks_hz[np.maximum(place, 0)]
        highest_place = int(place[np.isfinite(divisor)].max())
        whole = Corner(
            replace(box, realisations=tuple(possible), clocks=(box.clocks[0], highest_place)),
            divisor,
            self.cores.elements[box.cores] * clock,
            self.cores.all_lanes[box.cores] * clock,
        )
        return whole.part(np.isfinite(divisor))

    def splits(self, corner: Corner) -> tuple[Box, ...] | None:
        """The two parts of a box along the axis on which its chips differ most; None where it is not to be split."""
        box = corner.box
        elements, lanes = self.cores.elements[box.cores], self.cores.all_lanes[box.cores]
        rates = [self.memories[each].bytes_per_s for each in box.memories]
        ratios = {
            "cores": _ratio(elements),
            "clocks": float(self.clocks_hz[box.clocks[1]] / self.clocks_hz[box.clocks[0]]),
            "memories": (max(rates) / min(rates)) ** 0.7 * 1.0001 ** (len(rates) - 1),
            "links": (self.links[box.links[1]] / self.links[box.links[0]]) ** 0.3,
            "lanes": _ratio(lanes) ** 0.3,
        }
        single = box.clocks[0] == box.clocks[1] and box.links[0] == box.links[1] and len(box.memories) == 1
        classes = len({*zip(elements.tolist(), lanes.tolist(), strict=True)})
        if single and (classes <= _CLASSES or max(ratios["cores"], _ratio(lanes)) == 1.0):
            return None
        axis = max(ratios, key=lambda name: ratios[name])
        parts: tuple[Box, ...]
        match axis:
            case "cores" | "lanes":
                values = elements if axis == "cores" else lanes
                low = values <= np.sqrt(float(values.min()) * float(values.max()))
                parts = replace(box, cores=box.cores[low]), replace(box, cores=box.cores[~low])
            case "memories":
                half = len(box.memories) // 2
                parts = replace(box, memories=box.memories[:half]), replace(box, memories=box.memories[half:])
            case "clocks":
                parts = tuple(replace(box, clocks=each) for each in _halves(*box.clocks))
            case _:
                parts = tuple(replace(box, links=each) for each in _halves(*box.links))
        return parts

    def at(
        self, model: int, precision: str, box: Box, elements_hz: Floats, lanes_hz: Floats
    ) -> tuple[PlanProblem, RooflineKernels]:
        """The plans of a model at the highest rates of a box, and what bounds their kernels."""
        memories = [self.memories[each] for each in box.memories]
        largest = max(memories, key=lambda memory: memory.total_gb)
        fastest = max(memories, key=lambda memory: memory.bytes_per_s)
        clock_hz = float(self.clocks_hz[box.clocks[1]])
        machine = self.problem.machines(_ONE, clock_hz, fastest)
        links = Links(self.links[box.links[1]], box.domain)
        asked = self.problem.plan_problem(model, precision, links, machine, largest)
        return asked, RooflineKernels(asked, machine, elements_hz / clock_hz, lanes_hz / clock_hz)

    def silicon(self, box: Box, cores: CoreDesigns, number: int) -> Silicon:
        """What whole designs of a box take, whose memory and link rate are single."""
        memory = self.memories[box.memories[0]]
        links = Links(self.links[box.links[0]], box.domain)
        return self.problem.silicon(cores, self.realisations[number], memory, links, box.precision)

    def _least_of(self, precision: str, number: int, memories: tuple[int, ...], link: int) -> Silicon:
        """Of several memories: whatever a chip takes rises with stacks of a kind and with their size."""
        smallest = [each for each in memories if not any(self._is_larger(each, other) for other in memories)]
        return least([self._silicon(precision, number, each, link) for each in smallest])

    def _is_larger(self, one: int, other: int) -> bool:
        """Whether a memory has at least the stacks and the size of another of its kind, and is not the same."""
        large, small = self.memories[one], self.memories[other]
        return one != other and large.kind == small.kind and large.stacks >= small.stacks and large.gb >= small.gb

    def _silicon_of(self, precision: str, number: int, memory: int, link: int) -> Silicon:
        links = Links(self.links[link], 1)
        how, which = self.realisations[number], self.memories[memory]
        return self.problem.silicon(self.cores, how, which, links, precision, any_sram=True)


_CLASSES = 8
"""Classes of designs that share elements and lanes, and are priced together."""


def _ratio(values: NDArray[np.int64]) -> float:
    return float(values.max() / values.min())


def _halves(first: int, last: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """A range of positions in two parts."""
    middle = (first + last) // 2
    return (first, middle), (middle + 1, last)
