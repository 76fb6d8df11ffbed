"""What a map reports to Ray's metrics, as Prometheus reads it."""

import time
import urllib.request

import pytest
import ray

from tests.actors import inside


class Refuse:
    """Fails on odd items."""

    def __call__(self, item):
        if item % 2:
            raise ValueError("odd")
        return item


def exported():
    """The metrics of this program that the node exports, by name."""
    port = ray.nodes()[0]["MetricsExportPort"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith("ray_dse_"):
            name, value = line.split("{")[0], line.rsplit(" ", 1)[1]
            found[name.removeprefix("ray_").removesuffix("_total")] = float(value)
    return found


@pytest.mark.ray_interface
@pytest.mark.slow
def test_counts_and_depths_are_exported(ray_executor):
    ray_executor.release()
    with inside.workers(1, watched={"dse_journal_hits": lambda: 7.0}) as executor:
        list(executor.outcomes(Refuse(), range(40)))
        while (found := exported()).get("dse_items_failed", 0) < 20:
            time.sleep(1)
    assert found["dse_items_finished"] >= 40
    assert found["dse_journal_hits"] == 7
    assert found["dse_items_queued"] == 0
