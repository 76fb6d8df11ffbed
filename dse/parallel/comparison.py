"""What ``dse compare`` shows of parallel plans: times, memory, bytes sent, and the tensors that are split otherwise."""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from dse.parallel.formats import MetricsDocument, SolutionDocument
from dse.results.result import Result

_NUMBER = re.compile(r"\d+")
_PART = re.compile(r"[.\[]")

_FIGURES = ("work_s", "communication_s", "hidden_s", "state_bytes", "peak_bytes", "split_dimensions")

Rows = dict[str, tuple[Any, ...]]
"""By label, a value for each result; None where a result has none."""


def compared(results: Sequence[Result]) -> Rows:
    """The rows of these results, those of no plan among them.

    Tensors whose names differ in numbers alone, or in the argument that holds them (the moments of a parameter), share
    a row where every plan splits them alike.
    """
    plans = [SolutionDocument.model_validate(result.solution) if result.solution else None for result in results]
    metrics = [MetricsDocument.model_validate(result.metrics) if result.metrics else None for result in results]
    rows: Rows = {"mesh": tuple(None if plan is None else plan.mesh for plan in plans)}
    for name in _FIGURES:
        rows[name] = tuple(None if each is None else getattr(each, name) for each in metrics)
    sent = [None if each is None else _sent(each) for each in metrics]
    for key in sorted({key for each in sent if each is not None for key in each}):
        rows[f"{key}_bytes"] = tuple(None if each is None else each.get(key, 0) for each in sent)
    return rows | _splits([None if plan is None else _texts(plan) for plan in plans])


def _sent(metrics: MetricsDocument) -> dict[str, int]:
    """Bytes by kind of collective and axes."""
    sent: dict[str, int] = defaultdict(int)
    for each in metrics.collectives:
        sent[f"{each.kind.replace('_', '-')} along {each.axes}"] += each.bytes
    return sent


def _texts(plan: SolutionDocument) -> dict[str, str]:
    return {name: split_text(split) for name, split in plan.arguments.items()}


def _splits(plans: Sequence[dict[str, str] | None]) -> Rows:
    families: dict[tuple[str, tuple[str | None, ...]], list[str]] = defaultdict(list)
    names = dict.fromkeys(name for plan in plans if plan is not None for name in plan)
    tails = {tail(name) for name in names}
    for name in names:
        splits = tuple(None if plan is None else plan.get(name) for plan in plans)
        families[_NUMBER.sub("#", _belongs_to(name, tails)), splits].append(name)
    return {
        f"split of {names[0]}" + (f" and {len(names) - 1:,} more" if len(names) > 1 else ""): splits
        for (_, splits), names in families.items()
    }


def _belongs_to(name: str, tails: Collection[str]) -> str:
    """The shortest end of a name that is a tail: ``['w']`` of ``moments['mean']['w']`` next to ``params['w']``."""
    ends = (name[match.end() if match.group() == "." else match.start() :] for match in _PART.finditer(name))
    return next((end for end in reversed([name, *ends]) if end in tails), name)


def split_text(split: Sequence[Sequence[str]]) -> str:
    """For each dimension the axes that split it: ``(data+model, -)``."""
    return f"({', '.join('+'.join(axes) or '-' for axes in split)})"


def tail(name: str) -> str:
    """The name of a tensor without the name of the argument that holds it."""
    return name[name.find("[") :] if "[" in name else name
