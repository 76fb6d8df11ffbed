"""Steps with their linkage groups."""

from pathlib import Path

import pytest

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import read_hlo
from dse.sharding.linkage import linkage

DUMPS = Path(__file__).parents[1] / "data" / "hlo"
STEPS = ["vgg-tiny.hlo", "vgg-tiny.opt.hlo", "dlrm-tiny.hlo", "rare.hlo"]


@pytest.fixture(scope="module", params=STEPS)
def linked(request):
    """(step, its linkage groups)."""
    graph = step_graph(read_hlo(DUMPS / request.param), request.param)
    return graph, linkage(graph)
