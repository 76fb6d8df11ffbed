"""Classes of architectures that share what lower bounds on steps depend on: processing elements and vector lanes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware.machines import Machines

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ArchitectureClasses:
    """The classes of a space.

    Attributes:
        elements, lanes: of each class, [C].
        class_of: the class of each architecture, [A].
    """

    elements: Integers
    lanes: Integers
    class_of: Integers

    @classmethod
    def of(cls, machines: Machines) -> "ArchitectureClasses":
        """Those of ``machines``."""
        elements = machines.tensor_cores * machines.core_width * machines.core_depth
        lanes = machines.vector_cores * machines.vector_lanes
        pairs, class_of = np.unique(np.stack([elements, lanes], axis=1), axis=0, return_inverse=True)
        return cls(pairs[:, 0], pairs[:, 1], class_of.ravel())

    def members(self, number: int) -> Integers:
        """The architectures of one class."""
        return np.flatnonzero(self.class_of == number)
