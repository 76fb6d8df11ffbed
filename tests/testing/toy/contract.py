"""``dse toy``: the 0-1 knapsack by complete enumeration."""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from dse.problem import Posed, ProblemType, result_of
from dse.report.view import Table, View
from dse.results.infeasibility import Infeasibility
from dse.results.result import Objective, document_of
from dse.run.options import Option, Options
from hardware.documents import read_document
from hardware.inputs import validate


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Document(_Model):
    capacity: int
    must_take: int = 0
    items: dict[str, tuple[int, int]]


class Solution(_Model):
    taken: list[str]


class Metrics(_Model):
    weight: int


@dataclass(frozen=True)
class ToyOptions(Options):
    COMMAND: ClassVar[str] = "toy"

    items: Annotated[str, Option("A knapsack.", metavar="ITEMS", positional=True, is_source=True)]
    method: Annotated[Literal["all", "reversed"], Option("The order of enumeration.")] = "all"


class ToyType(ProblemType[ToyOptions, Document]):
    name = "toy"
    help = "Pack the most valuable of ITEMS (JSON: capacity, items as NAME: [weight, value])."
    Options = ToyOptions
    Solution = Solution
    Metrics = Metrics

    def pose(self, options):
        document = read_document(options.items)
        problem = validate(Document, _tuples(document), options.items)
        objective = Objective(name="value", value=None, unit="1", sense="max")
        return Posed(options, problem, "knapsack", document_of(problem.model_dump()), objective)

    def answer(self, posed, run):
        problem, best = posed.problem, run.journal["best"] if run.journal and "best" in run.journal else None
        count, lightest = 0, sum(sorted(weight for weight, _ in problem.items.values())[: problem.must_take])
        if lightest > problem.capacity:
            proof = Infeasibility(
                resource="capacity", demand=lightest, limit=problem.capacity, unit="1",
                levers=["a larger knapsack"], where={},
                explanation=f"the {problem.must_take} lightest items weigh {lightest} of {problem.capacity}",
            )  # fmt: skip
            return result_of("toy", posed, infeasibility=proof, method=posed.options.method, seed=run.seed)
        for choice in product((True, False), repeat=len(problem.items)):
            if best is not None and count == 0 and run.journal:
                break
            if run.stop():
                break
            count += 1
            taken = [name for name, is_taken in zip(problem.items, choice, strict=True) if is_taken]
            weight, value = _sums(problem, taken)
            if weight <= problem.capacity and len(taken) >= problem.must_take and (not best or value > best[0]):
                best = [value, taken]
        whole = count in (0, 2 ** len(problem.items))
        if whole and best and run.journal is not None:
            run.journal.append("best", best)
        result = result_of(
            "toy", posed, method=posed.options.method, seed=run.seed, evaluations=count,
            value=float(best[0]) if best else None, bound=float(best[0]) if best and whole else None,
            solution={"taken": best[1]} if best else None,
            metrics={"weight": _sums(problem, best[1])[0]} if best else None,
        )  # fmt: skip
        return result.model_copy(update={"status": "interrupted"}) if run.stop() == "interrupted" else result

    def faults(self, result, posed):
        if not result.solution:
            again = self.answer(posed, _Once())
            same = result.infeasibility == again.infeasibility
            return [] if same and not result.metrics else ["infeasibility must be that of the problem"]
        taken = result.solution["taken"]
        weight, value = _sums(posed.problem, taken)
        checks: list[tuple[bool, str]] = [
            (len({*taken}) == len(taken), "an item is taken twice"),
            (weight <= posed.problem.capacity, f"weight {weight} is too much"),
            (len(taken) >= posed.problem.must_take, "too few items are taken"),
            (result.objective.value == value, f"objective.value must be {value}"),
            (result.metrics == {"weight": weight}, f"metrics.weight must be {weight}"),
            (result.bound in (None, self.answer(posed, _Once()).bound), "bound must be the optimum"),
        ]
        return [text for holds, text in checks if not holds]

    def view(self, result, posed, tables):
        if not result.solution:
            words = result.infeasibility.explanation if result.infeasibility else "stopped before any answer"
            return View("knapsack", f"infeasible: {words}")
        rows = [(name, *map(str, posed.problem.items[name])) for name in result.solution["taken"]]
        table = Table(("item", "weight", "value"), rows)
        return View("knapsack", f"value {result.objective.value}", tables=[table], page=lambda: [table])


class _Once:
    journal, seed = None, 0

    def stop(self):
        return None


def _tuples(document: Any) -> Any:
    if not isinstance(document, dict) or not isinstance(document.get("items"), dict):
        return document
    return document | {"items": {k: tuple(v) if isinstance(v, list) else v for k, v in document["items"].items()}}


def _sums(problem, taken):
    known = [problem.items.get(name, (10**9, 0)) for name in taken]
    return sum(weight for weight, _ in known), sum(value for _, value in known)


PROBLEM = ToyType()
