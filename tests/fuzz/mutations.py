"""Inputs with something changed: values of a document, or bytes of a text. The same seed gives the same changes."""

import json
import re
from copy import deepcopy

NUMBERS = (0, -1, 1, 3, 0.5, 1e-320, 1e300, -1e308, 2**31, 2**53 + 1, 2**63, 10**30, 10**400, 1_000, 65_536, 10**9)
TEXTS = (
    "",
    "\x00",
    "a\nb: c",
    "\x1b[31m",
    "../../x",
    "\ud800",
    "\u202e",
    "名前",
    "x" * 5_000,
    "NaN",
    "1e5",
    "null",
    "[b]",
)
CONTAINERS = (None, True, False, [], {}, [[]], {"a": {"b": {}}}, [None], {"value": 1, "source": "abc"})
YAML_VALUES = (
    "&r [*r]",
    "&r {a: *r}",
    "!!bool x",
    "!!int ''",
    "!!float x",
    "!!set {a}",
    "!!binary aGk=",
    "!!timestamp x",
    "!!map []",
    "!!python/name:os.system",
    "2020-01-01",
    "{2020-01-01: 1}",
    "{1: 2}",
    "{1.5: 2}",
    "{null: 1}",
    "{!!binary aGk=: 1}",
    ".inf",
    ".nan",
    '"\\ud800"',
    '"\\e[2J"',
    '"a\\nb"',
    "0x" + "f" * 5_000,
    "9" * 5_000,
    "[" * 2_000,
)
FRAGMENTS = (
    b"\x00",
    b"\xff",
    b"\xfe\xff",
    b"\r",
    b"\n",
    b"{",
    b"}",
    b"[",
    b']"',
    b"\\ud800",
    b"9" * 30,
    b"1e999",
    b"->",
)


def _places(document, path=()):
    """The paths of all values inside ``document``."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))


def _parent(document, path):
    for key in path[:-1]:
        document = document[key]
    return document


def _other_value(random, value):
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < 0.6:
        return random.choice(NUMBERS)
    if isinstance(value, str) and random.random() < 0.5:
        return random.choice(TEXTS)
    # A copy: what is changed next may be inside it.
    return deepcopy(random.choice(random.choice((NUMBERS, TEXTS, CONTAINERS))))


def changed_document(random, document):
    """A copy of ``document`` of JSON types in which one to three values were changed, removed, renamed or repeated."""
    document = json.loads(json.dumps(document))
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            break
        path = random.choice(places)
        parent, key = _parent(document, path), path[-1]
        kind = random.randrange(6)
        if kind <= 2:
            parent[key] = _other_value(random, parent[key])
        elif kind == 3:
            del parent[key]
        elif isinstance(parent, dict):
            parent[random.choice((*TEXTS, f"{key}s"))] = parent.pop(key) if kind == 4 else deepcopy(parent[key])
        else:
            parent.extend(deepcopy(parent[key]) for _ in range(random.choice((1, 5, 60))))
    return document


def changed_text(random, content):
    """``content`` (bytes) with one to three cuts, insertions, flipped bits, other numbers or repeated lines."""
    for _ in range(random.choice((1, 1, 2, 3))):
        spot = random.randrange(len(content) + 1)
        kind = random.randrange(6)
        numbers = [*re.finditer(rb"-?\d[\d.e+-]*", content)]
        if kind == 0:
            content = content[:spot]
        elif kind == 1 and spot < len(content):
            content = content[:spot] + bytes([content[spot] ^ (1 << random.randrange(8))]) + content[spot + 1 :]
        elif kind == 2 and numbers:
            match = random.choice(numbers)
            content = content[: match.start()] + str(random.choice(NUMBERS)).encode() + content[match.end() :]
        elif kind == 3:
            lines = content.split(b"\n")
            lines.insert(random.randrange(len(lines)), random.choice(lines))
            content = b"\n".join(lines)
        else:
            content = content[:spot] + random.choice(FRAGMENTS) + content[spot:]
    return content


def changed_yaml(random, text):
    """A YAML text with one value that JSON has no word for."""
    lines = text.split("\n")
    number = random.choice([index for index, line in enumerate(lines) if re.search(r": \S", line)])
    lines[number] = re.sub(r": .*", lambda _match: f": {random.choice(YAML_VALUES)}", lines[number], count=1)
    return "\n".join(lines)
