"""The last answers to a few questions, so that a check need not search again."""

import pickle
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Known = TypeVar("Known", bound=Hashable)


def _is_never_cut_short(answer: object) -> bool:
    """For answers that are whole or raise."""
    del answer
    return True


class Same:
    """A key that stands for one object, which need not be hashable, as long as it lives; it does not keep it alive."""

    def __init__(self, value: object) -> None:
        self._value, self._hash = weakref.ref(value), id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # Another object may get the address of one that is gone.
        return self is other or (isinstance(other, Same) and self._value() is other._value() is not None)

    @property
    def is_gone(self) -> bool:
        """Whether the object no longer lives."""
        return self._value() is None


def _can_never_be_asked_again(key: Hashable) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(each, Same) and each.is_gone for each in parts)


class Remembered(Generic[T]):
    """The last ``size`` answers by what was asked.

    An answer that was cut short is returned but not remembered: if the question is asked again, it is worked out
    again. What is known of objects that are gone (:class:`Same`) is forgotten with the next answer.

    Attributes:
        size: answers that are kept.
        is_whole: whether an answer was not cut short.
        is_mutable: whether each who asks gets a copy, so that nobody can alter what a check compares with.
    """

    def __init__(
        self, size: int, is_whole: Callable[[T], bool] = _is_never_cut_short, *, is_mutable: bool = False
    ) -> None:
        self._size, self._is_whole, self._is_mutable = size, is_whole, is_mutable
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: Hashable, answer: Callable[[], T]) -> T:
        """The answer to ``key``: the remembered one, or else that of ``answer``."""
        try:
            self._answers.move_to_end(key)
            stored = self._answers[key]
        except KeyError:  # also where another thread has just forgotten it
            return self._worked_out(key, answer)
        known: T = pickle.loads(stored) if self._is_mutable else stored
        return known

    def _worked_out(self, key: Hashable, answer: Callable[[], T]) -> T:
        given = answer()
        if self._is_whole(given):
            for gone in filter(_can_never_be_asked_again, list(self._answers)):
                self._answers.pop(gone, None)
            # To read a copy takes a tenth of the time of a deep copy.
            self._answers[key] = pickle.dumps(given) if self._is_mutable else given
            if len(self._answers) > self._size:
                self._answers.popitem(last=False)
        return given

    def clear(self) -> None:
        """Forget all."""
        self._answers.clear()


def while_alive(function: Callable[[Known], T]) -> Callable[[Known], T]:
    """``function`` of an object that is compared by identity: worked out once, and forgotten with the object."""
    answers: weakref.WeakKeyDictionary[Known, T] = weakref.WeakKeyDictionary()

    @wraps(function)
    def remembered(of: Known) -> T:
        if of not in answers:
            answers[of] = function(of)
        return answers[of]

    return remembered
