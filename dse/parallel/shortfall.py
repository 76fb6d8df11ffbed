"""Why no plan fits the memory of the devices, for every strategy."""

from collections.abc import Sequence

from dse.report.units import memory_text, needed_memory_text
from dse.results.infeasibility import Infeasibility


def lacking_memory(sentence: str, needed: int, limit: int, levers: Sequence[str]) -> Infeasibility:
    """The proof that what needs the fewest bytes of a device needs too many.

    Args:
        sentence: what needs ``{needed}`` of ``{limit}``, with these two words where the sizes are to stand.
        needed: bytes.
        limit: bytes that there are.
        levers: remedies other than more memory.
    """
    stated = sentence.format(needed=needed_memory_text(needed), limit=memory_text(limit))
    return Infeasibility(
        resource="memory_bytes",
        demand=needed,
        limit=limit,
        unit="bytes",
        levers=[f"{needed_memory_text(needed)} on each device", *levers],
        explanation=f"{stated} ({needed - limit:,} bytes too few).",
        where={},
    )
