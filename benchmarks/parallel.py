"""Parallel plans: how long they take to prove, and whether Shardy and XLA arrive at the same; one row per claim.

Parts (``python -m benchmarks.parallel PART …``; all by default):

* ``linkage``: from HLO text to the proven plan without resharding; the paper's learner took 0.5 to 1.45 hours.
* ``sharding``: with resharding, memory for a fifth and a seventh of the arguments, next to the plan without resharding.
* ``iopddl``: random choice problems of the contest's form, and case G of the contest next to XLA's own solution, where
  the folder that ``--cases`` (or the variable ``DSE_CASES``) names holds it.
* ``classes``, ``shardy``, ``devices``: linkage groups, collectives and results next to Shardy and XLA, where JAX is
  installed (extra ``jax``).

Times are CPU seconds, medians of ``--runs`` fresh processes (and the range), without imports. Kernels come from numba's
cache, which one run fills beforehand.
"""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.parallel_cases import LIMIT_S, PLANS, agreeing, beside_shardy, chosen, lower, on_devices, planned
from benchmarks.process import ROOT, answer_of
from benchmarks.recording import Record, Results, cpu_s, parser_of
from tests.shared_data import CASES

RECORD = Record("parallel", ("random",), {"main": ("claim", "target", "measured", "compared with", "")})

STEPS = ("vgg19", "t5-6", "t5-11b")
LINKAGE = {"vgg19": (0.5, None), "t5-6": (2.0, None), "t5-11b": (5.0, 2.0)}
"""(seconds, GB) at most."""

SHARDING = (
    ("vgg19", "8", 5, 5.0, 0.0),
    ("vgg19", "8", 7, 5.0, 0.0),
    ("t5-6", "8", 5, 30.0, 0.0),
    ("t5-6", "8", 7, 30.0, 0.0),
    ("t5-11b", "8", 5, LIMIT_S, 0.005),
    ("t5-11b", "8", 7, LIMIT_S, 0.005),
    ("t5-6", "data=4,model=8", 5, LIMIT_S, 0.01),
    ("t5-6", "data=4,model=8", 7, LIMIT_S, 0.01),
)
"""Step, mesh, what share of the arguments fits, seconds and gap at most."""

CASE_G, XLA_G, CASE_S, RANDOM_S = 217_039, 1_264_777, 30.0, 60.0
RANDOM = tuple((seed, memory) for seed in range(3) for memory in (1.02, 1.1, 1.3))
DEVICES = (("bert-tiny", 4e-5), ("t5-tiny", 4e-5))
TOLERANCE = 1e-5


class Row(NamedTuple):
    """A claim: what it is about, the target, what was measured, a baseline, whether the target is met, and CPU s."""

    claim: str
    target: str
    measured: str
    baseline: str
    is_met: bool
    seconds: float = 0.0


# ---------------------------------------------------------------------------------------------------------- the rows


def child(what: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    """What a function of :mod:`benchmarks.parallel_cases` gives in a fresh process."""
    return answer_of("benchmarks.parallel_cases", what.__name__, *arguments)


def repeated(runs: int, what: Callable[..., dict[str, Any]], *arguments: object) -> tuple[dict[str, Any], str]:
    """The first answer, with the median of all times, and what is printed of them."""
    answers = [child(what, *arguments) for _ in range(runs)]
    return answers[0] | {"seconds": statistics.median(each["cpu_s"] for each in answers)}, _spread(answers)


def _spread(answers: Sequence[dict[str, Any]]) -> str:
    times = [each["cpu_s"] for each in answers]
    text = f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"
    return f"{text}, {max(each['peak_gb'] for each in answers):.2f} GB"


def _proof(gap: float | None) -> str:
    return "no plan" if gap is None else "proven" if gap < 1e-9 else f"gap {100 * gap:.3f} %"


def linkage(folder: Path, runs: int) -> Iterator[Row]:
    """From text to the proven plan without resharding."""
    for name, (limit_s, limit_gb) in LINKAGE.items():
        path = folder / f"{name}.hlo"
        found, times = repeated(runs, planned, path, "8", "linkage", 0)
        command = [sys.executable, "-m", "dse", "parallel", str(path), "--method", "linkage", "--quiet"]
        whole = []
        for _ in range(runs):
            begun = cpu_s()
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            whole.append(cpu_s() - begun)
        target = f"{limit_s:g} s" + (f", {limit_gb:g} GB" if limit_gb else "")
        met = found["seconds"] <= limit_s and (not limit_gb or found["peak_gb"] <= limit_gb)
        measured = f"{_proof(found['gap'])}, {times}; whole command {statistics.median(whole):.2f} s"
        baseline = f"step {1e3 * found['value_s']:.1f} ms, data parallel {1e3 * found['other_s']:.1f} ms"
        yield Row(f"linkage, {name}", target, measured, baseline, met and found["gap"] < 1e-9)


def sharding(folder: Path, runs: int) -> Iterator[Row]:
    """With resharding, within memory."""
    for name, mesh, fraction, limit_s, gap in SHARDING:
        found, times = repeated(runs, planned, folder / f"{name}.hlo", mesh, "exact", fraction)
        met = found["seconds"] <= limit_s and found["gap"] is not None and found["gap"] <= max(gap, 1e-9)
        other = f"{1e3 * found['other_s']:.1f} ms" if found["other_s"] else "does not fit"
        step = f"{1e3 * found['value_s']:.1f} ms" if found["value_s"] else "none"
        target = f"{limit_s:g} s, " + (f"gap {100 * gap:g} %" if gap else "proven")
        baseline = f"step {step}, without resharding {other}"
        yield Row(f"{name}, {mesh}, 1/{fraction}", target, f"{_proof(found['gap'])}, {times}", baseline, met)


def iopddl(_: Path, runs: int) -> Iterator[Row]:
    """Pairwise problems as such."""
    case = Path(os.environ.get(CASES, "")) / "iopddl" / "asplos-2025-iopddl-G.json.gz"
    if case.exists():
        found, times = repeated(runs, chosen, case, 0)
        met = found["value"] == CASE_G and found["gap"] < 1e-9 and found["seconds"] <= CASE_S
        measured = f"{found['value']:,} {_proof(found['gap'])}, {times}"
        yield Row("IOPDDL case G", f"{CASE_G:,} in {CASE_S:g} s", measured, f"XLA: {XLA_G:,}", met)
    else:
        print(f"iopddl: case G is left out, as there is no {case}")
    for seed, memory in RANDOM:
        found, times = repeated(runs, chosen, seed, memory)
        met = found["gap"] is not None and found["gap"] < 1e-9 and found["seconds"] <= RANDOM_S
        baseline = f"cost {found['value']:,}; least node costs {found['greedy']:,}"
        measured = f"{_proof(found['gap'])}, {times}"
        yield Row(f"random, seed {seed}, memory {memory}", f"{RANDOM_S:g} s", measured, baseline, met, found["seconds"])


def classes(_: Path, __: int) -> Iterator[Row]:
    """Linkage groups next to Shardy's propagation."""
    for name in ("vgg19", "t5-6", "bert-large"):
        found = child(agreeing, name)
        same = found["compared"] - len(found["different"])
        rest = "; ".join(map(str, found["different"])) or "Shardy: the same"
        yield Row(
            f"linkage groups, {name}",
            "all alike",
            f"{same} of {found['compared']}",
            rest,
            same == found["compared"],
        )


def shardy(folder: Path, _: int) -> Iterator[Row]:
    """Collectives next to Shardy's explicit ones."""
    for name in STEPS:
        for plan in PLANS:
            found = child(beside_shardy, name, folder / f"{name}.hlo", plan)
            measured = "; ".join([f"{found['runs']:,} runs, {found['bytes']:,} bytes", *map(str, found["different"])])
            baseline = f"Shardy: {found['shardy_bytes']:,} bytes"
            yield Row(f"collectives, {name}, {plan}", "the same", measured, baseline, not found["different"])


def devices(folder: Path, _: int) -> Iterator[Row]:
    """Plans on eight CPU devices."""
    for name, memory_gb in DEVICES:
        child(lower, name, folder)
        for mesh in ("8", "data=2,model=4"):
            out = folder / f"{name}-{mesh}"
            command = [sys.executable, "-m", "dse", "parallel", str(folder / f"{name}.hlo"), "--mesh", mesh]
            command += ["--method", "linkage", "--memory-gb", str(memory_gb), "--out", str(out), "--quiet"]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            metrics = json.loads((out / "result.json").read_text())["metrics"]
            found = child(on_devices, name, out)
            ours: dict[str, int] = {}
            for each in metrics["collectives"]:
                key = f"{each['kind']} {each['axes']}"
                ours[key] = ours.get(key, 0) + each["bytes"]
            one, other = found["losses"]
            met = found["difference"] <= TOLERANCE and abs(one - other) <= TOLERANCE * abs(one)
            met = met and found["argument_bytes"] == metrics["state_bytes"] and ours == found["collectives"]
            measured = f"{found['difference']:.0e} off, {metrics['state_bytes']:,} bytes of arguments, {_texts(ours)}"
            baseline = f"XLA: {found['argument_bytes']:,} bytes, {_texts(found['collectives'])}"
            yield Row(f"on 8 devices, {name}, {mesh}", f"{TOLERANCE:g}, same bytes", measured, baseline, met)


def _texts(sums: dict[str, int]) -> str:
    return "; ".join(f"{key} {size:,}" for key, size in sorted(sums.items())) or "nothing sent"


PARTS = {
    "linkage": linkage,
    "sharding": sharding,
    "iopddl": iopddl,
    "classes": classes,
    "shardy": shardy,
    "devices": devices,
}
WITH_JAX = ("classes", "shardy", "devices")


def main(parts: Sequence[str], runs: int, record: bool) -> int:
    """All rows; whether a target is missed."""
    from dse.reproduce.automap.models import text_of_step

    missed, results = 0, Results(RECORD)
    random_s: list[float] = []
    with tempfile.TemporaryDirectory(prefix="dse-parallel-") as name:
        folder = Path(name)
        for step in STEPS:
            (folder / f"{step}.hlo").write_text(text_of_step(step))
        child(planned, folder / "vgg19.hlo", "8", "exact", 5)  # compiles
        for part in parts or PARTS:
            if part in WITH_JAX and importlib.util.find_spec("jax") is None:
                print(f"{part}: left out, as JAX is not installed (extra jax)")
                continue
            for row in PARTS[part](folder, runs):
                missed += not row.is_met
                results.row("main", *row[:4], "reached" if row.is_met else "missed")
                if row.claim.startswith("random"):
                    random_s.append(row.seconds)
    if random_s:
        results.figure("random", f"{max(random_s):.1f} CPU seconds")
    results.save(record)
    print(f"targets: {'all met' if not missed else f'{missed} missed'}")
    return int(missed > 0)


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all when none is named")
    parser.add_argument("--cases", help=f"folder of the contest's cases [the variable {CASES}]")
    parser.add_argument("--runs", type=int, default=3, help="of everything that is timed [3]")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"must be some of {', '.join(PARTS)}, but got {', '.join(sorted(unknown))}")
    if arguments.cases is not None:
        os.environ[CASES] = arguments.cases
    sys.exit(main(arguments.parts, arguments.runs, arguments.record))
