"""Episodes: what follows from decisions is what linkage groups say, undo restores, conflicts change nothing."""

from random import Random

import pytest

from dse.sharding.linkage import linkage
from dse.sharding.propagation import Ending, Propagation
from tests.parallel.problems import mlp
from tests.sharding.test_linkage import linkage_of, place


def states(episode):
    return {each: episode.is_split(each) for each in episode.linkage.group_of}


@pytest.fixture
def episode(linked):
    return Propagation(*linked, parts=2)


def test_episodes_split_at_most_one_group_of_each_meeting_and_none_that_must_be_whole(episode):
    draw = Random(1)
    places = sorted(episode.linkage.group_of)
    draw.shuffle(places)
    for each in places:
        if episode.is_split(each) is None:
            assert episode.decide(each, draw.random() < 0.5).ending is not Ending.CONFLICT
    assert episode.ending is Ending.COMPLETE
    for meeting in episode.linkage.meetings:
        assert sum(episode.is_split(episode.linkage.groups[group].places[0]) for group in meeting.groups) <= 1
    for group in episode.linkage.groups:
        assert len({episode.is_split(each) for each in group.places}) == 1
        assert not episode.is_split(group.places[0]) or group.allows(2)
    assert all(episode.reason(each) for each in places)


def test_undo_restores_what_was_known_before(episode):
    draw, places, before = Random(2), sorted(episode.linkage.group_of), []
    for each in draw.sample(places, min(40, len(places))):
        state = states(episode)
        if episode.decide(each, draw.random() < 0.5).ending is Ending.CONFLICT:
            assert states(episode) == state
        else:
            before.append(state)
    for state in reversed(before):
        episode.undo()
        assert states(episode) == state
    with pytest.raises(IndexError):
        episode.undo()


def test_what_follows_is_what_no_plan_can_have_otherwise(episode):
    """A group is inferred to be whole exactly where splitting it as well would break a rule."""
    for group in episode.linkage.groups:
        if episode.is_split(group.places[0]) is not None:
            continue
        outcome = episode.decide(group.places[0], True)
        met = {
            other
            for meeting in episode.linkage.meetings
            if outcome.groups[0] in meeting.groups
            for other in meeting.groups
        }
        for number, other in enumerate(episode.linkage.groups):
            expected = True if number == outcome.groups[0] else False if number in met or not other.allows(2) else None
            assert episode.is_split(other.places[0]) is expected
        episode.undo()


def test_reasons_and_conflicts_name_the_premise():
    problem = mlp()
    graph = problem.graph
    episode = Propagation(graph, linkage(graph), 4)
    w1, w2 = (next(each.value for each in graph.arguments if each.name == f"params['w{n}']") for n in (1, 2))
    outcome = episode.decide((w1, 1), True)  # Megatron's pair: the hidden dimension of both
    assert outcome.ending is Ending.COMPLETE
    assert episode.is_split((w2, 0)) is True
    assert episode.is_split((w2, 1)) is False
    assert episode.reason((w2, 0)) == "is split because of dimension 1 of params['w1']"
    assert episode.reason((w2, 1)).endswith(" it is combined with dimension 1 of params['w1'], which is split")
    refused = episode.decide((w2, 1), True)
    assert refused.ending is Ending.CONFLICT
    assert refused.groups == ()
    assert refused.conflict == f"dimension 1 of params['w2'] {episode.reason((w2, 1))}"


def test_what_cannot_be_split_is_whole_from_the_start():
    graph, groups = linkage_of(
        "x = f32[8,4] parameter(0)", "s = f32[8,4] sort(x), dimensions={1}", "ROOT y = f32[8,4] negate(s)"
    )
    episode = Propagation(graph, groups, 4)
    assert episode.is_split(place(graph, "x", 1)) is False
    assert "must not be split in s (sort" in episode.reason(place(graph, "x", 1))
    assert episode.ending is Ending.OPEN
    assert episode.decide(place(graph, "x", 0), True).ending is Ending.COMPLETE
    assert Propagation(graph, groups, 3).ending is Ending.COMPLETE  # 3 divides no dimension
