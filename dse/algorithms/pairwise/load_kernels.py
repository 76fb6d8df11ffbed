"""The usage in all rows as a tree, so that a change over thousands of rows, and the highest of them, cost a few steps.

A tree of ``width`` leaves, a power of two, is two arrays of 2 ``width`` numbers: vertex 1 is the root, 2p and 2p + 1
are the children of p, and row r is vertex ``width`` + r. What is added to all rows below a vertex is noted there alone.

* ``peaks[p]``: the highest usage of the rows below p, without what is noted above p.
* ``shifts[p]``: what is noted at p.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from hardware.compiled import kernel


def tree_width(rows: int) -> int:
    """The leaves of a tree for so many rows."""
    return 1 << max(0, rows - 1).bit_length()


@kernel
def add_usage(peaks, shifts, first, end, added):
    """Add to the rows from ``first`` to before ``end``, at least one."""
    width = len(peaks) // 2
    low, high = first + width, end - 1 + width
    left, right = low, high + 1
    while left < right:
        if left & 1:
            peaks[left] += added
            shifts[left] += added
            left += 1
        if right & 1:
            right -= 1
            peaks[right] += added
            shifts[right] += added
        left >>= 1
        right >>= 1
    low >>= 1
    high >>= 1
    while low > 0:
        peaks[low] = max(peaks[2 * low], peaks[2 * low + 1]) + shifts[low]
        if high != low:
            peaks[high] = max(peaks[2 * high], peaks[2 * high + 1]) + shifts[high]
        low >>= 1
        high >>= 1


@kernel
def peak_between(peaks, shifts, first, end):
    """The highest usage in the rows from ``first`` to before ``end``, at least one."""
    width = len(peaks) // 2
    low, high = first + width, end - 1 + width
    of_low, of_high = peaks[low], peaks[high]
    while low >> 1 != high >> 1:
        if not low & 1:
            of_low = max(of_low, peaks[low + 1])
        if high & 1:
            of_high = max(of_high, peaks[high - 1])
        low >>= 1
        high >>= 1
        of_low += shifts[low]
        of_high += shifts[high]
    highest = max(of_low, of_high)
    low >>= 1
    while low > 0:
        highest += shifts[low]
        low >>= 1
    return highest


@kernel
def peak_row(peaks):
    """The row with the highest usage, the first of several."""
    width = len(peaks) // 2
    vertex = 1
    while vertex < width:
        vertex *= 2
        if peaks[vertex + 1] > peaks[vertex]:
            vertex += 1
    return vertex - width
