"""`dse check` against results in which one entry was changed: everything that can be recomputed is."""

import json
from copy import deepcopy

import pytest

from dse.results.check import check_result
from dse.wafer.options import WaferOptions
from hardware.inputs import InputError
from tests.solving import answer
from tests.wafer.small import blocks_text, conv_line, graph_text

FREE = ("evaluations", "seconds", "versions")
"""What only the run itself knows; of these no value that cannot be may stand there."""

FREE_OF_A_STOPPED_RUN = ("bound", "metrics")
"""How far the bound came, and which part was stopped."""

FREE_OF_A_POINT = ("bound", "reason")
"""A bound may lie anywhere below a cost, and a point that is proven to have no placement may not have been begun."""

ASSUMED = (None, 0, {}, [], "portfolio")
"""What an entry is where it is not given."""


def kept(folder, options, result):
    """The result in a run directory of its own, as the command writes it."""
    folder.mkdir()
    arguments = options.document() | {"seed": result.seed}
    (folder / "run.yaml").write_text(json.dumps({"command": "wafer", "arguments": arguments}))
    path = folder / "result.json"
    path.write_text(result.to_json())
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Files of an answer, of a sweep, of a proof that nothing fits, and of a search that was stopped at once."""
    folder = tmp_path_factory.mktemp("results")
    blocks, none, pair = (folder / f"{name}.kgraph" for name in ("blocks", "none", "pair"))
    blocks.write_text(blocks_text(adapter=5))
    pair.write_text(graph_text([conv_line(1), conv_line(2)], [("conv[1]", "conv[2]")], adapter=2))
    none.write_text(graph_text([conv_line(1, inputs=64, outputs=64, height=1, width=1)], [], memory=20, height=12))
    asked = WaferOptions(str(blocks), moves=2000)
    swept = WaferOptions(str(pair), moves=500, sweep=("side=2,8,20",))
    nothing = WaferOptions(str(none), moves=0)
    return {
        "answer": kept(folder / "answer", asked, answer(asked)),
        "sweep": kept(folder / "sweep", swept, answer(swept)),
        "infeasible": kept(folder / "infeasible", nothing, answer(nothing)),
        "stopped": kept(folder / "stopped", asked, answer(asked, stop=lambda: "interrupted")),
    }


KINDS = ("answer", "sweep", "infeasible", "stopped")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_unchanged_passes(results, kind):
    assert check_result(results[kind], None) == []


def leaves(document, place=()):
    """Where values stand that hold no others."""
    if isinstance(document, dict | list) and document:
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in pairs:
            yield from leaves(value, (*place, key))
    else:
        yield place


def others(value):
    """Other values of the same type, and values of other types."""
    if isinstance(value, bool):
        return [not value, int(value), None]
    if isinstance(value, int | float):
        return [value + 1, -1 - value, str(value), None]
    if isinstance(value, str):
        return [value + "x", 7, None]
    return ["x", 7, [7], {"x": 7}]


def refused(path, document):
    whole = path.read_text()
    try:
        path.write_text(json.dumps(document))
        return bool(check_result(path, None))
    except InputError:
        return True
    finally:
        path.write_text(whole)


def changed(document, place):
    """(the value of an entry, the document with each of its other values, and without it)."""
    found = deepcopy(document)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    value = inner[place[-1]]
    for other in others(value):
        inner[place[-1]] = other
        yield other, found
    if value not in ASSUMED:
        del inner[place[-1]]
        yield "missing", found


@pytest.mark.parametrize("kind", KINDS)
def test_every_changed_entry_is_found(results, kind):
    path = results[kind]
    document = json.loads(path.read_text())
    missed = [
        (place, value)
        for place in leaves(document)
        for value, other in changed(document, place)
        if not refused(path, other)
    ]
    possible = FREE + (FREE_OF_A_STOPPED_RUN if kind == "stopped" else ())
    known = [(place, value) for place, value in missed if place[0] not in possible]
    assert [each for each in known if each[0][-1] not in FREE_OF_A_POINT] == []
    # Not even there can be what is no count, no time and no version.
    assert all(type(value) in (int, float, str, type(None)) and value != -1 for _, value in missed)


def test_what_can_be_no_count_is_found(results):
    path = results["answer"]
    document = json.loads(path.read_text())
    for key, values in (("evaluations", (-1, 1.5, "5", True)), ("seconds", (-0.1, "5", True)), ("seed", (-1, "0"))):
        for value in values:
            assert refused(path, document | {key: value}), (key, value)
    settings = document["metrics"]["settings"]
    for moves in (-1, 2.5, "2000"):
        metrics = document["metrics"] | {"settings": settings | {"moves": moves}}
        assert refused(path, document | {"metrics": metrics}), moves


def test_a_result_elsewhere_is_checked_by_itself(results, tmp_path):
    alone = tmp_path / "result.json"
    alone.write_text(results["answer"].read_text())
    assert check_result(alone, None) == []


def test_a_forged_proof_is_found(results):
    path = results["answer"]
    document = json.loads(path.read_text())
    value, bound = document["objective"]["value"], document["bound"]
    assert bound < value
    assert refused(path, document | {"status": "optimal", "bound": value, "gap": 0.0})
    higher = bound + (value - bound) / 2
    assert refused(path, document | {"bound": higher, "gap": 1 - higher / value})
