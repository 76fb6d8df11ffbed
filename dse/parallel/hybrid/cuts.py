"""Where stages of a hybrid plan may begin: at cuts that send least among their neighbours, at like places of layers.

The least is sent where only the residual stream passes, between layers and between their parts. Cuts that look alike,
by the operations before and behind them and by their bytes, are taken together, so that layers of the same kind are cut
at the same place and give equal stages.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from dse.graph.step import StepGraph
from dse.parallel.hybrid.stage_step import Stages
from dse.parallel.pipeline.problem import Floats, Profile

MAX_SENT = 4
"""Times the bytes of the cuts that send least: others that send more are left out."""


def candidate_cuts(profile: Profile, steps: Stages, limit: int) -> tuple[int, ...]:
    """At most ``limit`` cuts, rising.

    Classes of cuts that look alike come in sequence, those that send least first, of these the largest; a
    member is left out where it is nearer to another cut than half of an equal share of the work. A class that has too
    many is thinned out evenly.
    """
    work = np.concatenate(([0.0], np.cumsum(profile.forward_s + profile.backward_s)))
    reach = float(work[-1]) / (2 * limit)
    classes: dict[Hashable, list[int]] = defaultdict(list)
    for cut in _valleys(profile, work, reach):
        classes[_appearance(profile, steps, cut)].append(cut)
    ordered = sorted(classes.values(), key=lambda each: (int(profile.cut_bytes[each[0]]), -len(each), each))
    chosen: list[int] = []
    for members in ordered:
        if profile.cut_bytes[members[0]] > MAX_SENT * profile.cut_bytes[ordered[0][0]]:
            break
        own: list[int] = []
        for cut in members:
            if all(abs(work[cut] - work[other]) >= reach for other in (*chosen, *own)):
                own.append(cut)
        if len(chosen) + len(own) > limit:
            step = -(-len(own) // max(1, limit - len(chosen)))
            own = own[step - 1 :: step] if len(chosen) < limit else []
        chosen += own
    return tuple(sorted(chosen))


def _valleys(profile: Profile, work: Floats, reach: float) -> list[int]:
    """The cuts that no other within ``reach`` sends less than, as far from both ends."""
    sent, last = profile.cut_bytes, profile.points
    valleys = []
    for cut in range(1, last):
        if not reach <= work[cut] <= work[-1] - reach:
            continue
        begin = max(1, int(np.searchsorted(work, work[cut] - reach)))
        end = min(last, int(np.searchsorted(work, work[cut] + reach, side="right")))
        if sent[cut] <= sent[begin:end].min():
            valleys.append(cut)
    return valleys


def _appearance(profile: Profile, steps: Stages, cut: int) -> Hashable:
    """What a cut has in common with those at like places."""
    before, behind = (_operation(steps.graph, steps.forward.points[point]) for point in (cut - 1, cut))
    return int(profile.cut_bytes[cut]), before, behind


def _operation(graph: StepGraph, number: int) -> Hashable:
    operation = graph.operations[number]
    arrays: Sequence[int] = (*operation.results, *operation.operands)
    return operation.opcode, tuple(graph.values[value].dims for value in arrays)
