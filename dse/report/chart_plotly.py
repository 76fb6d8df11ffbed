"""Charts as plotly figures, to zoom into: for notebooks and ``charts.html``."""

from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from dse.report.chart import Axis, BarChart, Chart, Crowd, LaneChart, Line, PointChart, Points, Symbol, TreeMap
from dse.report.palette import FONT, INK, LINE, PAPER
from dse.report.svg_lanes import lane_height

_SYMBOLS: Mapping[Symbol, str] = {"ring": "circle-open", "triangle": "triangle-up"}
"""Those that plotly calls otherwise."""


def figure_of(chart: Chart) -> go.Figure:
    """The chart; its legend is above it and never covers the axes."""
    match chart:
        case PointChart():
            drawn = _figure(chart.title, chart.height, map(_mark, chart.marks))
            _axes(drawn, chart.x, chart.y)
        case BarChart():
            bars = (
                go.Bar(name=bar.name, x=list(chart.categories), y=list(bar.heights), marker={"color": bar.colour})
                for bar in chart.bars
            )
            drawn = _figure(chart.title, chart.height, bars)
            _axes(drawn, Axis(chart.x), chart.y)
            drawn.update_layout(barmode="stack" if chart.stacked else "group")
            drawn.update_xaxes(type="category")
            for level, colour in chart.limits.values():
                drawn.add_hline(y=level, line={"color": colour, "width": 1.5, "dash": "dash"})
        case LaneChart():
            drawn = _lanes(chart)
        case TreeMap():
            drawn = _tree_map(chart)
    return drawn


def _figure(title: str, height: int, traces: Iterable[go.Scatter]) -> go.Figure:
    return go.Figure(
        data=list(traces),
        layout={
            "template": "plotly_white",
            "title": {"text": title, "font": {"size": 15}, "x": 0, "xref": "paper", "y": 0.98, "yanchor": "top"},
            "height": height + 60,
            "margin": {"l": 70, "r": 20, "t": 90, "b": 60},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "showlegend": True,
            "font": {"family": FONT, "color": INK},
            "hoverlabel": {"align": "left"},
        },
    )


def _axes(drawn: go.Figure, x: Axis, y: Axis) -> None:
    for axis, update in ((x, drawn.update_xaxes), (y, drawn.update_yaxes)):
        update(
            title=axis.title,
            automargin=True,
            type="log" if axis.logarithmic else "linear",
            rangemode="tozero" if axis.from_zero else "normal",
            visible=not axis.hidden,
        )
        if axis.ticks is not None:
            update(tickvals=list(axis.ticks), ticktext=list(axis.ticks.values()))


def _mark(mark: Points | Crowd | Line) -> go.Scatter:
    texts: Sequence[str] | None = mark.texts or None
    about = {"x": list(mark.x), "y": list(mark.y), "name": mark.name, "text": texts, "showlegend": bool(mark.name)}
    hover = {"hovertemplate": "%{text}<extra></extra>" if texts else None}
    match mark:
        case Line():
            line = {"color": mark.colour, "width": mark.width, "dash": mark.dash or "solid"}
            line["shape"] = "hv" if mark.steps else "linear"
            return go.Scatter(**about, **hover, mode="lines", line=line, fill="tozeroy" if mark.filled else None)
        case Crowd():
            return go.Scattergl(**about, **hover, mode="markers", marker={"color": mark.colour, "size": 3})
        case Points():
            marker = {"color": mark.colour, "size": mark.size, "symbol": _SYMBOLS.get(mark.symbol, mark.symbol)}
            down = [y - low for y, low in zip(mark.y, mark.low, strict=True)] if mark.low else None
            error = {"symmetric": False, "array": [0] * len(mark.y), "arrayminus": down, "color": LINE}
            drawn = go.Scattergl if len(mark.x) > 1000 else go.Scatter
            return drawn(**about, **hover, mode="markers", marker=marker, error_y=error if down else None)


def _lanes(chart: LaneChart) -> go.Figure:
    traces = []
    for kind, (label, colour) in chart.legend.items():
        bars = [bar for bar in chart.bars if bar.kind == kind]
        if not bars:
            continue
        marker = {"color": colour, "pattern": {"shape": ["/" if bar.hatched else "" for bar in bars], "solidity": 0.35}}
        traces.append(
            go.Bar(
                orientation="h",
                name=label,
                y=[bar.lane + (bar.place[0] + 0.5) / bar.place[1] * 0.76 - 0.38 for bar in bars],
                width=[0.76 / bar.place[1] for bar in bars],
                base=[bar.start for bar in bars],
                x=[bar.length for bar in bars],
                text=[bar.label for bar in bars],
                textposition="outside",
                cliponaxis=False,
                hovertext=[bar.text for bar in bars],
                hoverinfo="text",
                marker={**marker, "line": {"color": PAPER, "width": 0.5 if chart.outlined else 0}},
            )
        )
    drawn = _figure(chart.title, int(lane_height(chart)), traces)
    _axes(drawn, Axis(chart.x), Axis("", ticks={float(at): name for at, name in enumerate(chart.lanes)}))
    drawn.update_layout(barmode="overlay")
    drawn.update_yaxes(range=[len(chart.lanes) - 0.5, -0.5], showgrid=False, zeroline=False)
    return drawn


def _tree_map(chart: TreeMap) -> go.Figure:
    inner: dict[tuple[str, ...], float] = {}
    for tile in chart.tiles:
        for depth in range(1, len(tile.path)):
            inner[tile.path[:depth]] = inner.get(tile.path[:depth], 0.0) + tile.size
    # A tile is known by its number, as it may share its name with a box.
    names = ["/".join(path) for path in inner] + [f"#{number}" for number in range(len(chart.tiles))]
    tree = go.Treemap(
        ids=names,
        labels=[path[-1] for path in inner] + [tile.path[-1] for tile in chart.tiles],
        parents=["/".join(path[:-1]) for path in inner] + ["/".join(tile.path[:-1]) for tile in chart.tiles],
        values=[*inner.values(), *(tile.size for tile in chart.tiles)],
        hovertext=["/".join(path) for path in inner] + [tile.text for tile in chart.tiles],
        hoverinfo="text",
        marker={"colors": [PAPER] * len(inner) + [tile.colour for tile in chart.tiles]},
        branchvalues="total",
        tiling={"pad": 1},
        pathbar={"visible": False},
    )
    legend = (
        go.Scatter(x=[None], y=[None], mode="markers", name=label, marker={"color": colour, "symbol": "square"})
        for label, colour in chart.legend.items()
    )
    drawn = _figure(chart.title, chart.height, [tree, *legend])
    _axes(drawn, Axis("", hidden=True), Axis("", hidden=True))
    return drawn
