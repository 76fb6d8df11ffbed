"""The student's sums over links and nets of a state, brought up to date with moves, compiled.

What a sum is made of says :mod:`dse.fabric.search.student_kernels`. Without a student there are none to keep.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from dse.fabric.search.move_state import BURSTS, CRITICAL, CRITICAL_UNIT, LINKS, NETS, RATE, RATE_UNIT, SHARING
from dse.fabric.search.student_kernels import SUMS, add_link, add_net
from hardware.compiled import kernel


@kernel
def _count_link(case, state, load, known, sign):
    """Add what the student counts of a link of which this is known, or take it away."""
    sharing, rate, critical = known[SHARING], known[RATE] * RATE_UNIT, known[CRITICAL] * CRITICAL_UNIT
    add_link(case.student, state.room.sums, float(load), sharing, rate, known[BURSTS], critical, sign)


@kernel
def _count_net(case, state, net, which, sign):
    """Add what the student counts of a net with one of its routes, or take it away."""
    critical, depth = case.critical[net] * CRITICAL_UNIT, state.depth[net, which]
    add_net(case.student, state.room.sums, case.flits[net], case.isolated[net], critical, depth, sign)


@kernel
def _is_as_saved(state, link, place):
    """Whether a link that a move has touched is again what it was, as those are that a new route shares with the old
    one.
    """
    known, saved = state.link[link], state.saved_link[place]
    return (
        state.load[link] == state.saved_load[place]
        and known[SHARING] == saved[SHARING]
        and known[RATE] == saved[RATE]
        and known[BURSTS] == saved[BURSTS]
        and known[CRITICAL] == saved[CRITICAL]
    )


@kernel
def update_sums(case, state):
    """Bring the student's sums up to date with a move whose nets are routed and have not switched yet."""
    if case.student.weight == 0.0:
        return
    for place in range(state.extent[LINKS]):
        link = state.touched[place]
        if _is_as_saved(state, link, place):
            continue
        _count_link(case, state, state.saved_load[place], state.saved_link[place], -1.0)
        _count_link(case, state, state.load[link], state.link[link], 1.0)
    for place in range(state.extent[NETS]):
        net = state.nets[place]
        _count_net(case, state, net, state.used[net], -1.0)
        _count_net(case, state, net, 1 - state.used[net], 1.0)


@kernel
def find_sums(case, state):
    """Find the student's sums from nothing, without what additions and subtractions have left of errors."""
    if case.student.weight == 0.0:
        return
    for number in range(SUMS):
        state.room.sums[number] = 0.0
    for link in range(len(state.load)):
        _count_link(case, state, state.load[link], state.link[link], 1.0)
    for net in range(len(case.source)):
        _count_net(case, state, net, state.used[net], 1.0)


@kernel
def save_sums(case, state):
    """Keep the sums as they are before a move."""
    if case.student.weight > 0.0:
        for number in range(SUMS):
            state.room.saved[number] = state.room.sums[number]


@kernel
def restore_sums(case, state):
    """Take the sums back to what they were before the last move."""
    if case.student.weight > 0.0:
        for number in range(SUMS):
            state.room.sums[number] = state.room.saved[number]
