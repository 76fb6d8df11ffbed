"""What every reproduction keeps to."""

import html
import json

from dse.cli.reproduce import print_reproduction
from dse.reproduce.output import report
from dse.reproduce.section import UNKNOWN, Reproduction
from tests import terminal
from tests.report.browser import MAX_BYTES


def assert_whole(sections, parts):
    """Every part has tables and charts of whole rows, a cause for each number far from the paper's, and room on a
    terminal and on a page.
    """
    assert [section.part for section in sections] == list(parts)
    for section in sections:
        assert section.tables
        for table in section.tables:
            assert table.rows
            assert all(len(row) == len(table.headers) for row in table.rows), section.part
        for each in section.comparisons:
            assert each.explanation != UNKNOWN, (section.part, each)
        for chart in section.charts:
            assert all(len(series.x) == len(series.y) for series in chart.series)
    assert_shown(*sections)


def assert_shown(*sections):
    """The answer comes first, on a terminal and on the page; tables fit, and the page is small and needs no script."""
    done = Reproduction("paper", "Author: Title", {"workers": 0, "seed": 0}, "A budget.", sections, 1.0)
    tables = [table for section in sections for table in section.tables]
    for width in terminal.WIDTHS:
        for whole in (False, True):
            text = terminal.printed(width, print_reproduction, done, None, whole)
            assert terminal.faults(text, width) == []
            assert terminal.lost_columns(tables, text) == []
    page = report(done)
    assert len(page.encode()) <= MAX_BYTES
    assert "<script" not in page
    shown = html.unescape(page)
    assert "(s)" not in done.summary
    assert shown.index(done.verdict) < shown.index(done.citation)


class Kept(dict):
    """A journal that is not written."""

    def append_all(self, values):
        self.update(json.loads(json.dumps(values)))
