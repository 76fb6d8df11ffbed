"""A small model on few accelerators of a few square millimetres: a space that can be enumerated."""

from dse.codesign.options import CodesignOptions

MODEL = """
schema: dse.model/1
name: {name}
layers: {layers}
hidden: {hidden}
heads: 4
vocabulary: 512
sequence: 64
dropout: 0.1
tensor_parallel: [1, 2]
"""


BUDGETS = {"consistent": "1.7159", "phaze-2024": "3.42"}
"""That hold 73 architectures each: of the smallest buffer, which is larger in the published list."""


def tiny_options(folder, models=(("tiny", 3, 64),), **changes):
    """Options for ``models`` (name, layers, hidden), whose files are written to ``folder``."""
    files = []
    for name, layers, hidden in models:
        path = folder / f"{name}.yaml"
        path.write_text(MODEL.format(name=name, layers=layers, hidden=hidden))
        files.append(str(path))
    options = {
        "accelerators": 16,
        "global_batch": 32,
        "microbatch": "1,2",
        "hbm_gb": "0.004,0.02,1",
        "area_budget": BUDGETS[changes.get("cost_model", "consistent")],
    }
    return CodesignOptions(tuple(files), **(options | changes))


def tiny_problem(folder, models=(("tiny", 3, 64),), **changes):
    """The problem of :func:`tiny_options`."""
    return tiny_options(folder, models, **changes).problem()
