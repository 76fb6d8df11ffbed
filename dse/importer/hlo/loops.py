"""How often a loop runs."""

import re

from dse.importer.hlo.module import Computation, Instruction

_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"(\d{1,18})"')
_WHOLE = re.compile(r"-?\d{1,18}$")


def passes_of(loop: Instruction, condition: Computation) -> int | None:
    """The passes of a loop: as XLA states them, or as its condition compares a counter with a constant."""
    if stated := _TRIPS.search(loop.attribute_text):
        return int(stated.group(1))
    instructions = condition.instructions.values()
    limits = [int(each.literal) for each in instructions if each.opcode == "constant" and _WHOLE.match(each.literal)]
    compared = [each for each in instructions if each.opcode == "compare"]
    if len(limits) == len(compared) == 1 and compared[0].attributes.get("direction") == "LT" and limits[0] > 0:
        return limits[0]
    return None
