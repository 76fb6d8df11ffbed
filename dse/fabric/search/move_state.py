"""What moves of units read and change (:mod:`dse.fabric.search.move_kernels`): a case, and a state of it.

Whole numbers are as small as they may be, since all of this should stay in the nearest cache.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.fabric.search.route_kernels import Tree, Ways
from dse.fabric.search.student_kernels import StudentCase, StudentRoom

HOPS, WIRELENGTH, MAX_LOAD, SQUARED_LOAD, EXPERT, ROUTE, OFF_CHIP = range(7)
"""Numbers of the terms, in the order of :class:`dse.fabric.rules.RuleTerms`."""

LOAD, BY_SPEED, BY_SHARING, PEAKS = 0, 1, 2, 3
"""Values of a link whose largest is a term: its load, and what it makes the worst net on it need by the rules
``expert`` and ``route``; how many there are."""

SHARING, RATE, MAX_FLITS, MAX_SLOTS, MAX_DEPTH, BURSTS, CRITICAL, COLUMNS = 0, 1, 2, 3, 4, 5, 6, 8
"""Columns of what is known of a link: nets on it, their flits per slot (in :data:`RATE_UNIT`, rounded up), and upper
bounds on a net's flits, slots of its source in isolation, and depth; bursts of the nets on it, and how critical they
are (in :data:`CRITICAL_UNIT`); columns with padding."""

RATE_UNIT = 2.0**-16
"""Flits a slot that count as 1; rates in this unit serve only to bound."""

CRITICAL_UNIT = 2.0**-8
"""How critical a net counts as 1 that is as critical as can be."""

NETS, LINKS, IS_SWITCHED = 0, 1, 2
"""What the last move has touched: how many nets and links; whether the nets' new routes are the ones in use."""

NOBODY = -1
"""What holds a free site."""


class Case(NamedTuple):
    """What does not change from move to move.

    Attributes:
        unit_first, unit_net: the nets of each unit, [U + 1] and flat.
        source: of every net, [N].
        sink_first, sink: its readers, [N + 1] and flat.
        flits: [N].
        isolated: slots of its source in isolation, [N].
        rate: flits in such a slot, [N].
        max_rate: the same in :data:`RATE_UNIT`, rounded up, [N].
        bursts: of a sample, [N].
        critical: the fourth power of the slots in isolation of the slowest unit at the net, in those of the slowest of
            all, in :data:`CRITICAL_UNIT`, [N].
        channel_slots: of each input and output unit, 0 for others, [U].
        site_cell: [S].
        site_channel: of input and output sites, −1 for others, [S].
        near: of every site, the sites of its kind by distance, itself left out, [S, ·]; ``near_count`` of them, [S].
        around: of every kind and cell, the sites of that kind by distance, [3, C, ·]; ``around_count`` of them, [3].
        unit_kind: the kind of site that each unit takes, as a number, [U].
        ways: shortest ways.
        form: of routes (:mod:`dse.fabric.search.route_kernels`).
        tracks, hop_slots: of the fabric.
        floor: the least that each peak can be, [3].
        scaled: weights divided by scales, [7].
        peak_counts: whether each peak has a weight, or the student reads it, [3].
        student: that corrects the rules; one of weight 0 where there is none.
    """

    unit_first: npt.NDArray[np.int64]
    unit_net: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    sink_first: npt.NDArray[np.int64]
    sink: npt.NDArray[np.int64]
    flits: npt.NDArray[np.int64]
    isolated: npt.NDArray[np.int64]
    rate: npt.NDArray[np.float64]
    max_rate: npt.NDArray[np.int64]
    bursts: npt.NDArray[np.int64]
    critical: npt.NDArray[np.int64]
    channel_slots: npt.NDArray[np.float64]
    site_cell: npt.NDArray[np.uint16]
    site_channel: npt.NDArray[np.int64]
    near: npt.NDArray[np.int32]
    near_count: npt.NDArray[np.int64]
    around: npt.NDArray[np.int32]
    around_count: npt.NDArray[np.int64]
    unit_kind: npt.NDArray[np.int64]
    ways: Ways
    form: int
    tracks: float
    hop_slots: int
    floor: npt.NDArray[np.float64]
    scaled: npt.NDArray[np.float64]
    peak_counts: npt.NDArray[np.bool_]
    student: StudentCase


class State(NamedTuple):
    """Where units and nets are, and what follows from it.

    Attributes:
        site: of every unit, [U].
        holder: the unit at every site, or :data:`NOBODY`, [S].
        route: links of every net, twice: in use and tried, [N, 2, C].
        length, depth: of these, and links to the farthest sink, [N, 2].
        used: which of both is in use, [N].
        load: flits of every link, [L].
        link: what else is known of it, [L, columns].
        member: the set of nets on it, [L, words].
        channel: slots of every channel, [K].
        term: the terms, [7].
        peak_link: a link that has the largest value of each kind, [3].
        tree: room for routing.
        room: of the student.
        cells: room for the cells of a net's sinks.
        nets: room for the nets of a move, [N].
        touched: room for the links of a move, [L].
        mark: the number of the move that each link was touched in last, [L]; ``net_mark`` of each net, [N].
        saved_load, saved_link: what they were, in the order of ``touched``.
        saved_term, saved_peak_link: what they were.
        extent: of the last move (:data:`NETS` and so on), [3].
        move: the number of the move, [1].
    """

    site: npt.NDArray[np.int64]
    holder: npt.NDArray[np.int64]
    route: npt.NDArray[np.uint16]
    length: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int32]
    used: npt.NDArray[np.int8]
    load: npt.NDArray[np.int32]
    link: npt.NDArray[np.int32]
    member: npt.NDArray[np.uint64]
    channel: npt.NDArray[np.float64]
    term: npt.NDArray[np.float64]
    peak_link: npt.NDArray[np.int64]
    tree: Tree
    room: StudentRoom
    cells: npt.NDArray[np.uint16]
    nets: npt.NDArray[np.int64]
    touched: npt.NDArray[np.uint16]
    mark: npt.NDArray[np.int64]
    net_mark: npt.NDArray[np.int64]
    saved_load: npt.NDArray[np.int32]
    saved_link: npt.NDArray[np.int32]
    saved_term: npt.NDArray[np.float64]
    saved_peak_link: npt.NDArray[np.int64]
    extent: npt.NDArray[np.int64]
    move: npt.NDArray[np.int64]
