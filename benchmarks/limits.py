"""Whether every search stops when it is told to, and leaves an answer: ``python -m benchmarks.limits [CASE]…``.

Each command runs three times in a process of its own: once to compile its kernels, unmeasured; once with a limit of
15 s; once with the same limit and SIGTERM at half of it. Target: it ends within 5 s + 5 % of the limit (within 5 s of
the signal), with the exit code of a stopped run; its result file is there, and ``dse check`` holds it. Every problem
is too large to be answered by then.

A wall time says nothing on a loaded machine: beside it stand the load, and the CPU seconds of the process and of all
that it has waited for. A run is "late under load" where the share of a core that it had explains its wall time.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT_S = 15.0
PATIENCE_S = 180.0
"""After which a process that does not stop, or a check, is ended."""

INTERRUPTED = 130
DUMPS = ROOT / "dse" / "reproduce" / "automap" / "dumps"
MODERN = ("--network", "gb200-nvl72", "--accelerators", "16128", "--global-batch", "16128")


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        arguments: of ``dse``; ``LAYER`` and ``SMALL_LAYER`` stand for generated layers.
        answer: the file that it leaves; None where a stopped run leaves what ``--resume`` goes on from.
        is_checked: whether ``dse check`` reads that file.
    """

    arguments: tuple[str, ...]
    answer: str | None = "result.json"
    is_checked: bool = True


def _case(text: str, answer: str | None = "result.json", is_checked: bool = True) -> Case:
    return Case(tuple(text.split()), answer, is_checked)


BIG_PLAN = "deepseek-v3 --on h100-sxm --network dgx-h100 --accelerators 20160 --global-batch 40320"

CASES = {
    "codesign": _case("codesign gpt3-175b megatron-8.3b llama2-7b --workers 0"),
    "codesign-ray": _case("codesign gpt3-175b megatron-8.3b llama2-7b --workers 2"),
    "codesign-hysteresis": _case("codesign gpt3-175b megatron-8.3b --search hysteresis --hysteresis 20 --workers 2"),
    "codesign-bayesian": _case("codesign gpt3-175b --search bayesian --samples 100000 --workers 2"),
    "codesign-all": _case("codesign megatron-2.5b --pareto --sensitivity --workers 0"),
    "codesign-modern": _case(f"codesign deepseek-v3 --plans modern --area-budget 750 --hbm-gb 288 {' '.join(MODERN)}"),
    "place": _case(f"place {ROOT}/tests/data/placement/20_54L_W4_K256_fastnet_hbm32.json"),
    "schedule": _case("schedule LAYER"),
    "schedule-cp-sat": _case("schedule LAYER --method cp-sat"),
    "schedule-scip": _case("schedule SMALL_LAYER --method scip"),
    "partition": _case("partition bert-large --package mcm-36 --workers 0"),
    "partition-ray": _case("partition bert-large --package mcm-36 --workers 2"),
    "partition-rl": _case("partition bert-large --package mcm-36 --method rl --samples 100000"),
    "wafer": _case("wafer resnet50-conv --moves 10000000000 --workers 0"),
    "wafer-ray": _case("wafer resnet50-conv --moves 10000000000 --workers 2"),
    "wafer-gigaplacer": _case("wafer resnet50-conv --method gigaplacer --workers 0"),
    "wafer-slicing-tree": _case("wafer resnet50-conv --method slicing-tree --moves 10000000000 --workers 0"),
    "wafer-sweep": _case("wafer resnet50-conv --moves 1000000000 --sweep width=300:633:1 --workers 0"),
    "parallel": _case(f"parallel {DUMPS}/t5-11b.hlo.gz --mesh data=8,model=8,depth=4 --memory-gb 32"),
    "parallel-pipeline": _case(f"parallel {DUMPS}/t5-11b.hlo.gz --strategy pipeline --mesh 64 --stages 32"),
    "parallel-hybrid": _case(f"parallel {DUMPS}/t5-11b.hlo.gz --strategy hybrid --mesh 8"),
    "parallel-all": _case(f"parallel {DUMPS}/bert-48.hlo.gz --strategy all --mesh 16"),
    "fabric-place": _case("fabric place bert-large:layer0 --moves 100000000 --workers 0"),
    "fabric-place-cut": _case("fabric place bert-large --moves 10000000 --workers 0"),
    "fabric-place-ray": _case("fabric place bert-large:layer0 --moves 100000000 --workers 2"),
    "fabric-tune": _case("fabric tune --workers 0", None),
    "fabric-train": _case("fabric train --workers 0", None),
    "fabric-train-ray": _case("fabric train --workers 2", None),
    "pretrain-partition": _case("pretrain partition --samples 1000000 --checkpoints 2 --workers 0", None),
    "pretrain-partition-ray": _case("pretrain partition --samples 1000000 --checkpoints 2 --workers 2", None),
    "plan": _case(f"plan {BIG_PLAN} --sensitivity --constraints"),
    "predict": _case(f"predict {BIG_PLAN}"),
    "reproduce-phaze": _case("reproduce phaze --workers 0", "reproduction.json", False),
    "reproduce-mcm": _case("reproduce mcm --workers 0", "reproduction.json", False),
    "reproduce-gigaplacer": _case(
        "reproduce gigaplacer table1 --models resnet50-conv,unet-conv --workers 0", "reproduction.json", False
    ),
    "reproduce-automap": _case("reproduce automap --workers 0", "reproduction.json", False),
    "reproduce-rdu": _case("reproduce rdu --workers 0", "reproduction.json", False),
    "reproduce-rdu-ray": _case("reproduce rdu --workers 2", "reproduction.json", False),
}


@dataclass(frozen=True)
class Stopped:
    """How a process ended.

    Attributes:
        code: its exit code; None where it had to be ended.
        wall_s: from its start.
        after_s: from the limit, or from the signal.
        cpu_s: of it and of all that it has waited for.
        load: of the machine at its end, over the last minute.
        printed: what it wrote to stderr.
    """

    code: int | None
    wall_s: float
    after_s: float
    cpu_s: float
    load: float
    printed: str


def stopped(arguments: tuple[str, ...], folder: Path, limit_s: float, signal_s: float | None = None) -> Stopped:
    """``dse`` with a time limit; with SIGTERM so long after its start, too."""
    command = [sys.executable, "-m", "dse", *arguments, "--time-limit", f"{limit_s:g}", "--out", str(folder), "--quiet"]
    before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    printed = ""
    try:
        if signal_s is not None:
            try:
                printed = process.communicate(timeout=signal_s)[1]
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=limit_s + PATIENCE_S)[1] or printed
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        printed, code = process.communicate()[1], None
    wall_s, after = time.monotonic() - begun_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    since_s = limit_s if signal_s is None else signal_s
    return Stopped(code, wall_s, wall_s - since_s, cpu_s, os.getloadavg()[0], printed)


def verdict(case: Case, folder: Path, run: Stopped, is_signal: bool, allowed_s: float) -> str:
    """What is wrong with a run that was stopped; ``ok`` where nothing is."""
    if run.code is None:
        return f"did not end within {PATIENCE_S:.0f} s"
    faults = []
    if run.after_s > allowed_s:
        share = run.cpu_s / run.wall_s  # of a core: what others left it
        if run.after_s * min(1.0, share) > allowed_s or run.load < (os.cpu_count() or 1):
            faults.append("late")
        else:
            faults.append("late under load")
    if "Traceback" in run.printed:
        faults.append(run.printed.strip().splitlines()[-1])
    # What was proven before the signal stays proven, with the exit code of an answer.
    if run.code not in ((INTERRUPTED, 0) if is_signal else (0, 3)):
        faults.append(f"exit code {run.code}")
    if case.answer is not None:
        faults += _answer_faults(case, folder / case.answer)
    return ", ".join(faults) or ("ended before" if run.after_s < 0 else "ok")


def _answer_faults(case: Case, path: Path) -> list[str]:
    if not path.exists():
        return [f"no {path.name}"]
    if not case.is_checked:
        return []
    result = json.loads(path.read_text())
    faults = [] if result["bound"] is not None else ["no bound"]
    faults += [] if result["solution"] or result["infeasibility"] else ["no solution"]
    check = [sys.executable, "-m", "dse", "check", str(path)]
    try:
        done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return [*faults, f"dse check had not ended after {PATIENCE_S:.0f} s"]
    return faults if done.returncode == 0 else [*faults, f"dse check: {(done.stdout + done.stderr).strip()[:200]}"]


def random_layer(operators: int, seed: int) -> dict[str, object]:
    """A layer whose order leaves far too much open for any search."""
    draw = random.Random(seed)
    kinds = [draw.choice(("tensor", "vector", "fused")) for _ in range(operators)]
    entries = []
    for number, kind in enumerate(kinds):
        single_s = draw.uniform(1e-6, 1e-4)
        all_cores_s = single_s * draw.uniform(0.15, 1.0)
        entries.append({"name": f"op{number}", "kind": kind, "single_s": single_s, "all_cores_s": all_cores_s})
    edges = [[f"op{draw.randrange(number)}", f"op{number}"] for number in range(1, operators) if draw.random() < 0.6]
    return {"schema": "dse.schedule/1", "tensor_cores": 3, "vector_cores": 4, "operators": entries, "edges": edges}


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S")
    parser.add_argument("--warm", action="store_true", help="The kernels are compiled already.")
    given = parser.parse_args()
    for name in given.cases:
        if name not in CASES:
            parser.error(f"CASE: must be one of {', '.join(CASES)}, but got {name}")
    allowed_s = 5.0 + 0.05 * given.limit
    print(f"limit {given.limit:g} s; at most {allowed_s:g} s after it, 5 s after SIGTERM; {os.cpu_count()} cores")
    print(f"{'case':<24} {'stopped by':<10} {'wall s':>7} {'after s':>8} {'CPU s':>7} {'load':>5}  verdict", flush=True)
    is_good = True
    with tempfile.TemporaryDirectory(prefix="dse-limits-") as parent:
        layer = Path(parent) / "layer.json"
        layer.write_text(json.dumps(random_layer(120, 1)))
        (Path(parent) / "small.json").write_text(json.dumps(random_layer(40, 1)))
        for name in given.cases or CASES:
            case, folder = CASES[name], Path(parent) / name
            inputs = {"LAYER": str(layer), "SMALL_LAYER": str(layer.with_name("small.json"))}
            arguments = tuple(inputs.get(each, each) for each in case.arguments)
            if not given.warm:
                stopped(arguments, folder / "warm", given.limit)
            for label, signal_s, most_s in (("limit", None, allowed_s), ("SIGTERM", given.limit / 2, 5.0)):
                run = stopped(arguments, folder / label, given.limit, signal_s)
                said = verdict(case, folder / label, run, signal_s is not None, most_s)
                is_good &= said in ("ok", "ended before", "late under load")
                figures = f"{run.wall_s:7.1f} {run.after_s:8.1f} {run.cpu_s:7.1f} {run.load:5.1f}"
                print(f"{name:<24} {label:<10} {figures}  {said}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
