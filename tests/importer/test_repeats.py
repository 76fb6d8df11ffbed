"""The finder of repeated runs against brute force, and layers of chains made by hand."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.importer.repeats import Repetition, longest_repetition, possible_starts


@st.composite
def programs(draw):
    """Short programs over a small alphabet, so that repeats are frequent; step i reads up to two earlier steps."""
    count = draw(st.integers(2, 18))
    body = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
    letters = draw(
        st.one_of(st.lists(st.integers(0, 2), min_size=count, max_size=count), st.just((body * count)[:count]))
    )
    near = draw(st.booleans())
    producers = [
        [
            -1 if i == 0 else draw(st.integers(max(-1, i - 2) if near else -1, i - 1)) if draw(st.booleans()) else i - 1
            for _ in range(2)
        ]
        for i in range(count)
    ]
    anchors_of = draw(st.sets(st.integers(0, 2), min_size=1))
    return np.array(letters), np.array(producers), [letter in anchors_of for letter in letters]


def corresponds(letters, producers, i, j):
    same = letters[i] == letters[j]
    return same and all(b - a == j - i or a == b for a, b in zip(producers[i], producers[j], strict=True))


def brute_force(letters, producers, anchors):
    """Every start, period and number of repeats, by the definition."""
    best = 0
    count = len(letters)
    for start in range(count):
        for period in range(1, (count - start) // 2 + 1):
            end = start + period
            while end < count and corresponds(letters, producers, end - period, end):
                end += 1
            repeats = (end - start) // period
            body = range(start, start + period)
            chained = (
                any(start <= p < start + period for i in body for p in producers[i + period]) if repeats > 1 else False
            )
            # the finder looks at whole stretches: a run is what its stretch begins with
            first = start == 0 or not corresponds(letters, producers, start - 1, start - 1 + period)
            if repeats > 1 and first and chained and any(anchors[i] for i in body):
                best = max(best, period * repeats)
    return best


@given(programs())
@settings(max_examples=300)
def test_the_longest_repetition_is_chosen(program):
    letters, producers, anchors = program
    run = longest_repetition(letters, producers, anchors)
    assert (0 if run is None else run.covered) == brute_force(letters, producers, anchors)


@given(programs())
def test_a_repetition_repeats_at_each_of_its_starts(program):
    letters, producers, anchors = program
    run = longest_repetition(letters, producers, anchors)
    if run is not None:
        last = run.start + run.covered + run.slack
        assert run.repeats >= 2
        assert run.slack < run.period
        assert all(corresponds(letters, producers, i, i + run.period) for i in range(run.start, last - run.period))
        starts = possible_starts(letters, producers, run)
        assert starts == tuple(sorted(set(starts)))
        assert len({(last - start) // run.period for start in starts}) == 1


def chain(body, repeats, head=1):
    """A residual chain: each body reads its first operand from the step before, its last also from the body's start."""
    letters, producers = [0], [[-1, -1]]
    for _ in range(repeats):
        first = len(letters) - 1
        for position in range(body):
            letters.append(1 + position)
            skip = first if position == body - 1 else -1
            producers.append([len(letters) - 2, skip])
    for position in range(head):
        letters.append(90 + position)
        producers.append([len(letters) - 2, -1])
    return np.array(letters), np.array(producers), [True] * len(letters)


@given(st.integers(1, 5), st.integers(2, 8), st.integers(0, 3))
def test_a_chain_of_equal_bodies_is_one_repetition(body, repeats, head):
    letters, producers, anchors = chain(body, repeats, head)
    assert longest_repetition(letters, producers, anchors) == Repetition(1, body, repeats, 0)


def test_a_first_body_may_read_from_far_away():
    """The first body reads the value that later ones get from their predecessor from a step further up."""
    letters, producers, anchors = chain(3, 4)
    far = np.concatenate([[[-1, -1]], np.where(producers >= 0, producers + 1, producers)])
    far = np.where(far == 1, 0, far)  # the chain starts from step 0, over step 1
    far[1] = -1
    letters = np.concatenate([[7], letters])
    run = longest_repetition(letters, far, [True, *anchors])
    assert run.start > 2
    assert 2 in possible_starts(letters, far, run)


def test_parallel_branches_are_no_repetition():
    """Query, key and value are three equal steps, but none reads the one before it."""
    letters = np.array([0, 1, 1, 1, 2])
    producers = np.array([[-1] * 3, [0, -1, -1], [0, -1, -1], [0, -1, -1], [1, 2, 3]])
    assert longest_repetition(letters, producers, [True] * 5) is None
