"""Adapter cost refinement (paper section 3.4.1, Figure 6(a)): kernels take the (h, w) of their neighbours.

A kernel is picked and its (h, w) made those of kernels that it is joined to; its other parameters follow, so that the
time of the placement and the kernel's width on the wafer stay. Its height changes, which is accepted as long as the
kernel stays within its width and the height of its row, the *legal adjustment area*. Of what is acceptable, the pair
with the fewest adapters is taken. All kernels are tried, several times, until there is no improvement.

What the paper leaves open:

- h may be that of one neighbour and w that of another, or either the kernel's own.
- c counts as an adapter too. Where time, memory and the area allow several, it is that of a neighbour with which there
  are fewest adapters, or else what follows: upright, the least c, as k stays, by (11) and (12); turned, the largest c
  within the kernel's width, with the least k, by (8) and (9).
- A change is made only where it leaves fewer adapters; of equally good ones the first is made.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.wafer.search.gigaplacer import sizing
from dse.wafer.search.gigaplacer.instance import Instance, adapters, common_c, slowest
from dse.wafer.search.gigaplacer.rows import Rows, copied, pack
from dse.wafer.search.gigaplacer.sizing import INPUTS, MEMORY, min_c, min_k
from dse.wafer.shapes import NEVER
from hardware.compiled import compiled, kernel


def fewer_adapters(instance: Instance, rows: Rows) -> Rows:
    """The rows with parameters of no more adapters; the slowest kernel gets no slower, and no row higher or longer."""
    refined = copied(rows)
    _refine(instance, refined, slowest(instance, rows))
    pack(refined)
    return refined


@kernel
def _min_c(sizes, rows, number, h, w, limit):
    """The least c with which an upright kernel keeps its k; :data:`NEVER` where none is enough."""
    c = 0
    for place in range(sizes.convolutions[sizes.group[number]]):
        formal = sizes.formal[sizes.group[number], place]
        c = max(c, min_c(formal, h, w, rows.k[number, place], limit, sizes.wafer[MEMORY]))
    return c


@kernel
def _sized(sizes, rows, number, row_height, h, w, wanted_c, limit, c, k):
    """Whether a kernel can have (h, w) and c = ``wanted_c``, if it has inputs; writes its ``c`` and ``k``."""
    group, total, height = sizes.group[number], 0, h * w * (wanted_c + 1)
    is_turned = rows.turned[number]
    if height > (rows.wide[number] if is_turned else row_height):
        return False
    for place in range(sizes.convolutions[group]):
        formal = sizes.formal[group, place]
        if h > formal[sizing.HEIGHT] or w > formal[sizing.WIDTH]:
            return False
        c[place] = min(wanted_c, formal[INPUTS])
        least = min_k(formal, h, w, c[place], limit, sizes.wafer[MEMORY])
        k[place] = least if is_turned else rows.k[number, place]
        if least > k[place] or least >= NEVER:
            return False
        total += k[place]
    return not is_turned or 3 * total <= row_height


@kernel
def _differing(instance, rows, number, h, w, c):
    """Adapters on all edges of a kernel if it has (h, w, c)."""
    total = 0
    for each in range(instance.first[number], instance.first[number + 1]):
        other = instance.joined[each]
        other_c = common_c(rows.c[other], instance.sizes.convolutions[instance.sizes.group[other]])
        total += adapters(h, w, c, rows.h[other], rows.w[other], other_c)
    return total


@kernel
def _other(instance, number, each):
    """The neighbour at a place of ``joined``, or the kernel itself at the place before its first."""
    return number if each < instance.first[number] else instance.joined[each]


@kernel
def _following_c(sizes, rows, number, h, w, limit):
    """The c that follows from (h, w): upright the least, turned the largest."""
    if rows.turned[number]:
        return rows.wide[number] // (h * w) - 1
    return _min_c(sizes, rows, number, h, w, limit)


@kernel
def _improve(instance, rows, number, row_height, limit, c, k):
    """Give a kernel the acceptable parameters with the fewest adapters; whether these are fewer than before."""
    sizes = instance.sizes
    count = sizes.convolutions[sizes.group[number]]
    before = _differing(instance, rows, number, rows.h[number], rows.w[number], common_c(rows.c[number], count))
    best, best_h, best_w, best_c = before, 0, 0, 0
    for one in range(instance.first[number] - 1, instance.first[number + 1]):
        h = rows.h[_other(instance, number, one)]
        for two in range(instance.first[number] - 1, instance.first[number + 1]):
            w = rows.w[_other(instance, number, two)]
            for three in range(instance.first[number] - 1, instance.first[number + 1]):
                wanted_c = rows.c[_other(instance, number, three), 0]
                if three < instance.first[number]:
                    wanted_c = _following_c(sizes, rows, number, h, w, limit)
                if wanted_c < 1 or not _sized(sizes, rows, number, row_height, h, w, wanted_c, limit, c, k):
                    continue
                differing = _differing(instance, rows, number, h, w, common_c(c, count))
                if differing < best:
                    best, best_h, best_w, best_c = differing, h, w, wanted_c
    if best == before:
        return False
    _sized(sizes, rows, number, row_height, best_h, best_w, best_c, limit, c, k)
    rows.h[number], rows.w[number] = best_h, best_w
    total = 0
    for place in range(count):
        rows.c[number, place], rows.k[number, place] = c[place], k[place]
        total += k[place]
    height = best_h * best_w * (best_c + 1)
    if rows.turned[number]:
        rows.wide[number], rows.high[number] = height, 3 * total
    else:
        rows.high[number] = height
    return True


@compiled
def _refine(instance, rows, limit):
    c, k = np.empty(rows.c.shape[1], dtype=np.int64), np.empty(rows.c.shape[1], dtype=np.int64)
    improving = True
    while improving:
        improving = False
        for row in range(len(rows.height)):
            for place in range(rows.begin[row], rows.begin[row + 1]):
                number = rows.order[place]
                improving |= _improve(instance, rows, number, rows.height[row], limit, c, k)
