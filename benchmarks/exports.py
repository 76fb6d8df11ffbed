"""Exported plans in the parsers and checks of the frameworks themselves.

Each framework has to be importable (installed in this environment, or its folder on ``PYTHONPATH``): torchtitan 0.2,
DeepSpeed, Megatron Core, MaxText. What is not is said, and skipped. Where a framework has code that reads its settings,
that code reads ours; where it checks sizes against the number of devices, ours are checked by it:

* torchtitan: ``ConfigManager`` reads the file and, as arguments, every value of it; ``ParallelDims`` the degrees;
  ``pipeline_llm`` the stages (on a model of no weights); ``apply_ac`` the recomputation; names of converters are looked
  up. Its batch rule is in the trainer's constructor, which needs GPUs, and is applied here by its text.
* DeepSpeed: ``DeepSpeedConfig``; keys that no version of it reads would be ignored, and are looked up in its constants.
* Megatron-LM: where ``megatron.training.arguments`` is importable, ``parse_args`` and ``validate_args``. Megatron Core
  alone, which is what its package has, checks its own part: ``TransformerConfig`` (or that of latent attention),
  ``OptimizerConfig``, ``DistributedDataParallelConfig``, ``RankGenerator`` and the layout of stages; a flag that names
  no field of these is reported as one that only Megatron-LM knows.
* MaxText: ``pyconfig`` with its ``base.yml``, which derives batch and stages; ``fill_unspecified_mesh_axes`` for ranks.

The table says what each framework answered; the exit code is 1 where one refused a file that was written for it.
"""

import importlib
import importlib.metadata
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.export_checks import deepspeed, maxtext, megatron, torchtitan
from benchmarks.recording import Record, Results, parser_of
from dse.plan.check import illegal
from dse.plan.export import REFUSALS_FILE, exports
from dse.plan.model_sources import transformer
from dse.plan.problem import PlanProblem
from dse.plan.stack import stack
from dse.plan.training_plan import SETTINGS, TrainingPlan, read_plan
from hardware.chips import system

RECORD = Record("exports", ("plans",), {"main": ("framework", "what reads the files", "files written, all accepted")})

_CASES = Path(__file__).parent / "data" / "exports.yaml"


class Case(NamedTuple):
    """A plan of a model on a machine."""

    name: str
    model: str
    devices: int
    batch: int
    sequence: int
    plan: str
    software: str = "generic"


def cases() -> list[Case]:
    """The plans that are checked."""
    return [Case(**each) for each in yaml.safe_load(_CASES.read_text(encoding="utf-8"))]


Check = Callable[[PlanProblem, TrainingPlan, Path], str]
"""Of a file that was written for a problem and a plan."""


def posed(case: Case) -> tuple[PlanProblem, TrainingPlan]:
    """The problem and the plan, which keeps all rules."""
    given = read_plan(case.plan)
    plain = {"tensor": 1, "sequence_parallel": False, "context": 1, "expert": 1, "data": 1, "pipeline": 1, "zero": 0}
    plain |= {"interleave": 1, "schedule": "1f1b", "microbatch": 1, "recompute": "none", "precision": "bf16"}
    plan = TrainingPlan(**plain | given)
    fixed = {key: getattr(plan, key) for key in SETTINGS if key in given or key == "precision"}
    machine = system({"mxfp8": "gb200", "int8": "tpuv5p"}.get(plan.precision, "h100-sxm"))
    problem = PlanProblem(
        transformer(case.model),
        machine,
        case.devices,
        case.batch,
        case.sequence,
        stack(case.software),
        tuple(sorted(fixed.items())),
    )
    faults = illegal(problem, plan)
    assert not faults, (case.name, faults)
    return problem, plan


FRAMEWORKS: dict[str, tuple[str, str, Check]] = {
    "torchtitan.toml": ("torchtitan", "torchtitan", torchtitan),
    "deepspeed.json": ("deepspeed", "deepspeed", deepspeed),
    "megatron.args": ("megatron.core", "megatron-core", megatron),
    "maxtext.yml": ("maxtext", "maxtext", maxtext),
}
"""By file: the module and the distribution of the framework, and what has it check a file."""

READERS = {
    "torchtitan": "ConfigManager, ParallelDims, `pipeline_llm`, `apply_ac`, names of converters",
    "deepspeed": "DeepSpeedConfig, and that it has a constant for each key",
    "megatron-core": (
        "TransformerConfig, OptimizerConfig, DistributedDataParallelConfig, RankGenerator, layout of stages"
    ),
    "maxtext": "`pyconfig` on `base.yml`, `fill_unspecified_mesh_axes`",
}
"""By distribution: its code that reads a file."""


def version(module: str, distribution: str) -> str | None:
    """Of an importable framework, by its distribution where that is known, else by what it says itself."""
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return None
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(loaded, "__version__", "of unknown version"))


def answer(check: Check, problem: PlanProblem, plan: TrainingPlan, path: Path) -> tuple[bool, str]:
    """(accepted, what was said) of one file."""
    try:
        with Path("/dev/null").open("w", encoding="utf-8") as quiet, redirect_stdout(quiet):
            said = check(problem, plan, path)
    except (Exception, SystemExit) as error:  # whatever a framework raises is its refusal
        words = " ".join(str(error).split()) or type(error).__name__
        return False, f"refused: {type(error).__name__}: {words[:160]}"
    return True, f"accepted ({said})"


def show(file: str, name: str, check: Check) -> tuple[int, int]:
    """Print what a framework says of each plan: how many files were written, and how many of them it accepted."""
    written = accepted = 0
    every = cases()
    for case in every:
        problem, plan = posed(case)
        texts = exports(problem, plan)
        if file in texts:
            with tempfile.TemporaryDirectory(prefix="exports") as folder:
                path = Path(folder, file)
                path.write_text(texts[file], encoding="utf-8")
                good, said = answer(check, problem, plan, path)
            written, accepted = written + 1, accepted + good
        else:
            lines = texts[REFUSALS_FILE].splitlines()
            reasons = [line.partition("cannot express ")[2] for line in lines if line.startswith(file)]
            said = f"not written: {reasons[0]}"
        print(f"{name:<21} {case.name:<27} {said}")
    print(f"{name}: {accepted} of {written} files accepted, {len(every) - written} plans not written\n")
    return written, accepted


def main() -> int:
    """Print the table; 1 where a framework refused a file, 2 where none is importable."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--framework", choices=[distribution for _, distribution, _ in FRAMEWORKS.values()])
    arguments = parser.parse_args()
    chosen = arguments.framework
    written = accepted = 0
    for file, (module, distribution, check) in FRAMEWORKS.items():
        if chosen not in (None, distribution):
            continue
        known = version(module, distribution)
        if known is None:
            print(f"{distribution}: not installed, {file} is not checked")
            continue
        counts = show(file, f"{distribution} {known}", check)
        written, accepted = written + counts[0], accepted + counts[1]
        if arguments.record:
            assert counts[0] == counts[1], f"{distribution} refuses files: {counts[1]} of {counts[0]} accepted"
            results.row("main", f"{distribution} {known}", READERS[distribution], counts[0])
    if arguments.record:
        results.figure("plans", len(cases()))
        results.save(True)
    return 2 if not written else int(accepted < written)


if __name__ == "__main__":
    sys.exit(main())
