"""Every colour of a page, chart or drawing is one of the theme: no module states one of its own."""

import ast
import re
from pathlib import Path

import pytest
from matplotlib.colors import BASE_COLORS, CSS4_COLORS, TABLEAU_COLORS

ROOT = Path(__file__).parents[2]
THEME = ROOT / "dse" / "report" / "palette.py"

NAMES = "|".join(sorted(CSS4_COLORS, key=len, reverse=True))
LITERAL = re.compile(
    r"#(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})\b|\b(?:rgb|hsl)a?\(\s*\d"
    rf"|(?:fill|stroke|colou?r|background|border)[\w-]*\s*[:=]\s*['\"]?(?:{NAMES})\b",
    re.IGNORECASE,
)
"""In a text: a colour by its digits, or by its name where a style or an attribute sets it."""

NAMED = {*CSS4_COLORS, *BASE_COLORS, *TABLEAU_COLORS, *(f"C{number}" for number in range(10))}
PAINT = re.compile(r"colou?rs?$|^(?:c|fill|stroke|background)$")
"""Arguments and keys that are colours."""


def strings(node):
    """Every text within an expression."""
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def literals(source):
    """The colours that a module states by itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        painted = []
        match node:
            case ast.Constant(str(text)):
                found += LITERAL.findall(text)
            case ast.keyword(str(name), value):
                painted = [(name, value)]
            case ast.Dict(keys, values):
                painted = [
                    (key.value, value) for key, value in zip(keys, values, strict=True) if isinstance(key, ast.Constant)
                ]
        for name, value in painted:
            if PAINT.search(str(name)):
                found += [text for text in strings(value) if text in NAMED]
    return found


@pytest.mark.parametrize("package", ["actors", "dse", "hardware", "policies"])
def test_no_module_states_a_colour_of_its_own(package):
    stated = {
        str(path.relative_to(ROOT)): colours
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != THEME and (colours := literals(path.read_text(encoding="utf-8")))
    }
    assert stated == {}


@pytest.mark.parametrize(
    "source",
    [
        "LOW = '#fff3d6'",
        "STYLE = 'td { color: #fff }'",
        "f'<rect fill=\"white\" width={wide}>'",
        "f'<rect style=\"stroke:rgb(0, 0, 0)\">'",
        "axes.plot(x, y, color='k')",
        "axes.bar(x, y, edgecolor='tab:red')",
        "Bar(marker={'line': {'color': 'white'}})",
        "Treemap(marker={'colors': ['white'] * 3 + own})",
    ],
)
def test_the_rule_sees_a_colour(source):
    assert literals(source)


@pytest.mark.parametrize(
    "source",
    [
        "'color-scheme: light dark'",
        "f'<rect fill=\"{css(colour)}\">'",
        "axes.bar(x, y, edgecolor='none', color=RED)",
        "f'#{number} of {count}'",
        "'red tape, and a grey area'",
    ],
)
def test_the_rule_sees_nothing_else(source):
    assert not literals(source)
