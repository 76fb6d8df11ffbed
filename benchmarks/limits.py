"""Whether every search stops when it is told to, and leaves an answer: ``python -m benchmarks.limits [CASE]…``.

Each command runs three times in a process of its own: once to compile its kernels, unmeasured; once with a limit of
15 s; once without one and SIGTERM, sent when it has taken half as many CPU seconds and has written its first file.
Target: it ends within 5 s + 5 % of the limit (within 5 s of the signal), with the exit code of a stopped run; its
result file is there, and ``dse check`` holds it. Every problem is too large to be answered by then.

A wall time says nothing on a loaded machine, so it is shown with the CPU seconds that a command still took. Where the
machine has no free core and these are within the target, the verdict is "ok by CPU seconds".

With ``--record``, the rows of other cases stay as they were measured.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recording import Cell, Record, Results, cpu_s, parser_of

ROOT = Path(__file__).parents[1]
LIMIT_S = 15.0
PATIENCE_S = 600.0
"""After which a process that does not stop, or a check, is ended."""

SIGNAL_SHARE = 0.5
"""CPU seconds after which the signal is sent, in limits of 15 s: a loaded machine does not move it."""

POLL_S = 0.05
"""How often to check whether a command has written its first file."""

INTERRUPTED = 130
DUMPS = ROOT / "dse" / "reproduce" / "automap" / "dumps"
MODERN = ("--network", "gb200-nvl72", "--accelerators", "16128", "--global-batch", "16128")


RECORD = Record(
    "limits",
    figures=("cases", "held", "worst.limit", "worst.signal"),
    tables={
        "main": (
            "case",
            "after the limit, s",
            "CPU s after it",
            "after SIGTERM, s",
            "CPU s after that",
            "CPU share",
            "answer",
            "check",
            "verdict",
        )
    },
)


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        arguments: of ``dse``; ``LAYER`` and ``SMALL_LAYER`` stand for generated layers.
        answer: the file that it leaves; None where a stopped run leaves what ``--resume`` continues from.
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
    "codesign-modern": _case(
        f"codesign deepseek-v3 --plans modern --on none --area-budget 750 --hbm-gb 288 {' '.join(MODERN)}"
    ),
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
        after_s: from the limit, or from the signal; None where it ended before.
        cpu_s: of it and of all that it has waited for.
        after_cpu_s: those from the limit, or from the signal.
        load: of the machine at its end, over the last minute.
        printed: what it wrote to stderr.
    """

    code: int | None
    wall_s: float
    after_s: float | None
    cpu_s: float
    after_cpu_s: float
    load: float
    printed: str

    @property
    def cpu_share(self) -> float:
        """CPU seconds per second of wall time: what of the cores others left to it."""
        return self.cpu_s / self.wall_s


def stopped(
    arguments: tuple[str, ...], folder: Path, limit_s: float | None = None, signal_cpu_s: float | None = None
) -> Stopped:
    """``dse`` with a time limit; or ended by SIGTERM once it has taken ``signal_cpu_s`` and has written a file."""
    limit = () if limit_s is None else ("--time-limit", f"{limit_s:g}")
    command = [sys.executable, "-m", "dse", *arguments, *limit, "--out", str(folder), "--quiet"]
    before_s, begun_s = cpu_s(), time.monotonic()

    def is_due() -> bool:
        if signal_cpu_s is None:
            return time.monotonic() - begun_s >= (limit_s or 0.0)
        return _tree_cpu_s(process.pid) >= signal_cpu_s and folder.is_dir() and any(folder.iterdir())

    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=printed)
        while process.poll() is None and not is_due():
            time.sleep(POLL_S)
        due_s, due_cpu_s = time.monotonic(), _tree_cpu_s(process.pid)
        is_before = process.poll() is not None
        if signal_cpu_s is not None:
            process.send_signal(signal.SIGTERM)
        try:
            code: int | None = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        ended_s, spent_s = time.monotonic(), cpu_s() - before_s
        printed.seek(0)
        said = printed.read()
    after_s = None if is_before else ended_s - (due_s if limit_s is None else begun_s + limit_s)
    after_cpu_s = 0.0 if is_before else max(0.0, spent_s - due_cpu_s)
    return Stopped(code, ended_s - begun_s, after_s, spent_s, after_cpu_s, os.getloadavg()[0], said)


def _tree_cpu_s(root: int) -> float:
    """CPU seconds of a process, of all below it, and of all that these have waited for (Linux; nothing elsewhere)."""
    parents, ticks = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(file.parent.name)], ticks[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    tree, level = 0, {root}
    while level:
        tree += sum(ticks.get(pid, 0) for pid in level)
        level = {pid for pid, parent in parents.items() if parent in level}
    return tree / os.sysconf("SC_CLK_TCK")


OK, BY_CPU, BEFORE = "ok", "ok by CPU seconds", "ended before"


def verdict_of(run: Stopped, is_signal: bool, allowed_s: float) -> str:
    """How a process ended: one of the three above, or what is wrong with it."""
    if run.code is None:
        return f"did not end within {PATIENCE_S:.0f} s"
    if "Traceback" in run.printed:
        return run.printed.strip().splitlines()[-1]
    # What was proven before the signal stays proven, with the exit code of an answer.
    if run.code not in ((INTERRUPTED, 0) if is_signal else (0, 3)):
        return f"exit code {run.code}"
    if run.after_s is None:
        return BEFORE
    if run.after_s <= allowed_s:
        return OK
    return BY_CPU if run.load >= (os.cpu_count() or 1) and run.after_cpu_s <= allowed_s else "late"


def answer_of(case: Case, folder: Path) -> tuple[str, str]:
    """(what a run left, what ``dse check`` says of it)."""
    if case.answer is None:
        return "continues with --resume", "–"
    path = folder / case.answer
    if not path.exists():
        return f"no {path.name}", "–"
    if not case.is_checked:
        return path.name, "–"
    result = json.loads(path.read_text())
    lacks = [] if result["bound"] is not None else ["no bound"]
    lacks += [] if result["solution"] or result["infeasibility"] else ["no solution"]
    check = [sys.executable, "-m", "dse", "check", str(path)]
    try:
        done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        held = f"not ended after {PATIENCE_S:.0f} s"
    else:
        held = "holds" if done.returncode == 0 else (done.stdout + done.stderr).strip().replace("\n", "; ")[:200]
    return ", ".join(lacks) or result["status"], held


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


def row_of(name: str, parent: Path, limit_s: float, is_warm: bool) -> list[Cell]:
    """The row of a case; what its two runs did is printed as they end."""
    case, folder = CASES[name], parent / name
    inputs = {"LAYER": str(parent / "layer.json"), "SMALL_LAYER": str(parent / "small.json")}
    arguments = tuple(inputs.get(each, each) for each in case.arguments)
    if not is_warm:
        stopped(arguments, folder / "warm", limit_s)
    seconds: list[str] = []
    shares, answers, checks, verdicts = [], [], [], []
    for label, most_s in (("limit", 5.0 + 0.05 * limit_s), ("SIGTERM", 5.0)):
        is_signal = label == "SIGTERM"
        given = (None, SIGNAL_SHARE * LIMIT_S) if is_signal else (limit_s, None)
        run = stopped(arguments, folder / label, *given)
        answer, check = answer_of(case, folder / label)
        verdict = verdict_of(run, is_signal, most_s)
        after = ["–", "–"] if run.after_s is None else [f"{run.after_s:.1f}", f"{run.after_cpu_s:.1f}"]
        shown = f"{run.wall_s:.1f} s, {after[0]} s after it ({after[1]} CPU s), share {run.cpu_share:.0%}"
        print(f"{name}, {label}: {shown}, load {run.load:.1f}; {answer}; check: {check}; {verdict}", flush=True)
        seconds += after
        shares.append(run.cpu_share)
        answers.append(answer)
        checks.append(check)
        verdicts.append(verdict)
    either = [" / ".join(dict.fromkeys(texts)) for texts in (answers, checks, verdicts)]
    return [name, *seconds, f"{min(shares):.0%}", *either]


def main() -> int:
    """The table."""
    parser = parser_of(__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S")
    parser.add_argument("--warm", action="store_true", help="The kernels are compiled already.")
    given = parser.parse_args()
    for name in given.cases:
        if name not in CASES:
            parser.error(f"CASE: must be one of {', '.join(CASES)}, but got {name}")
    measured = {}
    with tempfile.TemporaryDirectory(prefix="dse-limits-") as parent:
        (Path(parent) / "layer.json").write_text(json.dumps(random_layer(120, 1)))
        (Path(parent) / "small.json").write_text(json.dumps(random_layer(40, 1)))
        for name in given.cases or CASES:
            measured[name] = row_of(name, Path(parent), given.limit, given.warm)
    before = {str(row[0]): row for row in RECORD.rows("main")} if given.record else {}
    results, is_held = results_of(before | measured)
    results.save(given.record)
    return 0 if is_held else 1


def results_of(rows: dict[str, list[Cell]]) -> tuple[Results, bool]:
    """(the table of ``rows`` by case, with its figures; whether all of them are within the target)."""
    results = Results(RECORD)
    results.arguments = sys.argv[:1]
    for name in CASES:
        if name in rows:
            results.row("main", *rows[name])
    held = [row for row in rows.values() if {*str(row[-1]).split(" / ")} <= {OK, BY_CPU, BEFORE}]
    results.figure("cases", len(rows))
    results.figure("held", len(held))
    for place, key in ((2, "limit"), (4, "signal")):
        after_cpu_s = [float(row[place]) for row in rows.values() if row[place] not in ("–", None)]
        results.figure(f"worst.{key}", f"{max(after_cpu_s, default=0.0):.1f} CPU s")
    return results, len(held) == len(rows)


if __name__ == "__main__":
    sys.exit(main())
