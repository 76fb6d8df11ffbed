"""What is sent between processes with its arrays as they are."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray import cloudpickle


@dataclass(frozen=True)
class InBand:
    """Arrives as its ``value``, of which every array can be written to where it could be before.

    Ray keeps arrays out of the pickle and gives the receiver read-only views of shared memory. For Numba that is
    another type: all workers, and the driver for what they answer, would compile for it each kernel once more, for half
    a minute in all.
    """

    value: Any

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        dumps: Callable[[Any], bytes] = cloudpickle.dumps
        return pickle.loads, (dumps(self.value),)
