"""The files of a plan that ``--export`` names, instead of those that every run directory has."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from dse.plan.export import REFUSALS_FILE
from dse.plan.export.chakra import ChakraTraces
from dse.plan.export.memory_snapshot import memory_snapshot
from dse.plan.export.requirements import FRAMEWORKS
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import whole_plan
from dse.report.view import FolderFiles, View
from dse.results.result import Result

CHAKRA_FOLDER, MEMORY_FILE = "chakra", "memory.pickle"


def with_exports(view: View, problem: PlanProblem, result: Result, names: Collection[str] | None) -> View:
    """The view with the files of ``names`` alone, and with those that are written on request; as it is for None."""
    if names is None or not result.solution:
        return view
    plan, made = whole_plan(result.solution["plan"], "result"), view.files

    def files() -> Mapping[str, str | bytes]:
        of_frameworks = {name for name in FRAMEWORKS if name.partition(".")[0] not in names}
        kept = {name: content for name, content in made().items() if name not in of_frameworks}
        if not {*names} & {name.partition(".")[0] for name in FRAMEWORKS}:
            kept.pop(REFUSALS_FILE, None)
        return {**kept, MEMORY_FILE: memory_snapshot(problem, plan)} if "memory" in names else kept

    traces = ChakraTraces(problem, plan)
    folder = FolderFiles(traces.devices, lambda: traces.size_bytes, traces.write)
    return replace(view, files=files, folders={CHAKRA_FOLDER: folder} if "chakra" in names else {})
