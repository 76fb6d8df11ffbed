"""A placement as a picture (SVG): kernels coloured by how busy they are, edges between their centres."""

import html
from collections.abc import Iterator

from dse.wafer.check import kernel_time, size_tiles
from dse.wafer.problem import Kernel, PlacedKernel, WaferPlacement, WaferProblem

_PIXELS = 900
_LOW, _HIGH = (255, 243, 214), (209, 73, 91)
"""Colours of a kernel that always waits and of the slowest."""

_STYLE = (
    "text{font-family:system-ui,sans-serif;fill:#1d2b36;text-anchor:middle;dominant-baseline:central}"
    "rect{stroke:#1d2b36}.edge{stroke:#1f6f8b;fill:none;opacity:.75}.skip{stroke-dasharray:6 4}"
)


def drawing(problem: WaferProblem, placement: WaferPlacement) -> str:
    """The picture, y upwards; a kernel's tooltip has its parameters and figures."""
    wafer = problem.wafer
    times = [float(kernel_time(*pair)) for pair in zip(problem.kernels, placement.placed, strict=True)]
    scale = _PIXELS / max(wafer.width_tiles, wafer.height_tiles)
    width, height = wafer.width_tiles * scale, wafer.height_tiles * scale
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-1 -1 {width + 2:g} {height + 2:g}' width='{width:g}' "
        f"height='{height:g}' role='img'><style>{_STYLE}</style>",
        f"<rect width='{width:g}' height='{height:g}' fill='#f4f7f9'/>",
    ]
    for kernel, placed, time in zip(problem.kernels, placement.placed, times, strict=True):
        parts += _rectangle(kernel, placed, time, time / max(times), scale, height)
    parts += _edges(problem, placement, scale, height)
    return "\n".join((*parts, "</svg>")) + "\n"


def _rectangle(
    kernel: Kernel, placed: PlacedKernel, time: float, busy: float, scale: float, height: float
) -> Iterator[str]:
    across, up = size_tiles(placed)
    left, top = placed.x * scale, height - (placed.y + up) * scale
    colour = ",".join(f"{low + busy * (high - low):.0f}" for low, high in zip(_LOW, _HIGH, strict=True))
    figures = f"h={placed.h} w={placed.w} c={_list(placed.c)} k={_list(placed.k)} {placed.rotation}"
    told = f"{kernel.name} ({kernel.kind}): {figures}, {across} × {up} tiles, time {time:g}, busy {100 * busy:.1f} %"
    yield (
        f"<rect x='{left:.2f}' y='{top:.2f}' width='{across * scale:.2f}' height='{up * scale:.2f}' "
        f"fill='rgb({colour})'><title>{html.escape(told)}</title></rect>"
    )
    size = min(14.0, max(across, up) * scale / max(2, len(kernel.name)), 0.9 * min(across, up) * scale)
    x, y = left + across * scale / 2, top + up * scale / 2
    turned = f" transform='rotate(-90 {x:.2f} {y:.2f})'" if up > across else ""
    yield f"<text x='{x:.2f}' y='{y:.2f}' font-size='{size:.1f}'{turned}>{html.escape(kernel.name)}</text>"


def _list(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _edges(problem: WaferProblem, placement: WaferPlacement, scale: float, height: float) -> Iterator[str]:
    """Lines between centres; edges that lead past other kernels of the order are dashed."""
    rank = {number: place for place, number in enumerate(problem.order)}
    for source, target in problem.edges:
        ends = []
        for placed in (placement.placed[source], placement.placed[target]):
            across, up = size_tiles(placed)
            ends.append(f"{(placed.x + across / 2) * scale:.2f},{height - (placed.y + up / 2) * scale:.2f}")
        kind = "edge" if rank[target] == rank[source] + 1 else "edge skip"
        yield f"<polyline class='{kind}' points='{' '.join(ends)}'/>"
