"""What ``dse check`` does not check: entries of a result that only the run could know, or whose proof is too long."""

from dataclasses import dataclass
from typing import Any

from dse.problem import Posed, problem_type
from dse.results.result import Result


@dataclass(frozen=True)
class NotChecked:
    """Entries that the check takes on trust.

    Attributes:
        keys: paths in the result, such as ``metrics.methods``.
        reason: why.
    """

    keys: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{', '.join(self.keys)}: {self.reason}"


def not_checked(
    result: Result, posed: Posed[Any, Any], run_code: bool = False, proven: bool = False
) -> list[NotChecked]:
    """All that a check of ``result`` without faults leaves open; ``proven``: whether long proofs were repeated."""
    problem = problem_type(result.command)
    metrics = [f"metrics.{key}" for key in problem.unchecked if key in result.metrics]
    known = ("evaluations", "seconds", "versions", *metrics)
    settings = (*problem.steering, *(problem.additions if result.objective.value is None else ()))
    chosen = ("seed", "method", *(f"settings.{key}" for key in settings if key in result.settings))
    entries = [
        NotChecked(known, "known only to the run; checked only for consistency with the rest"),
        NotChecked(chosen, "properties of the search, which the answer does not reveal"),
    ]
    code = tuple(f"inputs.{name}" for name in result.inputs if name.startswith("graph of "))
    if code and not run_code:
        entries.append(NotChecked(code, "taken from the result; --run-code reruns the code that produced it"))
    claims = {} if proven else problem.open_claims(result, posed)
    return entries + [NotChecked((key,), reason) for key, reason in claims.items()]
