"""What ideal mappings overshoot on chips with measured kernels, by class, and templates against measured steps.

``python -m benchmarks.derating``. The estimator of templates is given the cores of the A100, the H100 and the B200,
without any constant of theirs, and its times are compared with measured ones in 16 bits: those of LLMCompass on the
A100, and those of three inference engines on the other two (AIConfigurator's tables, from the folder that DSE_CASES
names; experts with equal loads alone). ``--fit`` fits a factor and a start of each class to the rows that are marked
for it (``benchmarks/data/derating_rows.json``, ``kernel_rows.json``), each chip with the same weight, and writes
``hardware/specs/derating/template.yaml``. Errors are |predicted / measured − 1| on all other rows. A start is a
chip's own while it is fitted, since the A100's kernels were launched by a host; the least of all is kept.

Printed first is each chip with constants of the others. The last table has Megatron-LM's measured steps on A100
(Selene), predicted with an accelerator of the template that has the A100's cores: nothing was fitted to a step.
"""

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from benchmarks.kernel_rows import SOURCE, Group, groups
from benchmarks.recording import Record, Results, parser_of
from benchmarks.training_predictions import predicted
from benchmarks.training_rows import Run, runs
from dse.calibration.rows import read_rows
from dse.plan.stack import derated_rates, template_stack
from hardware.derating import Derating, KernelClass, derating
from hardware.documents import yaml_of
from hardware.estimator import estimate
from hardware.kernel_times.form import Floats
from hardware.mapped_kernels import mapped_s
from hardware.network import Network
from hardware.network_specs import link_peak_bytes_per_s
from hardware.operations import Gemm
from hardware.specs import accelerator, as_template
from tests.shared_data import shared_data

CHIPS = ("a100-sxm", "h100-sxm", "b200")
MARKS = Path(__file__).parent / "data" / "derating_rows.json"
SPEC = Path(__file__).parents[1] / "hardware" / "specs" / "derating" / "template.yaml"
TABLES: Mapping[str, KernelClass] = {
    "gemm": "dense", "moe": "grouped", "attention_prefill": "attention", "attention_decode": "decode",
    "mla_prefill": "attention", "mla_decode": "decode", "nccl": "collective",
}  # fmt: skip
LONG_S = 1e-4
"""Kernels of training take at least about as long."""

ERRORS = ("rows", "mean", "median", f"mean, {1e6 * LONG_S:.0f} µs and more")
RECORD = Record(
    "derating",
    ("selene.derated", "selene.left_out", "selene.ideal"),
    {
        "left_out": ("class", "chip left out", *ERRORS),
        "classes": ("class", "factor", "start, µs", "chips", *ERRORS, "ideal, mean"),
        "steps": ("run", "measured s", "derated s", "error %", "A100 left out, error %", "ideal, error %"),
    },
)


@dataclass(frozen=True)
class Rows:
    """Kernels of one class on one chip: ideal and measured seconds and which may be fitted to, [N] each."""

    chip: str
    ideal_s: Floats
    measured_s: Floats
    is_fitted: np.ndarray

    def part(self, chosen: np.ndarray) -> "Rows":
        """Some of them."""
        return Rows(self.chip, self.ideal_s[chosen], self.measured_s[chosen], self.is_fitted[chosen])


def marks(name: str) -> np.ndarray:
    """Which rows of a table of ``tests/data/measured`` may be fitted to."""
    table = json.loads(MARKS.read_text(encoding="utf-8"))[name]
    digest = hashlib.sha256(shared_data("measured", f"{name}.csv").read_bytes()).hexdigest()
    assert digest == table["sha256"], f"{name}: is not the table that {MARKS.name} belongs to"
    chosen = np.zeros(table["rows"], dtype=bool)
    chosen[table["fitted"]] = True
    return chosen


def of_a100() -> dict[KernelClass, list[Rows]]:
    """Its products, vector work and all-reduces."""
    machine = as_template(accelerator("a100-sxm")).machines
    rows, may = read_rows(shared_data("measured", "a100_fp16_kernels.csv")), marks("a100_fp16_kernels")
    ideal = estimate([row.operation for row in rows], machine, None).all_cores_s[:, 0]
    measured = np.array([row.measured_s for row in rows])
    is_product = np.array([isinstance(row.operation, Gemm) for row in rows])
    kernels = Rows("a100-sxm", ideal, measured, may)
    name = "a100x4_nvlink3_allreduce"
    with shared_data("measured", f"{name}.csv").open(newline="", encoding="utf-8") as file:
        reduces = [(float(row["bytes"]), float(row["measured_s"])) for row in csv.DictReader(file)]
    sizes, seconds = np.array(reduces).T
    peak = Network("peak", link_peak_bytes_per_s("nvlink3"))
    ideal = np.array([peak.collective_s("all_reduce", size, 4) for size in sizes])
    return {
        "dense": [kernels.part(is_product)],
        "vector": [kernels.part(~is_product)],
        "collective": [Rows("a100-sxm", ideal, seconds, marks(name))],
    }


def of_engines(table: str) -> list[Rows]:
    """Rows of a table in 16 bits, of the chips whose cores are known."""
    found = []
    for group in groups(table):
        formats = group.variant.split()[2:][-1 if table in ("gemm", "moe") else -2 :]
        if group.chip not in CHIPS or (table != "nccl" and {*formats} != {"bfloat16"}):
            continue
        if group.variant.endswith("alltoall"):  # what each sends to another is not stated
            continue
        chosen = group
        if table == "moe":
            chosen = group.part(np.array([row["distribution"] == "balanced" for row in group.rows]))
        if len(chosen.measured_s):
            found.append(Rows(group.chip, ideal_s(chosen), chosen.measured_s, chosen.is_fitted))
    return found


def ideal_s(group: Group) -> Floats:
    """The ideal times of a group's kernels on the cores of its chip, at the peak of its links."""
    own = accelerator(group.chip)
    peak = Network("peak", link_peak_bytes_per_s(own.network))
    return mapped_s(group.kind, as_template(own).machines, peak, group.shapes)


def all_rows() -> dict[KernelClass, list[Rows]]:
    """Everything, by class."""
    found = of_a100()
    for table, name in TABLES.items():
        found.setdefault(name, []).extend(of_engines(table))
    return found


def fitted(parts: Sequence[Rows]) -> tuple[float, float]:
    """Factor and start of the marked rows of ``parts``."""
    chosen = [part.part(part.is_fitted) for part in parts if part.is_fitted.any()]
    chips = sorted({part.chip for part in chosen})
    ideal, measured = (np.concatenate([getattr(part, key) for part in chosen]) for key in ("ideal_s", "measured_s"))
    place = np.concatenate([np.full(len(part.ideal_s), chips.index(part.chip)) for part in chosen])
    weights = np.sqrt(1.0 / np.bincount(place)[place])

    def residuals(constants: Floats) -> Floats:
        predicted_s = constants[1:][place] * 1e-6 + constants[0] * ideal
        return weights * np.log(predicted_s / measured)

    start = np.array([1.3, *[5.0] * len(chips)])
    low, high = np.array([1.0, *[0.0] * len(chips)]), np.array([50.0, *[500.0] * len(chips)])
    found = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1 * weights.mean())
    return float(found.x[0]), float(found.x[1:].min()) * 1e-6


def judged(parts: Sequence[Rows], factor: float, start_s: float) -> tuple[Floats, Floats]:
    """Errors on rows that nothing was fitted to, and their measured seconds."""
    free = [part.part(~part.is_fitted) for part in parts]
    ideal, measured = (np.concatenate([getattr(part, key) for part in free]) for key in ("ideal_s", "measured_s"))
    return np.abs((start_s + factor * ideal) / measured - 1), measured


def shown(errors: Floats, measured: Floats) -> tuple[int | str, ...]:
    """Number, mean, median, and the mean of long kernels."""
    long = errors[measured >= LONG_S]
    texts = [f"{100 * each:.1f} %" for each in (errors.mean(), np.median(errors))]
    return len(errors), *texts, f"{100 * long.mean():.1f} %" if len(long) else "–"


def left_out(parts: Sequence[Rows]) -> dict[str, tuple[Floats, Floats]]:
    """By chip: errors with constants of the others, where there are others."""
    chips = [each for each in CHIPS if any(part.chip == each for part in parts)]
    found = {}
    for each in chips if len(chips) > 1 else []:
        constants = fitted([part for part in parts if part.chip != each])
        found[each] = judged([part for part in parts if part.chip == each], *constants)
    return found


def write_spec(rows: Mapping[KernelClass, Sequence[Rows]]) -> None:
    """Fit, and write what was found."""
    classes = {}
    for name, parts in rows.items():
        factor, start_s = (float(f"{each:.4g}") for each in fitted(parts))
        counts: dict[str, int] = {}
        for part in parts:
            counts[part.chip] = counts.get(part.chip, 0) + int(part.is_fitted.sum())
        known = Derating(
            factor=factor,
            start_s=start_s,
            rows=counts,
            error=float(f"{judged(parts, factor, start_s)[0].mean():.3g}"),
            left_out={chip: float(f"{errors.mean():.3g}") for chip, (errors, _) in left_out(parts).items()},
        )
        classes[name] = known.model_dump(mode="json")
    source = (
        "fitted by python -m benchmarks.derating --fit to the marked rows of LLMCompass (Zhang et al., ISCA 2024) on "
        f"A100 and of {SOURCE}"
    )
    document = {"name": "template", "source": source, "classes": classes}
    SPEC.parent.mkdir(exist_ok=True)
    text = yaml_of(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    SPEC.write_text(text, encoding="utf-8")


def on_template(run: Run, ideal: bool = False, matrix: float | None = None) -> Run:
    """A run on an accelerator of the template with the cores of its chip, with the facts of its stack.

    ``matrix`` is another factor of products.
    """
    own = as_template(accelerator(run.chip))
    network = run.problem.system.network
    rates = template_stack(network, ideal=True).rates if ideal else derated_rates(network)
    update = dict(rates) | {"fitted_on": ()}
    if matrix is not None:
        update["matrix"] = rates["matrix"].model_copy(update={"value": 1 / matrix})
    stack = run.problem.stack.model_copy(update=update)
    return replace(run, problem=replace(run.problem, machine=own.machines, stack=stack))


def main() -> None:
    """Fit, or report."""
    parser = parser_of(__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants again")
    arguments, results = parser.parse_args(), Results(RECORD)
    rows = all_rows()
    if arguments.fit:
        write_spec(rows)
        return
    for name, parts in rows.items():
        for chip, found in left_out(parts).items():
            results.row("left_out", name, chip, *shown(*found))
    for name, known in derating().classes.items():
        errors, measured = judged(rows[name], known.factor, known.start_s)
        plain, _ = judged(rows[name], 1.0, 0.0)
        constants = f"{known.factor:.3g}", f"{1e6 * known.start_s:.3g}", known.chips
        results.row("classes", name, *constants, *shown(errors, measured), f"{100 * plain.mean():.1f} %")
    others, _ = fitted([part for part in rows["dense"] if part.chip != "a100-sxm"])
    errors_of: dict[str, list[float]] = {"derated": [], "left_out": [], "ideal": []}
    for run in runs():
        if not run.name.startswith("selene") or run.step_s is None:
            continue
        posed = on_template(run), on_template(run, matrix=others), on_template(run, ideal=True)
        steps = [predicted(each)[0].step_s for each in posed]
        shares = [step / run.step_s - 1 for step in steps]
        for each, share in zip(errors_of.values(), shares, strict=True):
            each.append(share)
        cells = [f"{100 * share:+.1f}".replace("-", "−") for share in shares]
        results.row("steps", run.name, f"{run.step_s:.4g}", f"{steps[0]:.4g}", *cells)
    for label, found in errors_of.items():
        sizes = np.abs(found)
        results.figure(f"selene.{label}", f"{100 * sizes.mean():.1f} % on average, {100 * sizes.max():.1f} % at worst")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
