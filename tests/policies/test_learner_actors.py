"""Learners in actors, without the actors: whom they ask."""

import pytest

from policies.learning.actors import LostLearnerError
from policies.learning.rllib.learners import LearnerActors


class Answer:
    ok = True

    def __init__(self, value):
        self._value = value

    def get(self):
        return self._value


class Group:
    """Learners that answer with their number, those of ``alive``."""

    def __init__(self, alive):
        self.alive, self.asked = alive, []

    def __len__(self):
        return 3

    def foreach_learner(self, _function, remote_actor_ids=None):
        asked = [number for number in remote_actor_ids or range(3) if number in self.alive]
        self.asked += asked
        return [Answer({"number": number}) for number in asked]


def actors_of(alive):
    actors = LearnerActors.__new__(LearnerActors)
    actors.group = Group(alive)
    return actors


def test_weights_come_from_one_learner():
    actors = actors_of({0, 1, 2})
    assert actors.weights() == {"number": 0}
    assert actors.group.asked == [0]


def test_a_first_learner_that_has_died_is_lost():
    with pytest.raises(LostLearnerError, match="a learner has died"):
        actors_of({1, 2}).weights()


def test_weights_are_set_in_every_learner():
    actors = actors_of({0, 1, 2})
    actors.set_weights({})
    assert actors.group.asked == [0, 1, 2]
    with pytest.raises(LostLearnerError):
        actors_of({0, 2}).set_weights({})
