"""What every reproduction keeps to."""

import json

from dse.reproduce.section import UNKNOWN


def assert_whole(done, parts):
    """Every part has tables and charts of whole rows, and a cause for each number far from the paper's."""
    assert [section.part for section in done.sections] == list(parts)
    for section in done.sections:
        assert section.tables
        for table in section.tables:
            assert table.rows
            assert all(len(row) == len(table.headers) for row in table.rows), section.part
        for each in section.comparisons:
            assert each.explanation != UNKNOWN, (section.part, each)
        for chart in section.charts:
            assert all(len(series.x) == len(series.y) for series in chart.series)


class Kept(dict):
    """A journal that is not written."""

    def append_all(self, values):
        self.update(json.loads(json.dumps(values)))
