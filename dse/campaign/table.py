"""The table of a campaign: a row for each cell, with the command that answers it alone."""

import csv
import io
from collections.abc import Sequence

import pyarrow as pa

from dse.campaign.check import labels_of
from dse.campaign.posed import CampaignPosed
from dse.campaign.questions import command_line
from dse.campaign.rows import Row, columns_of, figures_of

TABLE, CSV_FILE = "cells", "cells.csv"


def table_of(posed: CampaignPosed, rows: Sequence[Row]) -> pa.Table:
    """Axes, baseline, answer, figures, seconds, command."""
    labels, columns = labels_of(posed), columns_of(rows)
    axes = labels["axes"]
    columns = {name if name not in axes else f"{name} (answer)": column for name, column in columns.items()}
    taken = {*axes, *columns, "baseline", "seconds", "command"}
    figures = {name if name not in taken else f"{name} (figure)": each for name, each in figures_of(rows).items()}
    campaign = posed.problem
    types = {"value": pa.float64(), "bound": pa.float64(), "gap": pa.float64()}
    return pa.table(
        {
            **axes,
            "baseline": labels["baseline"],
            **{name: pa.array(column, types.get(name, pa.string())) for name, column in columns.items()},
            **{name: pa.array(column, pa.float64()) for name, column in figures.items()},
            "seconds": [row.seconds for row in rows],
            "command": [command_line(campaign.settings(cell)) for cell in campaign.cells],
        }
    )


def csv_of(table: pa.Table) -> str:
    """The same as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return text.getvalue()
