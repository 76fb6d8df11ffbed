"""Parts of what flows together: by position, and by share where positions are not known."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dse.graph.flows import Flow, part_of, share_of

FLOWS = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(
    lambda sizes: tuple(Flow(position, size) for position, size in enumerate(sizes))
)


def elements_of(flows):
    return sum(flow.elements for flow in flows)


@given(FLOWS, st.data())
def test_parts_in_a_row_are_the_whole(flows, data):
    total = elements_of(flows)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, total), max_size=3))), total]
    parts = [part_of(flows, start, stop - start) for start, stop in pairwise(cuts)]
    assert [elements_of(part) for part in parts] == [stop - start for start, stop in pairwise(cuts)]
    assert elements_of([flow for part in parts for flow in part]) == total
    assert part_of(flows, 0, total) == flows


def test_a_part_is_named_by_its_place_in_each_tensor():
    flows = (Flow(3, 4), Flow("x", 6, "mask"))
    assert part_of(flows, 1, 5) == (Flow(3, 3, "[1:4]"), Flow("x", 2, "mask[0:2]"))
    assert part_of(flows, 4, 6) == (flows[1],)


@given(FLOWS, st.integers(1, 50))
def test_shares_are_at_least_what_is_read_and_no_flow_is_left_out(flows, elements):
    shares = share_of(flows, elements, "[part]")
    assert [share.operator for share in shares] == [flow.operator for flow in flows]
    assert min(elements, elements_of(flows)) <= elements_of(shares) < min(elements, elements_of(flows)) + len(flows)
    assert all(share.elements <= flow.elements for share, flow in zip(shares, flows, strict=True))
