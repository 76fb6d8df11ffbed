"""Sites for the units of a pipeline: whether there are enough, some at random, and which are near to each other."""

from collections.abc import Mapping
from typing import get_args

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Integers, Pipeline
from dse.run.remembered import while_alive
from hardware.fabric_grid import Grid, SiteKind
from hardware.fabrics import Fabric

SITE_KINDS: tuple[SiteKind, ...] = get_args(SiteKind)


class SitesMissingError(ValueError):
    """A fabric has too few sites for some units.

    Attributes:
        what: does not fit.
        fabric: its name.
        needed: sites at least, by kind.
        available: sites of the fabric that may be used, by kind.
        missing: how many sites, by kind; kinds with enough of them are left out.
    """

    def __init__(
        self, what: str, fabric: str, needed: Mapping[SiteKind, int], available: Mapping[SiteKind, int]
    ) -> None:
        self.what, self.fabric = what, fabric
        self.needed, self.available = dict(needed), dict(available)
        self.missing = {kind: needed[kind] - available[kind] for kind in SITE_KINDS if needed[kind] > available[kind]}
        parts = [
            f"{many} {kind} unit{' is' if many == 1 else 's are'} missing "
            f"({needed[kind]} needed, {available[kind]} available)"
            for kind, many in self.missing.items()
        ]
        super().__init__(f"{what} does not fit on {fabric}: {', '.join(parts)}")


def require_sites(pipeline: Pipeline, fabric: Fabric) -> None:
    """Raises :class:`SitesMissingError` unless the fabric has a site for every unit."""
    kinds = [unit.kind.site for unit in pipeline.units]
    needed = {kind: kinds.count(kind) for kind in SITE_KINDS}
    available = {kind: fabric.grid.site_kind.count(kind) for kind in SITE_KINDS}
    if any(needed[kind] > available[kind] for kind in SITE_KINDS):
        raise SitesMissingError(f"a pipeline of {len(kinds)} units", fabric.name, needed, available)


def random_sites(pipeline: Pipeline, fabric: Fabric, generator: np.random.Generator) -> Integers:
    """A site for every unit at random, [U]."""
    free = {kind: generator.permutation(fabric.grid.sites(kind)).tolist() for kind in SITE_KINDS}
    return np.array([free[unit.kind.site].pop() for unit in pipeline.units], dtype=np.int64)


@while_alive  # chains and rounds of one fabric ask for the same, which may be a hundred megabytes
def near_sites(grid: Grid) -> tuple[npt.NDArray[np.int32], Integers]:
    """For every site the others of its kind, nearest first, of equal ones in order; and how many."""
    row, column = np.divmod(grid.site_cell, grid.columns)
    of_kind = {kind: np.array(grid.sites(kind), dtype=np.int64) for kind in set(grid.site_kind)}
    count = np.array([len(of_kind[kind]) - 1 for kind in grid.site_kind], dtype=np.int64)
    near = np.zeros((len(count), max(1, count.max(initial=0))), dtype=np.int32)
    for site, kind in enumerate(grid.site_kind):
        others = of_kind[kind][of_kind[kind] != site]
        distance = abs(row[others] - row[site]) + abs(column[others] - column[site])
        near[site, : len(others)] = others[np.argsort(distance, kind="stable")]
    return near, count


@while_alive
def sites_around(grid: Grid) -> tuple[npt.NDArray[np.int32], Integers]:
    """For every kind and cell, the sites of that kind, nearest first, [K, C, ·]; and how many, [K]."""
    row, column = np.divmod(np.arange(grid.cells), grid.columns)
    of_kind = [np.array(grid.sites(kind), dtype=np.int64) for kind in SITE_KINDS]
    count = np.array([len(sites) for sites in of_kind], dtype=np.int64)
    around = np.zeros((len(SITE_KINDS), grid.cells, max(1, count.max())), dtype=np.int32)
    for kind, sites in enumerate(of_kind):
        cells = grid.site_cell[sites]
        distance = abs(row[:, None] - row[cells]) + abs(column[:, None] - column[cells])
        around[kind, :, : len(sites)] = sites[np.argsort(distance, axis=1, kind="stable")]
    return around, count
