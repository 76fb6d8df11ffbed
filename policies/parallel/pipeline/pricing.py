"""Many plans of one pipeline priced in one call, for learning and for the searches compared with it.

By the definition (:mod:`dse.parallel.pipeline.length`), to rounding; answers are priced by the definition itself.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dse.parallel.pipeline.problem import Floats, Integers, PipelinePlan, PipelineProblem, Profile
from hardware.network import Network, Ring
from policies.parallel.pipeline.pricing_kernels import prices


class Lines:
    """Rings of all-reduces and transfers in a line of devices, computed on their first use and then kept.

    Pricings of the same network and number of devices may share one.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.reduce, self.send = _Rows(), _Rows()

    def rows(self, edges: Integers) -> tuple[Integers, Integers]:
        """Rows of ``reduce`` and ``send`` for device cuts with both ends [B, K + 1]; each [B, K]."""
        base = int(edges.max(initial=0)) + 1

        def reduced(key: int) -> int:
            start, stop = divmod(key, base)
            return self.reduce.row((start, stop), partial(self.network.all_reduce_rings, range(start, stop)))

        def sent(key: int) -> int:
            (start, cut), end = divmod(key // base, base), key % base
            rings = partial(self.network.stage_transfer_rings, range(start, cut), range(cut, end))
            return self.send.row((start, cut, end), rings)

        pairs = edges[:, :-1] * base + edges[:, 1:]
        reduce, send = _mapped(reduced, pairs), np.zeros_like(pairs)
        send[:, :-1] = _mapped(sent, pairs[:, :-1] * base + edges[:, 2:])
        return reduce, send


def _mapped(row_of: Callable[[int], int], keys: Integers) -> Integers:
    """``row_of`` every key, called once for each distinct one."""
    distinct, place = np.unique(keys, return_inverse=True)
    rows = np.array([row_of(key) for key in distinct.tolist()], dtype=np.int64)
    return rows[place].reshape(keys.shape)


class _Rows:
    """Rings by a key, in one array [rows, R, 6]; steps of 0 fill up."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], int] = {}
        self._rings: list[tuple[Ring, ...]] = []
        self._array: Floats = np.zeros((0, 1, 6))

    def row(self, key: tuple[int, ...], rings: Callable[[], tuple[Ring, ...]]) -> int:
        """The row of ``key``, with ``rings()`` where it is new."""
        if key not in self._rows:
            self._rows[key] = len(self._rings)
            self._rings.append(rings())
        return self._rows[key]

    @property
    def array(self) -> Floats:
        """All rows."""
        if len(self._array) != len(self._rings):
            self._array = np.zeros((len(self._rings), max(1, *map(len, self._rings)), 6))
            for row, rings in enumerate(self._rings):
                self._array[row, : len(rings)] = np.array(rings).reshape(len(rings), 6)
        return self._array


class Pricing:
    """Prices plans of one problem.

    Args:
        problem: what is cut.
        lines: of its network; None: its own.
    """

    def __init__(self, problem: PipelineProblem, lines: Lines | None = None) -> None:
        self.problem = problem
        self.lines = lines or Lines(problem.network)
        profile = problem.profile
        readers = np.array([each.readers[0] for each in profile.shared], dtype=np.int64)
        shared = np.array([float(each.weight_bytes) for each in profile.shared])
        self.work_s = prefix(profile.forward_s + problem.backward_s)
        self.weight_bytes = prefix(profile.weight_bytes)
        self._arrays = (
            self.work_s,
            prefix(problem.backward_s),
            prefix(profile.stash_bytes),
            self.weight_bytes,
            profile.cut_bytes.astype(np.float64),
            shared,
            readers,
            _next_readers(profile),
        )
        limit = 0.0 if problem.memory_bytes is None else float(problem.memory_bytes)
        self._memory = (limit, float(problem.state_factor), float(problem.recompute))

    @property
    def unit_s(self) -> float:
        """A batch with all devices busy all the time: no pipeline is shorter."""
        return float(self.work_s[-1]) / self.problem.devices

    def prices(self, cuts: Integers, device_cuts: Integers) -> Floats:
        """What plans [B, K - 1] cost, [B, 5] (:func:`~policies.parallel.pipeline.pricing_kernels.prices`).

        K may be less than the problem's: the plans of the first cuts.
        """
        points, edges = _ended(cuts, self.problem.profile.points), _ended(device_cuts, self.problem.devices)
        reduce, send = self.lines.rows(edges)
        priced: Floats = prices(
            self._arrays,
            points,
            edges,
            reduce,
            send,
            self.lines.reduce.array,
            self.lines.send.array,
            self.problem.microbatches,
            self._memory,
        )
        return priced


def prefix(values: Floats | Integers) -> Floats:
    """Sums of all values in front of each cut, [N + 1]."""
    return np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))


def plan_of(cuts: Integers, device_cuts: Integers) -> PipelinePlan:
    """A plan of arrays [K - 1]."""
    return PipelinePlan(tuple(cuts.tolist()), tuple(device_cuts.tolist()))


def _next_readers(profile: Profile) -> Integers:
    """The next reader of each shared tensor from each cut on, or N where there is none, [V, N + 1]."""
    cuts = np.arange(profile.points + 1)
    rows = [np.array([*each.readers, profile.points])[np.searchsorted(each.readers, cuts)] for each in profile.shared]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(cuts))


def _ended(cuts: Integers, end: int) -> Integers:
    rows = np.empty((len(cuts), cuts.shape[1] + 2), dtype=np.int64)
    rows[:, 0], rows[:, 1:-1], rows[:, -1] = 0, cuts, end
    return rows
