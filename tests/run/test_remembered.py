"""Answers that are remembered: the last few, and none that was cut short."""

import gc
import weakref
from dataclasses import dataclass

import pytest

from dse.run.remembered import Remembered, Same, while_alive


def test_the_last_answers_are_given_again_and_no_part_of_one():
    asked = []

    def answer(value):
        def work():
            asked.append(value)
            return value

        return work

    remembered = Remembered(2, lambda value: value >= 0)
    assert [remembered.get(key, answer(key)) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert asked == [1, 2, 3, 2]
    assert [remembered.get("cut", answer(-1)) for _ in range(2)] == [-1, -1]
    assert asked == [1, 2, 3, 2, -1, -1]
    remembered.clear()
    assert len(remembered) == 0


@dataclass
class Problem:
    """Equal to others of the same name, and not hashable."""

    name: str


def test_one_object_is_a_key_and_its_equals_are_others():
    one, equal = Problem("p"), Problem("p")
    assert one == equal
    remembered = Remembered(4)
    assert remembered.get((Same(one), 0), lambda: "one") == "one"
    assert remembered.get((Same(one), 0), lambda: "again") == "one"
    assert remembered.get((Same(equal), 0), lambda: "equal") == "equal"
    assert Same(one) != one


def test_a_key_keeps_no_object_alive_and_stands_for_no_other_at_its_address(monkeypatch):
    one = Problem("p")
    key, watched = Same(one), weakref.ref(one)
    remembered = Remembered(4)
    assert remembered.get(key, lambda: "one") == "one"
    del one
    gc.collect()
    assert watched() is None
    assert key == key
    heir = Same(Problem("q"))
    monkeypatch.setattr(heir, "_hash", hash(key))
    gone = Same(Problem("r"))
    gc.collect()
    monkeypatch.setattr(gone, "_hash", hash(key))
    assert [remembered.get(each, lambda: "other") for each in (heir, gone)] == ["other", "other"]


def test_what_is_known_of_objects_that_are_gone_is_forgotten_with_the_next_answer():
    remembered, objects = Remembered(8), [Problem(name) for name in "abc"]
    for each in objects:
        remembered.get(Same(each), lambda: "alone")
        remembered.get((Same(each), 0), lambda: "with a number")
    assert len(remembered) == 6
    del each, objects[0]
    gc.collect()
    remembered.get("next", lambda: "next")
    assert len(remembered) == 5
    assert remembered.get(Same(objects[0]), lambda: "again") == "alone"


def test_nobody_can_alter_what_others_are_given():
    remembered = Remembered(4, is_mutable=True)
    made = {"step": [1.0]}
    for _ in range(2):
        given = remembered.get("plan", lambda: made)
        assert given == {"step": [1.0]}
        given["step"][0] *= 3
    made["step"][0] = 1.0
    assert remembered.get("plan", lambda: made) == {"step": [1.0]}


class Interrupted:
    """A key during whose looking up, after so many steps of it, another thread is given its turn."""

    def __init__(self, steps, other):
        self.steps, self.other = steps, other

    def __hash__(self):
        if self.steps == 0:
            self.other()
        self.steps -= 1
        return 0


@pytest.mark.parametrize("steps", range(4))
def test_an_answer_that_another_thread_forgets_meanwhile_is_worked_out_again(steps):
    remembered = Remembered(4)
    key = Interrupted(-1, remembered.clear)
    assert remembered.get(key, lambda: "one") == "one"
    key.steps = steps
    assert remembered.get(key, lambda: "again") in ("one", "again")


class Grid:
    """Compared by identity."""


def test_what_is_known_of_an_object_is_worked_out_once_and_forgotten_with_it():
    made = []

    @while_alive
    def sites(grid):
        """Of a grid."""
        made.append(Problem("sites"))
        return made[-1]

    one, other = Grid(), Grid()
    assert sites(one) is sites(one) is made[0]
    assert sites(other) is made[1]
    assert len(made) == 2
    watched = weakref.ref(made[0])
    del one
    made.clear()
    gc.collect()
    assert watched() is None
