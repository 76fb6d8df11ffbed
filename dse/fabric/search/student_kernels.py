"""The student's features of a placement, kept up to date from move to move, and its prediction, compiled.

The features are the terms of the rules and *sums* over links and nets. A move changes the sums only by what it has
touched: links whose loads it saved, and nets that it routed again. Relative loads and rates are cut at
:data:`MAX_RELATIVE` before they are raised to powers, so that what is subtracted again leaves no error that matters.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hardware.compiled import kernel

(
    FOURTH_LOAD,
    EIGHTH_LOAD,
    EIGHTH_BUSY,
    FOURTH_SWITCHED,
    EIGHTH_SWITCHED,
    SHARED_LOAD,
    USED,
    EXCESS,
    EIGHTH_RATE,
    CROWDED,
    CRITICAL,
    CRITICAL_LOAD,
    FLIT_DEPTH,
    LATE,
    DEEP,
    CRITICAL_DEPTH,
    SUMS,
) = range(17)
"""Numbers of the sums: see :data:`dse.fabric.search.student.FEATURES`; how many there are."""

MAX_LOAD, OFF_CHIP = 2, 6
"""Numbers of terms, as in :mod:`dse.fabric.search.move_state`."""

MAX_RELATIVE = 4.0
"""Loads in slots of the slowest unit, and rates in flits per slot, count as this much where they are more."""

FORGET = 0.999
"""Share of :attr:`StudentRoom.fall` that is left after another move."""

LEAST = 1e-3
"""What is less counts as this much before its logarithm is taken."""


class StudentCase(NamedTuple):
    """A student with what it knows of a pipeline and a fabric.

    Attributes:
        weight: of its prediction in the cost; 0: there is no student.
        bound: the least slots of any placement.
        constant: features that are the same for every placement, [C].
        term_scale: what each term is divided by before its logarithm is taken, [7].
        load_scale: flits that a link carries while the slowest unit works on a sample.
        tracks, hop_slots, switch_slots: of the fabric.
        mean, inverse_scale: by which features are standardised, [F].
        first, first_bias: of the first layer, [F, H] and [H].
        second, second_bias: of the second one, [H, J] and [J].
        last, last_bias: of the output, [J], and a number.
    """

    weight: float
    bound: float
    constant: npt.NDArray[np.float64]
    term_scale: npt.NDArray[np.float64]
    load_scale: float
    tracks: float
    hop_slots: float
    switch_slots: float
    mean: npt.NDArray[np.float64]
    inverse_scale: npt.NDArray[np.float64]
    first: npt.NDArray[np.float64]
    first_bias: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]
    second_bias: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]
    last_bias: float


class StudentRoom(NamedTuple):
    """What a student keeps of a state.

    Attributes:
        sums: up to date, [S]; ``saved``: before the last move.
        features: room, [F]; ``hidden``: for the first layer, [H]; ``second``: for the second one, [J].
        predicted: of the state that was described last, [1].
        fall: by how much a move of late has lowered the prediction at most, [1].
        floor: what the prediction is taken to be at least, before a move is complete, [1].
    """

    sums: npt.NDArray[np.float64]
    saved: npt.NDArray[np.float64]
    features: npt.NDArray[np.float64]
    hidden: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.float64]
    fall: npt.NDArray[np.float64]
    floor: npt.NDArray[np.float64]


@kernel
def _fourth(value):
    """The fourth power of a value, cut."""
    value = min(value, MAX_RELATIVE)
    value *= value
    return value * value


@kernel
def add_link(student, sums, load, sharing, rate, bursts, critical, sign):
    """Add or remove what a link contributes: its load, nets, flits per slot, bursts, and how critical nets are."""
    if sharing <= 0:
        return
    relative, busy, switched = load / student.load_scale, load / student.load_scale, load / student.load_scale
    if sharing > student.tracks:
        busy += student.switch_slots * bursts / student.load_scale
        switched *= 1.0 + student.switch_slots
        sums[EXCESS] += sign * (sharing - student.tracks)
        sums[CRITICAL] += sign * critical * (sharing - student.tracks)
        sums[CRITICAL_LOAD] += sign * critical * relative
    sums[SHARED_LOAD] += sign * relative * sharing
    sums[USED] += sign
    sums[CROWDED] += sign * _fourth(relative * sharing / student.tracks)
    fourth, fourth_switched = _fourth(relative), _fourth(switched)
    fourth_busy, fourth_rate = _fourth(busy), _fourth(rate / student.tracks)
    sums[FOURTH_LOAD] += sign * fourth
    sums[EIGHTH_LOAD] += sign * fourth * fourth
    sums[EIGHTH_BUSY] += sign * fourth_busy * fourth_busy
    sums[FOURTH_SWITCHED] += sign * fourth_switched
    sums[EIGHTH_SWITCHED] += sign * fourth_switched * fourth_switched
    sums[EIGHTH_RATE] += sign * fourth_rate * fourth_rate


@kernel
def add_net(student, sums, flits, isolated, critical, depth, sign):
    """Add what a net whose farthest sink is ``depth`` links away contributes, or take it away."""
    sums[FLIT_DEPTH] += sign * flits * depth / student.load_scale
    sums[LATE] += sign * _fourth(2.0 * student.hop_slots * depth / isolated)
    sums[CRITICAL_DEPTH] += sign * critical * depth
    deep = float(depth * depth)
    sums[DEEP] += sign * deep * deep


@kernel
def describe(student, room, terms):
    """Fill the features of a state with these terms of the rules."""
    constants = len(student.constant)
    for place in range(constants):
        room.features[place] = student.constant[place]
    first = constants
    for term in range(len(terms)):
        room.features[first + term] = np.log(max(terms[term] / student.term_scale[term], LEAST))
    first += len(terms)
    for number in range(SUMS):
        # Sums that are 0 may differ from it by what was subtracted again.
        room.features[first + number] = np.log(max(room.sums[number], LEAST))


@kernel
def predict(student, room):
    """The logarithm of the slots that the network expects of the features, in slots of the slowest unit."""
    features, hidden, second = room.features, room.hidden, room.second
    for unit in range(len(hidden)):
        hidden[unit] = student.first_bias[unit]
    for place in range(len(features)):
        value = (features[place] - student.mean[place]) * student.inverse_scale[place]
        value = min(max(value, -MAX_RELATIVE), MAX_RELATIVE)
        for unit in range(len(hidden)):
            hidden[unit] += student.first[place, unit] * value
    for unit in range(len(second)):
        second[unit] = student.second_bias[unit]
    for place in range(len(hidden)):
        value = hidden[place] / (1.0 + abs(hidden[place]))
        for unit in range(len(second)):
            second[unit] += student.second[place, unit] * value
    expected = student.last_bias
    for place in range(len(second)):
        expected += student.last[place] * second[place] / (1.0 + abs(second[place]))
    return expected


@kernel
def least(student, terms):
    """The least logarithm of slots that a placement with these terms can have: no link, and no channel, is faster."""
    slots = max(student.bound, max(terms[MAX_LOAD], terms[OFF_CHIP]))
    return np.log(slots / student.term_scale[MAX_LOAD])


@kernel
def correction(student, room, terms):
    """What the student adds to the cost of a state with these terms."""
    describe(student, room, terms)
    room.predicted[0] = max(predict(student, room), least(student, terms))
    return student.weight * room.predicted[0]


@kernel
def remember_fall(room, before):
    """Note by how much the move that was described last has lowered the prediction, and forget older ones slowly."""
    room.fall[0] = max(before - room.predicted[0], FORGET * room.fall[0])
