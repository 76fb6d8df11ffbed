"""Why nothing fits, as data: which resource, how much is needed, how much there is, and what would make it fit."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Infeasibility(BaseModel):
    """The proof that a problem has no feasible answer, in figures and in one sentence.

    Attributes:
        resource: what is too small (``hbm_bytes``, ``tiles``, ``arrangement``).
        demand: how much of it the least demanding choice needs.
        limit: how much there is.
        unit: of both.
        levers: what would make it fit, each a short phrase.
        explanation: one or two sentences for people.
        where: what needs it (a stage, operators, kernels), by problem.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    resource: str
    demand: float
    limit: float
    unit: str
    levers: list[str]
    explanation: str
    where: dict[str, Any]

    @classmethod
    def of(cls, proof: dict[str, Any]) -> "Infeasibility":
        """A proof in JSON types: what it holds in addition to the fields goes into ``where``."""
        own = {key: value for key, value in proof.items() if key in cls.model_fields and key != "where"}
        own.setdefault("levers", [])
        return cls(**own, where={key: value for key, value in proof.items() if key not in cls.model_fields})

    def document(self) -> dict[str, Any]:
        """The inverse of :meth:`of`."""
        own = self.model_dump(exclude={"where"})
        return {**own, **self.where}
