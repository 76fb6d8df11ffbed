"""Sites to begin with where moves are too few to anneal from random ones: units in the order of the data, on a path.

Units that exchange data are then near each other from the start, and annealing from a low temperature repairs the rest.
"""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Integers, Pipeline
from dse.fabric.search.sites import require_sites
from hardware.fabric_grid import Grid
from hardware.fabrics import Fabric

BAND_COLUMNS = 4
"""Columns of a band of the grid. The path goes down one band, row by row, and up the next one."""


def ordered_sites(pipeline: Pipeline, fabric: Fabric) -> Integers:
    """A site for every unit, [U].

    Compute and memory units take the sites of their kind along the path, those of earlier stages first. Units for input
    and output take the free site that is nearest to the middle of the units that they exchange data with.

    Raises:
        SitesMissingError: the fabric has too few sites of some kind.
    """
    require_sites(pipeline, fabric)
    grid = fabric.grid
    kinds = [unit.kind.site for unit in pipeline.units]
    waiting = {kind: iter(_along_path(grid, np.array(grid.sites(kind)))) for kind in ("compute", "memory")}
    site = np.full(len(kinds), -1, dtype=np.int64)
    stage = _stages(pipeline)
    for unit in sorted(range(len(kinds)), key=lambda each: (stage[each], each)):
        if kinds[unit] != "io":
            site[unit] = next(waiting[kinds[unit]])
    _place_outer(pipeline, grid, site)
    return site


def _along_path(grid: Grid, sites: Integers) -> list[int]:
    """The sites in the order of the path."""
    row, column = np.divmod(grid.site_cell[sites], grid.columns)
    band = column // BAND_COLUMNS
    along = np.where(band % 2 == 0, row, grid.rows - 1 - row)
    order: list[int] = sites[np.lexsort((column, along, band))].tolist()
    return order


def _stages(pipeline: Pipeline) -> list[int]:
    """The stage of every unit: behind all that send to it, but no earlier than just before its first reader, [U]."""
    readers: dict[int, set[int]] = defaultdict(set)
    for net in pipeline.nets:
        readers[net.source] |= {sink.unit for sink in net.sinks}
    stage = [0] * len(pipeline.units)
    for unit in pipeline.order:
        for reader in readers[unit]:
            stage[reader] = max(stage[reader], stage[unit] + 1)
    for unit in reversed(pipeline.order):
        if readers[unit]:
            stage[unit] = min(stage[reader] for reader in readers[unit]) - 1
    return stage


def _place_outer(pipeline: Pipeline, grid: Grid, site: Integers) -> None:
    """Sites for input and output units, whose partners have theirs."""
    row, column = np.divmod(grid.site_cell, grid.columns)
    partners: dict[int, set[int]] = defaultdict(set)
    for net in pipeline.nets:
        for sink in net.sinks:
            partners[net.source].add(sink.unit)
            partners[sink.unit].add(net.source)
    free = grid.sites("io")
    for unit in np.flatnonzero(site < 0).tolist():
        near = site[[each for each in sorted(partners[unit]) if site[each] >= 0]]
        middle = (row[near].mean(), column[near].mean()) if len(near) else (0.0, 0.0)
        distance: npt.NDArray[np.float64] = abs(row[free] - middle[0]) + abs(column[free] - middle[1])
        site[unit] = free.pop(int(distance.argmin()))
