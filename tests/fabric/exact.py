"""The cheapest placement under one rule, proven: CP-SAT over sites, for small pipelines on small grids.

It takes rules that are linear in the links of routes, or the largest of such sums, with routes along rows or columns
first; so it is an oracle for :mod:`dse.fabric.search.anneal`, and no placer.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.fabric.model import Pipeline, Placement
from dse.fabric.search.routing import Routing, form_of, routed, ways_of
from dse.fabric.search.sites import require_sites
from dse.run.progress import StopSignal, never_stop
from hardware.fabrics import Fabric

LinearRule = Literal["hops", "wirelength", "max_load"]


@dataclass(frozen=True, eq=False)
class Proven:
    """What CP-SAT found.

    Attributes:
        placement: the best one.
        value: of the rule for it; for ``max_load`` in flits of the busiest link, whatever its tracks.
        bound: no placement has less.
    """

    placement: Placement
    value: int
    bound: int


def cheapest(
    pipeline: Pipeline,
    fabric: Fabric,
    rule: LinearRule,
    routing: Routing = "xy",
    deterministic_time: float = 60.0,
    stop: StopSignal = never_stop,
) -> Proven:
    """The placement for which ``rule`` is least; optimal where value and bound are equal.

    Args:
        pipeline: what is placed.
        fabric: where.
        rule: what is minimised.
        routing: ``xy`` or ``yx``.
        deterministic_time: when to end, in CP-SAT's deterministic seconds.
        stop: called meanwhile; a reason ends the search.

    Raises:
        SitesMissingError: the fabric has too few sites of some kind.
        ValueError: routes by congestion, which depend on each other; no placement within the limit.
    """
    if routing == "congestion":
        raise ValueError('`routing` must be "xy" or "yx", but got "congestion"')
    require_sites(pipeline, fabric)
    problem = _Problem(pipeline, fabric, form_of(routing))
    problem.minimise(rule)
    solver, status = solved(problem.model, deterministic_time, stop=stop)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise ValueError(f"no placement was found in {deterministic_time:g} deterministic seconds")
    site = [next(site for site, is_there in seats.items() if solver.value(is_there)) for seats in problem.seats]
    value, bound = round(solver.objective_value), round(solver.best_objective_bound)
    return Proven(routed(pipeline, site, fabric, routing), value, bound)


class _Problem:
    """The model: a site for every unit, and for every net the links that it needs with these."""

    def __init__(self, pipeline: Pipeline, fabric: Fabric, form: int) -> None:
        self.pipeline, self.fabric, self.form = pipeline, fabric, form
        self.model = cp_model.CpModel()
        self.seats = [
            {site: self.model.new_bool_var(f"{unit.name} at {site}") for site in fabric.grid.sites(unit.kind.site)}
            for unit in pipeline.units
        ]
        for seats in self.seats:
            self.model.add_exactly_one(seats.values())
        for site in range(len(fabric.grid.site_kind)):
            self.model.add_at_most_one(seats[site] for seats in self.seats if site in seats)
        self.at_cell = [self._at_cell(unit) for unit in range(len(pipeline.units))]
        self.passes = [self._passes(number) for number in range(len(pipeline.nets))]

    def _at_cell(self, unit: int) -> dict[int, "cp_model.LinearExpr | cp_model.IntVar"]:
        """Whether a unit is at each cell: the sum over its sites there."""
        cells: dict[int, list[cp_model.IntVar]] = defaultdict(list)
        for site, is_there in self.seats[unit].items():
            cells[int(self.fabric.grid.site_cell[site])].append(is_there)
        return {cell: sum(options[1:], start=options[0]) for cell, options in cells.items()}

    def _passes(self, number: int) -> dict[int, cp_model.IntVar]:
        """Whether a net passes each link: it must where source and sink are at cells whose way has the link."""
        net = self.pipeline.nets[number]
        passes = {
            link: self.model.new_bool_var(f"net {number} on {link}") for link in range(len(self.fabric.grid.link_from))
        }
        for sink in net.sinks:
            for start, is_source in self.at_cell[net.source].items():
                for end, is_sink in self.at_cell[sink.unit].items():
                    for link in self._way(start, end):
                        self.model.add(passes[link] >= is_source + is_sink - 1)
        return passes

    def _way(self, start: int, end: int) -> list[int]:
        ways, links = ways_of(self.fabric), []
        while end != start:
            links.append(int(ways.into[self.form, start, end]))
            end = int(ways.link_from[links[-1]])
        return links

    def minimise(self, rule: LinearRule) -> None:
        """Make a rule the objective."""
        nets = list(zip(self.pipeline.nets, self.passes, strict=True))
        if rule == "max_load":
            largest = self.model.new_int_var(0, sum(net.flits for net in self.pipeline.nets), "largest load")
            for link in range(len(self.fabric.grid.link_from)):
                self.model.add(largest >= sum(net.flits * passes[link] for net, passes in nets))
            self.model.minimize(largest)
        else:
            weight = [net.flits if rule == "wirelength" else 1 for net, _ in nets]
            self.model.minimize(
                sum(each * sum(passes.values()) for each, (_, passes) in zip(weight, nets, strict=True))
            )
