"""A configuration for people: verdict, where time and memory go, what limits cost, the front."""

import json
from collections.abc import Mapping
from typing import Any

from dse.report.chart import Axis, Crowd, Line, PointChart, Points
from dse.report.palette import ANSWER, GREY
from dse.report.units import memory_text, share_text, time_text
from dse.report.view import Breakdown, Card, Decisive, Part, Row, Share, Table, View
from dse.results.result import Result
from dse.serve.chip_table import rests_on
from dse.serve.deployment import deployment_of
from dse.serve.engine import list_engines
from dse.serve.export import exports
from dse.serve.problem import ServeProblem
from dse.serve.requests import GivenRequests
from dse.serve.serving_plan import plan_in, yaml_text
from dse.serve.timeline import memory_chart, requests_trace

PLAN_FILE, TRACE_FILE = "serving.yaml", "requests.trace.json"

_TIME_NAMES = {
    "waiting": ("waiting for a step, and for other requests", "waiting"),
    "request": ("the engine's work on a request", "several"),
    "prefill": ("prompt", "forward"),
    "transfer": ("keys and values, to the decode workers", "transfer"),
    "decode: linear": ("decoding: products and norms", "backward"),
    "decode: attention": ("decoding: attention", "update"),
    "decode: collectives": ("decoding: collectives", "transfer"),
    "decode: host": ("decoding: launches and host", "bubble"),
    "decode: drafts": ("decoding: proposing tokens", "forward"),
    "prompts of others": ("decoding: prompts of others", "between"),
}
_MEMORY_NAMES = {
    "weights": ("weights", "weights"),
    "activations": ("largest step", "activations"),
    "cache": ("room for keys and values", "state"),
    "kept": ("left by the engine", "several"),
}
_BINDS = {
    "ttft": "the TTFT limit", "tpot": "the TPOT limit", "memory": "memory for keys and values",
    "prefill workers": "prefill workers", "decode workers": "decode workers",
}  # fmt: skip
_STATISTICS = ("mean", "p50", "p90", "p99")


def view(problem: ServeProblem, result: Result) -> View:
    """The answer, or why there is none."""
    title = f"Serving {problem.name}"
    if not result.solution:
        proof = result.infeasibility
        if proof is None:
            return View(title, "The run was stopped before it found a configuration that keeps the limits.")
        levers = [Decisive(f"possible remedy: {lever}") for lever in proof.levers]
        return View(title, proof.explanation, notes=[*levers, *_notes(problem)])
    tables = _tables(problem, result)
    return View(
        title,
        _verdict(problem, result),
        notes=[*_best_notes(problem, result), *_event_notes(problem, result.metrics), *_notes(problem)],
        tables=tables,
        page=lambda: [*_charts(problem, result), *tables],
        files=lambda: _files(problem, result),
        cards=lambda: [_card(problem, result)],
    )


def _files(problem: ServeProblem, result: Result) -> Mapping[str, str | bytes]:
    plan = plan_in(result.solution["plan"], "result")
    trace = json.dumps(requests_trace(problem, plan, result.seed))
    return {PLAN_FILE: yaml_text(plan), TRACE_FILE: trace, **exports(deployment_of(problem, plan))}


def _verdict(problem: ServeProblem, result: Result) -> str:
    own = result.metrics
    plan = plan_in(result.solution["plan"], "result")
    proof = _proof_text(problem, result)
    used = (
        f"{own['accelerators']:,} of {problem.devices:,} accelerators"
        if not problem.fewest
        else (f"{own['accelerators']:,} accelerators")
    )
    dollars = own["usd_per_million_tokens"]
    tpot = f", TPOT {time_text(own['tpot_s']['mean'])}" if problem.load.output.high > 1 else ""
    price = (
        ""
        if dollars is None
        else (
            f", ${dollars['at_cost'][0]:.3g} (at cost) to ${dollars['at_price'][0]:.3g} (at price) per million tokens"
        )
    )
    return (
        f"{own['tokens_per_s_per_accelerator']:,.0f} output tokens/s per accelerator on {used} ({proof}), "
        f"TTFT {time_text(own['ttft_s']['mean'])}{tpot}{price}: {plan.text()}"
    )


def _proof_text(problem: ServeProblem, result: Result) -> str:
    """What is known of the configuration."""
    own, goals = result.metrics, problem.goals
    what = "fewest" if problem.fewest else "best"
    if own.get("stopped") is not None:
        return f"{what} found before the run was stopped"
    on_percentiles = goals.statistic != "mean" and (goals.ttft_s, goals.tpot_s) != (None, None)
    if on_percentiles and not own["events"]["keeps_limits"]:
        return f"{what} whose means keep the limits"
    if result.status == "optimal":
        return f"proven {what} given what is fixed" if problem.fixed else f"proven {what}"
    beyond, keep = ("fewer", "keep") if problem.fewest else ("more", "keeps")
    return f"{what} found that {keep} the limits by events; none has {beyond} than {result.bound:,.0f} without limits"


def _best_notes(problem: ServeProblem, result: Result) -> list[str]:
    """How far what is fixed is from the best, and what limits cost."""
    own, notes = result.metrics, list[str]()
    best = own.get("best")
    if best is not None:
        notes.append(Decisive(_beside_text(problem, own, best)))
    if (most := own.get("most_output")) is not None:
        notes.append(Decisive(_free_text(problem, own, most)))
    binding = [_BINDS.get(name, _TIME_NAMES.get(name, (name,))[0]) for name in own["binds"]]
    notes.append(f"what binds: {', '.join(binding)}")
    return [*notes, *_mode_notes(problem, own)]


def _mode_notes(problem: ServeProblem, own: Mapping[str, Any]) -> list[str]:
    """The best of each mode, where both were searched; and how workers apart are matched."""
    notes: list[str] = []
    if (pools := own.get("pools")) is not None:
        rates = (f"{name} workers {each['largest_rate_per_s']:,.3g}" for name, each in pools.items())
        notes.append(f"requests/s that workers answer at most: {', '.join(rates)}")
    modes = own.get("modes") or {}
    for mode, each in modes.items():
        value = f"{each['tokens_per_s_per_accelerator']:,.0f} tokens/s per accelerator"
        if problem.fewest:
            value = f"{each['accelerators']:,} accelerators"
        notes.append(
            Decisive(
                f"best {mode}: {value}, TTFT {time_text(each['ttft_s'])}, TPOT {time_text(each['tpot_s'])}: "
                f"{plan_in(each['plan'], 'result').text()}"
            )
        )
    return notes


def _free_text(problem: ServeProblem, own: Mapping[str, Any], most: Mapping[str, Any]) -> str:
    """That accelerators stay free, and what the machine writes with more of them."""
    free, each = problem.devices - own["accelerators"], most["tokens_per_s_per_accelerator"]
    return (
        f"{free:,} of {problem.devices:,} accelerators stay free: more would write more in all, "
        "but less each. The most in all is "
        f"{each * most['accelerators']:,.0f} output tokens/s instead of {own['tokens_per_s']:,.0f}, on "
        f"{most['accelerators']:,} ({each:,.0f} each), TPOT {time_text(most['tpot_s'])}: "
        f"{plan_in(most['plan'], 'result').text()}"
    )


def _beside_text(problem: ServeProblem, own: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    key = "accelerators" if problem.fewest else "tokens_per_s_per_accelerator"
    text = plan_in(best["plan"], "result").text()
    factor = own[key] / best[key] if problem.fewest else best[key] / own[key]
    if factor <= 1 + 1e-9:
        return "no configuration in the vocabulary is better (proven)"
    if problem.fewest:
        return f"the proven fewest are {best[key]:,} accelerators: {text}"
    return (
        f"the proven best has {best[key]:,.0f} tokens/s per accelerator ({share_text(factor - 1)} more), "
        f"TPOT {time_text(best['tpot_s'])}: {text}"
    )


def _event_notes(problem: ServeProblem, own: Mapping[str, Any]) -> list[str]:
    """Whether events confirm limits and order."""
    notes: list[str] = []
    events, order = own["events"], own.get("order")
    goals = problem.goals
    if not events["keeps_limits"]:
        pairs = (("TTFT", goals.ttft_s, own["ttft_s"]), ("TPOT", goals.tpot_s, own["tpot_s"]))
        over = [
            f"{name} {time_text(values[goals.statistic])} ({goals.statistic}; limit {time_text(limit)})"
            for name, limit, values in pairs
            if limit is not None and values[goals.statistic] > limit
        ]
        notes.append(Decisive(f"limits hold for means of the closed form, but not by events: {', '.join(over)}"))
    if order is not None and not order["holds"]:
        best, here = order["best"], events["tokens_per_s"] / own["accelerators"]
        text = plan_in(best["plan"], "result").text()
        notes.append(
            Decisive(
                f"by events, of {order['repriced']} configurations within the closed form's error another is better: "
                f"{best['tokens_per_s_per_accelerator']:,.0f} tokens/s per accelerator instead of {here:,.0f}, TTFT "
                f"{time_text(best['ttft_s'])}, TPOT {time_text(best['tpot_s'])}: {text}"
            )
        )
    elif order is not None:
        notes.append(f"events confirm the order of {order['repriced']} configurations within the closed form's error")
    reasons = dict.fromkeys(each["reason"] for each in own["intervals"].values() if "reason" in each)
    notes += [Decisive(f"no 90 % interval: {reason}") for reason in reasons]
    if events["refused"]:
        notes.append(Decisive(f"memory cannot hold {events['refused']} requests to their end"))
    return notes


def _notes(problem: ServeProblem) -> list[str]:
    load = problem.load
    arrival = f"{load.rate_per_s:g} requests/s" if problem.is_open else f"{load.concurrency:,} requests in flight"
    equal = load.prompt.low == load.prompt.high and load.output.low == load.output.high
    equal = equal and not isinstance(load, GivenRequests)
    waves = Decisive(
        "requests of equal length stay in step, so that their prompts come together and TTFT is that of a burst: give "
        f"a range, such as --prompt {round(0.8 * load.prompt.high)}-{load.prompt.high}"
    )
    return [
        *([waves] if equal and load.concurrency > 1 else []),
        f"load: {arrival}, prompts of {_length_text(load.prompt)} and outputs of {_length_text(load.output)} tokens",
        *_draft_notes(problem),
        *_engine_notes(problem),
        f"times of kernels: {rests_on(problem)}",
        *_price_notes(problem),
        *problem.system.chip.notes,
    ]


def _price_notes(problem: ServeProblem) -> list[str]:
    if problem.service is not None:
        return []
    name = problem.system.chip.name
    return [f"no price and no energy: the file of {name} does not say which dies and memory it is made of"]


def _draft_notes(problem: ServeProblem) -> list[str]:
    """What proposes tokens, and how often it is right."""
    if not any(problem.drafts):
        return []
    own = "its multi-token-prediction layer" if problem.drafter is None else problem.drafter.model.name
    numbers = " to ".join(f"{each}" for each in dict.fromkeys((problem.drafts[0], problem.drafts[-1])))
    accepted = f"each accepted with probability {problem.acceptance:g} where those before it were"
    return [f"drafts: {numbers} a step by {own}, {accepted}"]


def _engine_notes(problem: ServeProblem) -> list[str]:
    """What the constants of the engines were fitted to."""
    known = list_engines()
    published = ", ".join(each.name for each in problem.engines if each.name in known)
    notes = [f"engine {each.name}: {each.constants.source}" for each in problem.engines if each.name not in known]
    if published:
        notes.insert(0, f"engines: {published}, with constants fitted to published runs (docs/evidence/serving.md)")
    return notes


def _length_text(lengths: Any) -> str:
    return f"{lengths.low:,}" if lengths.low == lengths.high else f"{lengths.low:,} to {lengths.high:,}"


def _tables(problem: ServeProblem, result: Result) -> list[Table]:
    own, plan = result.metrics, plan_in(result.solution["plan"], "result")
    total = float(problem.system.chip.hbm_bytes)
    requests = [
        (label, *(time_text(own[key][name]) for name in _STATISTICS), time_text(own["closed_form"][key]))
        for key, label in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("latency_s", "latency"))
        if key != "tpot_s" or problem.load.output.high > 1
    ]
    tables = [
        Table(("by events", *_STATISTICS, "mean by the closed form"), requests),
        *_interval_tables(own),
        Table(("", ""), _machine_rows(own), "machine"),
        _parts("time of a request", own["time_s"], own["closed_form"]["latency_s"], _TIME_NAMES, time_text),
        *(
            _parts(f"memory of {of} accelerator", parts, total, _MEMORY_NAMES, memory_text)
            for of, parts in _memories(own).items()
        ),
        Table(("", ""), [(key, f"{value}") for key, value in plan.keys().items()], "configuration"),
    ]  # fmt: skip
    limits = _limits_table(own)
    shown = _front_table(own)
    return [*tables, *([limits] if limits else []), *([shown] if shown else [])]


def _memories(own: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Parts of memory by name, of an accelerator of each kind of workers."""
    sizes: dict[str, dict[str, float]] = {}
    for name, size in own["memory_bytes"].items():
        kind, _, part = name.rpartition(": ")
        sizes.setdefault(f"a {kind}" if kind else "an", {})[part] = size
    return sizes


def _interval_tables(own: Mapping[str, Any]) -> list[Table]:
    """What lies around each mean with a probability of 90 %; none where nothing is known."""
    rows = [
        (label, time_text(each["low"]), time_text(each["high"]), f"{each['rows']}: {each['class']}")
        for key, label in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"))
        if (each := own["intervals"][key])["low"] is not None
    ]
    return [Table(("90 % interval", "from", "to", "published runs as near"), rows, requested=True)] if rows else []


def _machine_rows(own: Mapping[str, Any]) -> list[Row]:
    joules, dollars = own["tokens_per_joule"], own["usd_per_million_tokens"]
    rows: list[Row] = [
        ("output tokens/s", f"{own['tokens_per_s']:,.0f}"),
        ("requests that run at once", f"{own['running']:,.1f}"),
        ("largest rate, requests/s", f"{own['largest_rate_per_s']:,.3g}"),
        ("goodput, requests/s by events", f"{own['events']['goodput_per_s']:,.3g}"),
        ("tokens of keys and values", f"{own['kv_tokens']:,.0f}"),
    ]
    if joules is not None:
        rows.append(("tokens per joule", _range_text(joules)))
    if dollars is not None:
        rows += [
            ("$ per million tokens, at cost", _range_text(dollars["at_cost"])),
            ("$ per million tokens, at price", _range_text(dollars["at_price"])),
        ]
    return rows


def _range_text(triple: list[float]) -> str:
    return f"{triple[0]:.3g} ({triple[1]:.3g} to {triple[2]:.3g})"


def _parts(
    title: str, parts: Mapping[str, float], whole: float, names: Mapping[str, tuple[str, str]], text: Any
) -> Table:
    rows = [
        (names.get(name, (name, ""))[0], text(amount), share_text(amount / whole))
        for name, amount in parts.items()
        if amount > 0
    ]
    return Table((title, "size" if text is memory_text else "time", "share"), rows)


def _limits_table(own: Mapping[str, Any]) -> Table | None:
    without = own.get("without") or {}
    if not without:
        return None
    rows = [
        (
            _BINDS[name],
            share_text(each["tokens_per_s_per_accelerator"] / own["tokens_per_s_per_accelerator"] - 1),
            time_text(each["ttft_s"]), time_text(each["tpot_s"]), plan_in(each["plan"], "result").text(),
        )
        for name, each in without.items()
    ]  # fmt: skip
    headers = ("without", "more tokens/s per accelerator", "TTFT", "TPOT", "configuration")
    return Table(headers, rows, "what each limit costs")


def _front_table(own: Mapping[str, Any]) -> Table | None:
    points = own.get("front") or []
    if len(points) < 2:
        return None
    rows = [
        (
            f"{each['tokens_per_s_per_user']:,.1f}", f"{each['tokens_per_s_per_accelerator']:,.0f}",
            f"{each['requests']:,}", plan_in(each["plan"], "result").text(),
        )
        for each in points
    ]  # fmt: skip
    headers = ("tokens/s per user", "tokens/s per accelerator", "requests of a replica", "configuration")
    return Table(headers, rows, "the front: what a faster answer costs")


def _charts(problem: ServeProblem, result: Result) -> list[Part]:
    own = result.metrics
    points = own.get("front") or []
    memory = memory_chart(problem, plan_in(result.solution["plan"], "result"), result.seed)
    held: list[Part] = [] if memory is None else [memory]
    if not points:
        return held
    users = [each["tokens_per_s_per_user"] for each in points]
    chips = [each["tokens_per_s_per_accelerator"] for each in points]
    texts = [plan_in(each["plan"], "result").text() for each in points]
    here = own["closed_form"]["tpot_s"]
    title = f"{problem.name}: output per accelerator against speed for a user; no configuration beats these in both"
    marks: list[Points | Crowd | Line] = [
        Line("front", users, chips, GREY, steps=False),
        Points("configurations", users, chips, GREY, texts),
        Points(
            "the answer", [1.0 / here] if here else [0.0], [own["tokens_per_s_per_accelerator"]], ANSWER,
            [plan_in(result.solution["plan"], "result").text()], size=10.0, symbol="star",
        ),
    ]  # fmt: skip
    x = Axis("tokens/s per user", from_zero=True)
    return [PointChart(title, x, Axis("tokens/s per accelerator", from_zero=True), marks), *held]


def _card(problem: ServeProblem, result: Result) -> Card:
    own = result.metrics
    times = [Share(*_named(_TIME_NAMES, name, seconds)) for name, seconds in own["time_s"].items() if seconds > 0]
    total = float(problem.system.chip.hbm_bytes)
    memory = [
        Breakdown(
            f"Memory of {of} accelerator", "bytes",
            [Share(*_named(_MEMORY_NAMES, name, size)) for name, size in parts.items()], total,
        )
        for of, parts in _memories(own).items()
    ]  # fmt: skip
    return Card(
        figures=[
            (f"{own['tokens_per_s_per_accelerator']:,.0f}", "output tokens/s per accelerator"),
            (time_text(own["ttft_s"]["mean"]), "to the first token"),
            (time_text(own["tpot_s"]["mean"]), "between tokens"),
        ],
        breakdowns=[
            Breakdown("A request", "s", times),
            *memory,
        ],
    )


def _named(names: Mapping[str, tuple[str, str]], name: str, amount: float) -> tuple[str, float, str]:
    return names[name][0], amount, names[name][1]
