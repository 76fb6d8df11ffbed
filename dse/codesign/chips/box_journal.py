"""What came of boxes in JSON types: lines of a journal, by the box and the score that was needed."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from dse.codesign.chips.boxes import Box
from dse.codesign.chips.leaf import ChosenChip, Priced
from dse.codesign.chips.opening import Counts, OpenBox, Opened, Plans
from dse.codesign.chips.plan_lists import packed, unpacked
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.silicon import Realisation
from dse.plan.training_plan import whole_plan
from dse.results.result import digest
from hardware.chip_space import Memory


def question(problem: ChipProblem) -> str:
    """A digest of what decides what comes of every box."""
    constants = None if problem.constants is None else problem.constants.model_dump(mode="json")
    return digest({**problem.document(), "chips": [], "constants": constants})


def task_key(question: str, open_: OpenBox, needed: float) -> str:
    """The key of a box and of the score that is needed: a digest of all that decides what comes of it."""
    whole = hashlib.sha256(f"{question} {_box_document(open_.box)} {needed!r}".encode())
    for each in open_.plans:
        for precision, own in each:
            whole.update(f"{precision} {own.are_families}".encode())
            for array in (own.rows, own.memory_bytes, own.bounds_s):
                whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:32]


def opened_document(opened: Opened) -> dict[str, Any]:
    """What came of a box."""
    return {
        "parts": [
            {
                "box": _box_document(each.box),
                "plans": [[[precision, packed(own)] for precision, own in lists] for lists in each.plans],
                "score": each.score,
            }
            for each in opened.parts
        ],
        "priced": [_priced_document(each) for each in opened.priced],
        "counts": asdict(opened.counts),
        "plans": opened.plans,
    }


def opened_from(document: Any) -> Opened:
    """The same from a line.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: it is none.
    """
    return Opened(
        tuple(_parts_from(document["parts"])),
        tuple(map(_priced_from, document["priced"])),
        Counts(**document["counts"]),
        document["plans"],
    )


def _parts_from(documents: Any) -> Iterator[OpenBox]:
    for each in documents:
        plans: Plans = tuple(tuple((precision, unpacked(text)) for precision, text in lists) for lists in each["plans"])
        yield OpenBox(_box_from(each["box"]), plans, float(each["score"]))


def _box_document(box: Box) -> dict[str, Any]:
    return {each.name: getattr(box, each.name) for each in fields(box)} | {"cores": box.cores.tolist()}


def _box_from(document: dict[str, Any]) -> Box:
    tuples = {name: tuple(document[name]) for name in ("clocks", "links", "memories", "realisations")}
    return Box(**{**document, **tuples, "cores": np.array(document["cores"], dtype=np.int64)})


def _priced_document(priced: Priced) -> dict[str, Any]:
    chip = {each.name: getattr(priced.chip, each.name) for each in fields(ChosenChip)}
    return {
        "score": priced.score,
        "chip": chip | {"memory": asdict(priced.chip.memory)},
        "plans": [each.document() for each in priced.plans],
        "steps_s": list(priced.steps_s),
        "usd": priced.usd,
    }


def _priced_from(document: Any) -> Priced:
    chip = document["chip"]
    parts = {"memory": Memory(**chip["memory"]), "links": Links(*chip["links"]), "how": Realisation(*chip["how"])}
    plans = tuple(whole_plan(each, "journal") for each in document["plans"])
    return Priced(
        document["score"], ChosenChip(**{**chip, **parts}), plans, tuple(document["steps_s"]), document["usd"]
    )
