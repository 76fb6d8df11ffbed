"""Tensors on the links of the ring: the part of the simulator's compiled form that is about transfers.

The rules are in :mod:`dse.partition.evaluators.simulator`; what is passed on is described where the kernels are called,
in :mod:`dse.partition.evaluators.simulator_kernels`. Cost of a partition: O(tensors · links that they pass).
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit, leading
from hardware.compiled import kernel


@kernel
def _farthest(elsewhere):
    """The highest chip of a set."""
    return np.int64(63) - np.int64(leading(elsewhere))


@kernel
def transfers_s(used, operators, rates, state, ended_s):
    """When the last transfer of an interval ends on each link, into ended_s [≥ used], which is 0.

    Own outputs come first, then those from the link before, in order.
    """
    count, row = 0, 0
    for link in range(used):
        now_s, passed = 0.0, 0
        following = 1 - row
        for index in range(state.message_first[link], state.message_first[link + 1]):
            operator = state.messages[index]
            state.carried[following, passed] = operator
            state.carried_s[following, passed] = now_s
            now_s += operators.output_bytes[operator] / rates.link_bytes_per_s
            passed += 1
        now_s, passed = _pass_on(link, now_s, passed, row, count, operators, rates, state)
        if passed > 0:
            ended_s[link] = now_s + rates.hop_s
        row, count = following, passed


@kernel
def _pass_on(link, now_s, passed, row, count, operators, rates, state):
    """Carries over ``link`` tensors of the link before that travel on, after ``passed`` others that end at now_s."""
    following = 1 - row
    for index in range(count):
        operator = state.carried[row, index]
        if _farthest(state.elsewhere[operator]) > link:
            start_s = max(now_s, state.carried_s[row, index] + rates.hop_s)
            state.carried[following, passed] = operator
            state.carried_s[following, passed] = start_s
            now_s = start_s + operators.output_bytes[operator] / rates.link_bytes_per_s
            passed += 1
    return now_s, passed


@kernel
def one_input_s(used, operators, rates, state):
    """When the last chip ends one input alone: links carry first what comes from below."""
    ended_s, count, row = 0.0, 0, 0
    for here in range(used):
        end_s = 0.0
        for index in range(count):
            operator = state.carried[row, index]
            if state.elsewhere[operator] & bit(here) != np.uint64(0):
                taken_s = operators.output_bytes[operator] / rates.link_bytes_per_s
                end_s = max(end_s, state.carried_s[row, index] + taken_s + rates.hop_s)
        end_s += state.seconds[here]
        ended_s = max(ended_s, end_s)
        now_s, passed = _pass_on(here, 0.0, 0, row, count, operators, rates, state)
        following = 1 - row
        for index in range(state.message_first[here], state.message_first[here + 1]):
            operator = state.messages[index]
            now_s = max(now_s, end_s)
            state.carried[following, passed] = operator
            state.carried_s[following, passed] = now_s
            now_s += operators.output_bytes[operator] / rates.link_bytes_per_s
            passed += 1
        row, count = following, passed
    return ended_s
