"""Tables 3 to 6: which dimensions are split, how many, how soon, and which inputs are."""

from collections.abc import Iterable, Mapping

from dse.parallel.mesh import WHOLE
from dse.report.units import memory_text, time_text
from dse.reproduce.automap.models import BUILT_IN, Family, family_of, step_of, title_of, variables_of
from dse.reproduce.automap.published import FamilyName, PublishedModel, read_published
from dse.reproduce.automap.study import (
    DATA_PARALLEL,
    RULES,
    CheckedPlan,
    Outcome,
    Study,
    is_as_published,
    rules_of,
    split_text,
)
from dse.reproduce.section import OTHER_MACHINE, Chart, Comparison, Row, Section, Series, Table
from dse.results.result import percent

TITLES: Mapping[str, str] = {
    "table3": "Table 3: split dimension of each variable of T5",
    "table4": "Table 4: split dimension of each variable of VGG-19",
    "table5": "Table 5: number of split dimensions and planning time",
    "table6": "Table 6: automatic data parallelism",
}

STEP_TIME = "step time"
PAPERS_STEP_TIME = f"{STEP_TIME}, the paper's plan"
"""Quantities of comparisons."""


def plans(study: Study, part: str, name: FamilyName) -> Section:
    """Table 3 or 4: the plans of all rules next to the paper's, and what the paper's is worth under each of them."""
    steps = [step for step in study.steps if family_of(step).name == name]
    if not steps:
        reason = f"none of --models is {name}"
        return Section(part, TITLES[part], (), (reason,), skipped=reason)
    chosen = rules_of(family_of(steps[0]))
    outcomes = study.outcomes(chosen, steps)
    tables, notes, comparisons = list[Table](), list[str](), list[Comparison]()
    for step in steps:
        of_step = {rules: outcomes[step, rules] for rules in chosen}
        tables += [_variables(step, of_step), _rules(step, of_step)]
        notes += _verdicts(step, of_step)
        comparisons += _compared(step, of_step)
    return Section(
        part,
        TITLES[part],
        tuple(tables),
        (*notes, *_plan_notes(study, family_of(steps[0]))),
        tuple(comparisons),
        (_chart(outcomes),),
    )


def _variables(step: str, outcomes: Mapping[str, Outcome]) -> Table:
    """One row per variable: the paper's dimension and that of each of our plans."""
    printed = read_published().tables[family_of(step).name]
    rows = []
    for variable, names in variables_of(step).items():
        ours = ("–" if each.best is None else split_text(each.best, names) for each in outcomes.values())
        rows.append((f"{variable} ({len(names)})", str(printed.get(variable, "–")), *ours))
    return Table((title_of(step), "paper", *outcomes), tuple(rows))


def _rules(step: str, outcomes: Mapping[str, Outcome]) -> Table:
    """One row for each set of rules: our plan, and the paper's under the same rules."""
    headers = (title_of(step), "split", "step time", "paper's split", "step time", "paper's plan", "planning, s")
    rows = []
    for rules, each in outcomes.items():
        best, published = each.best, each.published
        cells = ("–", "–") if best is None else (str(best.split_dimensions), time_text(best.step_s, 3))
        theirs = ("–", "–") if published is None else (str(published.split_dimensions), time_text(published.step_s, 3))
        rows.append((rules, *cells, *theirs, _judged(rules, each), f"{each.seconds:.1f}"))
    return Table(headers, tuple(rows))


def _judged(rules: str, outcome: Outcome) -> str:
    """How far the paper's plan is from the best one."""
    if outcome.published is None or outcome.best is None:
        return "impossible"
    if outcome.is_published_optimal:
        return "optimal"
    more, less = ("more", "fewer") if RULES[rules].objective == "count" else ("more expensive", "cheaper")
    excess = outcome.published.value / outcome.best.value - 1
    return f"{percent(abs(excess))} {more if excess >= 0 else less}"


def _verdicts(step: str, outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    """Under which rules the paper's plan is the best one, and where that is not known."""
    optimal = [rules for rules, each in outcomes.items() if each.is_published_optimal]
    yield f"{title_of(step)}: the paper's plan is optimal under {', '.join(optimal) or 'none of these rules'}."
    for rules, each in outcomes.items():
        if each.best is not None and not each.best.is_proven:
            yield f"{title_of(step)}: the plan under {rules} is not proven optimal."


def _plan_notes(study: Study, family: Family) -> Iterable[str]:
    mesh = study.mesh
    places = "" if len(mesh.axes) == 1 else f" on the axes {'/'.join(axis.name for axis in mesh.axes)}"
    yield (
        f"A number is the split dimension{places}; {WHOLE} means not split, as in the paper; (n) stands for n "
        "variables."
    )
    texts = (f"{key}: {RULES[key].text.format(layers=family.layers_text)}" for key in rules_of(family))
    yield f"Rules: {'; '.join(texts)}."
    yield (
        "Paper's plan: the variables in the paper's table are split as printed, along the best axis, and everything "
        "else "
        "optimally under the same rules. Every plan passed the independent check."
    )
    for variable in read_published().uncounted.get(family.name, ()):
        yield f"{variable}: split in the paper's table but not counted in Table 5, so not fixed here."


def _compared(step: str, outcomes: Mapping[str, Outcome]) -> Iterable[Comparison]:
    family = family_of(step)
    plan = read_published().plan(family.name)
    names_of = {variable: names for variable, names in variables_of(step).items() if variable in plan}
    for rules, each in outcomes.items():
        alike = [
            names
            for variable, names in names_of.items()
            if each.best is not None and is_as_published(each.best, names, plan[variable])
        ]
        quantity = "variables split as in the paper's table"
        same, of_paper = float(len(alike)), float(len(names_of))
        yield Comparison(title_of(step), rules, quantity, "", same, of_paper, cause=worth_of_paper(each))
        yield from (
            Comparison(title_of(step), rules, what, unit, value, None)
            for what, unit, value in (
                ("split dimensions", "", None if each.best is None else float(each.best.split_dimensions)),
                (STEP_TIME, "s", None if each.best is None else each.best.step_s),
                (PAPERS_STEP_TIME, "s", None if each.published is None else each.published.step_s),
            )
        )


def worth_of_paper(outcome: Outcome) -> str:
    """What the paper's plan is worth next to ours under the same rules; empty where there is none of ours."""
    ours, papers = outcome.best, outcome.published
    if ours is None:
        return ""
    if papers is None:
        return "under these rules, no plan can split variables as in the paper's table"
    if outcome.is_published_optimal:
        return "under these rules, the paper's plan is as good as ours"
    amounts = [f"{each.split_dimensions} dimensions and takes {time_text(each.step_s, 4)}" for each in (papers, ours)]
    return f"under these rules the paper's plan splits {amounts[0]} per step, ours {amounts[1]}"


def _chart(outcomes: Mapping[tuple[str, str], Outcome]) -> Chart:
    """The times of a step."""
    steps, chosen = (tuple(dict.fromkeys(names)) for names in zip(*outcomes, strict=True))

    def bars(step: str, whose: str) -> Series:
        plans = [getattr(outcomes[step, rules], whose) for rules in chosen]
        y = tuple(None if each is None else 1e3 * each.step_s for each in plans)
        label = "ours" if whose == "best" else "the paper's plan"
        return Series(f"{title_of(step)}, {label}", chosen, y)

    series = tuple(bars(step, whose) for step in steps for whose in ("best", "published"))
    return Chart("bars", "Step time", "rules", "ms", series, logarithmic=True)


# Counts and times -----------------------------------------------------------------------------------------------------


def counts(study: Study) -> Section:
    """Table 5: dimensions that are split, and the time to plan."""
    if not study.steps:
        reason = "none of --models has tensors to split"
        return Section("table5", TITLES["table5"], (), (reason,), skipped=reason)
    chosen = ("count", "count*", "cost*")
    own = {step: [rules for rules in chosen if rules in rules_of(family_of(step))] for step in study.steps}
    outcomes = {key: each for step, rules in own.items() for key, each in study.outcomes(rules, (step,)).items()}
    rows, comparisons = list[Row](), list[Comparison]()
    for step in study.steps:
        published = _published(step)
        printed = None if published is None else published.counts
        theirs = ("–",) * 3
        if printed is not None:
            theirs = (str(printed.target), str(printed.found), time_text(printed.seconds, 3))
        ours = {rules: outcomes[step, rules] for rules in own[step]}
        best = {rules: each.best.split_dimensions for rules, each in ours.items() if each.best is not None}
        splits = (str(best.get(rules, "–")) for rules in chosen)
        seconds_text = f"{max(each.seconds for each in ours.values()):.1f} s"
        rows.append((title_of(step), _size(step), *theirs, *splits, seconds_text))
        for rules, each in ours.items():
            reason = _unlike(step, rules)
            dimensions = None if each.best is None else float(each.best.split_dimensions)
            target = None if printed is None else float(printed.found)
            cause = worth_of_paper(each)
            comparisons.append(
                Comparison(title_of(step), rules, "split dimensions", "", dimensions, target, reason, cause)
            )
            seconds = None if printed is None else printed.seconds
            comparisons.append(
                Comparison(title_of(step), rules, "planning time", "s", each.seconds, seconds, OTHER_MACHINE)
            )
    headers = ("", "variables / dims", "target", "paper", "time", *chosen, "time")
    notes = (
        "The paper's target for VGG-19 is its number of variables, but the paper splits five dimensions. Its target "
        "for T5-3B and T5-11B excludes the embedding and the position tables, which our count includes; that for "
        "T5-base includes three of them.",
        f"count*: {RULES['count*'].text.format(layers='convolutions')}. T5 needs no such rule: its target is the count "
        "of the fastest plan (cost*).",
        "Time: ours is the longest of the three, including reading the step; the paper's includes both search stages.",
    )
    return Section("table5", TITLES["table5"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))


def _size(step: str) -> str:
    graph = step_of(step)
    return f"{len(graph.trainable)} / {_dimensions(step)}"


def _dimensions(step: str) -> int:
    graph = step_of(step)
    return sum(len(graph.values[argument.value].dims) for argument in graph.trainable)


def _unlike(step: str, rules: str) -> str:
    """Why a count of ours is not the paper's quantity; empty where it is."""
    published = _published(step)
    if published is None:
        return ""
    if rules == "count":
        return "the paper splits fewer dimensions than its reward favours"
    variables = published.variables
    if variables is not None and (variables.count, variables.dimensions) != (
        len(step_of(step).trainable),
        _dimensions(step),
    ):
        return f"the paper's model has {variables.count} variables with {variables.dimensions} dimensions"
    return ""


def _published(step: str) -> PublishedModel | None:
    name = BUILT_IN.get(step)
    return None if name is None else read_published().models[name]


# Data parallelism -----------------------------------------------------------------------------------------------------


def data_parallel(study: Study) -> Section:
    """Table 6: the inputs that are split along the batch."""
    if not study.steps:
        reason = "none of --models has tensors to split"
        return Section("table6", TITLES["table6"], (), (reason,), skipped=reason)
    outcomes = study.outcomes((DATA_PARALLEL, "cost"))
    rows, comparisons = list[Row](), list[Comparison]()
    for step in study.steps:
        outcome, cheapest = outcomes[step, DATA_PARALLEL], outcomes[step, "cost"].best
        best, published = outcome.best, _published(step)
        printed = None if published is None else published.data_parallel
        inputs = [argument.name for argument in step_of(step).arguments if argument.role == "input"]
        split = [] if best is None else [name for name in inputs if set(best.arguments[name]) != {WHOLE}]
        dims = ", ".join(f"{name}={split_text(best, [name])}" for name in split) if best is not None else "–"
        theirs = "–" if printed is None else f"{printed.split} of {printed.candidates} in {printed.seconds:g} s"
        ours = f"{len(split)} of {len(inputs)} in {outcome.seconds:.1f} s"
        rows.append((title_of(step), theirs, ours, dims, *_worth(study, best, cheapest)))
        target = None if printed is None else float(printed.split)
        reason = "" if printed is None or printed.candidates == len(inputs) else "the paper's step has different inputs"
        line = Comparison(title_of(step), DATA_PARALLEL, "inputs split", "", float(len(split)), target, reason)
        comparisons.append(line)
        seconds = None if printed is None else printed.seconds
        comparisons.append(
            Comparison(title_of(step), DATA_PARALLEL, "planning time", "s", outcome.seconds, seconds, OTHER_MACHINE)
        )
    headers = ("", "paper", "ours", "split along", "step time", "fits", "fastest")
    notes = (
        "Only the linkage group with dimensions of most inputs is split. Inputs are arguments that are neither trained "
        "nor optimizer state; the paper's steps have more inputs than ours.",
        "Fastest: whether no other plan without resharding that fits takes less time.",
    )
    return Section("table6", TITLES["table6"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))


def _worth(study: Study, plan: CheckedPlan | None, cheapest: CheckedPlan | None) -> Row:
    """The time of a step, whether it fits the memory of a device, and whether it is the least of all plans."""
    if plan is None:
        return ("–",) * 3
    limit = study.memory_bytes
    fits = "yes" if plan.state_bytes <= limit else f"no: {memory_text(plan.state_bytes, 3)} of {memory_text(limit)}"
    is_cheapest = cheapest is not None and plan.step_s <= cheapest.step_s
    return time_text(plan.step_s, 3), fits, "yes" if is_cheapest else "no"
