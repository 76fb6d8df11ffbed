"""Binary search on the time (paper section 3.1): area weights (3), the estimate of the time, and its window.

What the paper leaves open: the estimate is of the kernel of the largest area weight, which gets its share of the
wafer's tiles; for each (h, w) that sizing tries and each c, its width is what its area leaves, divided as (10) divides
that of turned kernels, and memory is left out, as the estimate is of the time. Times are whole ticks. Where not even
the end of the window, ten times the estimate, is achieved, or its begin, a tenth of it, is, the window is moved by a
factor of a hundred, as far as times are possible; the paper found it "practically large enough".
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dse.run.progress import StopSignal
from dse.wafer.problem import Convolution, Kernel, WaferProblem
from dse.wafer.search.gigaplacer.instance import Instance
from dse.wafer.search.gigaplacer.judgment import Judgment
from dse.wafer.search.gigaplacer.rows import Cut
from dse.wafer.search.gigaplacer.sizing import pruned_pairs, ticks_per_time

WINDOW = 10
"""The first window is from a tenth of the estimate to ten times it."""


def area_weight(kernel: Kernel) -> Fraction:
    """Equations (3a) to (3c): the work of a kernel, H·W·C·K·R·S / T² of all of its convolutions.

    That is 29/64 · H·W·F² for a cblock and 17/16 · H·W·F² for a dblock.
    """
    return sum(
        (
            Fraction(
                each.height * each.width * each.inputs * each.outputs * each.window_height * each.window_width,
                each.stride**2,
            )
            for each in kernel.convolutions
        ),
        Fraction(0),
    )


def estimated_time(problem: WaferProblem) -> Fraction:
    """The least time of the kernel of the largest area weight, on its share of the wafer."""
    weights = [area_weight(kernel) for kernel in problem.kernels]
    largest = max(range(len(weights)), key=weights.__getitem__)
    area = int(problem.wafer.tiles * weights[largest] / sum(weights))
    return min(_times(problem, problem.kernels[largest], area), default=weights[largest])


def _times(problem: WaferProblem, kernel: Kernel, area: int) -> Iterator[Fraction]:
    """The times of a kernel of so many tiles, for every (h, w, c)."""
    inputs = max(each.inputs for each in kernel.convolutions)
    for h, w in pruned_pairs(kernel, max(problem.wafer.width_tiles, problem.wafer.height_tiles)):
        # With a larger c no column of three tiles is left.
        c = np.arange(1, min(inputs, area // (3 * h * w) - 1) + 1)
        k_in_all = area // (h * w * (c + 1)) // 3
        if not len(c):
            continue
        images = [_image_time(each, h, w) for each in kernel.convolutions]
        works = [image * each.inputs * each.outputs for image, each in zip(images, kernel.convolutions, strict=True)]
        slowest = np.zeros(len(c))
        for image, work, each in zip(images, works, kernel.convolutions, strict=True):
            k = np.clip((k_in_all * float(work / sum(works))).astype(np.int64), 1, each.outputs)
            steps = -(-each.inputs // np.minimum(c, each.inputs)) * -(-each.outputs // k)
            slowest = np.maximum(slowest, float(image) * steps)
        yield Fraction(float(slowest.min()))


def _image_time(each: Convolution, h: int, w: int) -> Fraction:
    """The time of a convolution with c = C and k = K."""
    steps = -(-each.height // h) * -(-each.width // w)
    return Fraction(steps * each.window_height * each.window_width, each.stride**2)


def longest_time(problem: WaferProblem) -> int:
    """The ticks of the slowest kernel with h = w = c = k = 1; of more time no kernel has any use."""
    convolutions = (each for kernel in problem.kernels for each in kernel.convolutions)
    slowest = max(_image_time(each, 1, 1) * each.inputs * each.outputs for each in convolutions)
    return int(slowest * ticks_per_time(problem))


def min_time(
    problem: WaferProblem, instance: Instance, judge: Judgment, estimate: Fraction, stop: StopSignal
) -> Cut | None:
    """The cut at the least time limit that ``judge`` achieves, as far as achieving is monotonic in the time.

    Where ``stop`` gives a reason, the cut at the least limit until then.
    """
    ticks, longest = estimate * ticks_per_time(problem), longest_time(problem)
    low, high = (min(longest, max(1, int(end))) for end in (ticks / WINDOW, ticks * WINDOW))
    best = judge(instance, high)
    while best is None and high < longest and stop() is None:
        low, high = high, min(longest, high * WINDOW**2)
        best = judge(instance, high)
    while best is not None and low > 1 and stop() is None and (lower := judge(instance, low)) is not None:
        best, low, high = lower, max(1, low // WINDOW**2), low
    while best is not None and low < high and stop() is None:
        middle = (low + high) // 2
        cut = judge(instance, middle)
        if cut is None:
            low = middle + 1
        else:
            best, high = cut, middle
    return best
