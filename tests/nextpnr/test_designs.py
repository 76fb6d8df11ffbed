"""The generated Verilog holds together, as far as can be seen without a tool."""

import re

import pytest

from benchmarks.nextpnr.families import FAMILIES, designs

KEYWORDS = {"module", "endmodule", "input", "output", "reg", "wire", "assign", "always", "posedge", "begin", "end"}
KEYWORDS |= {"case", "endcase", "default", "if", "else"}
DESIGNS = designs()


def identifiers(text):
    """Names that are used, without comments, attributes, numbers, connected ports and keywords."""
    text = re.sub(r"\(\*.*?\*\)|//.*|\d*'[bd][0-9]+|\.\w+(?=\()", " ", text)
    return set(re.findall(r"\b[a-zA-Z_]\w*", text)) - KEYWORDS


def declared(text):
    """Names of ports and of signals, with their ranges."""
    ports = re.findall(r"\b(?:input|output)\b\s*(?:\[[^]]*\])?\s*(\w+)", text)
    lists = re.findall(r"^\s*(?:\(\*.*?\*\)\s*)?(?:reg|wire)\s*(?:\[[^]]*\])?\s*([^;]+);", text, re.MULTILINE)
    return ports, [re.sub(r"\[.*", "", name).strip() for names in lists for name in names.split(",")]


def modules(verilog):
    return re.findall(r"module (\w+)(.*?)endmodule", verilog, re.DOTALL)


def test_ten_families_of_ten_designs_with_names_of_their_own():
    assert [design.family for design in DESIGNS] == [family for family in FAMILIES for _ in range(10)]
    assert len({design.name for design in DESIGNS}) == len({design.verilog for design in DESIGNS}) == 100


def test_designs_are_the_same_each_time():
    assert [design.verilog for design in designs()] == [design.verilog for design in DESIGNS]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_elaborates(design):
    found = modules(design.verilog)
    assert [name for name, _ in found] == ["core", "top"]
    for name, text in found:
        ports, signals = declared(text)
        assert len(ports + signals) == len(set(ports + signals))
        other = {"core", "core_instance"} if name == "top" else set()
        assert identifiers(text) - other == set(ports + signals), "used and declared names differ"
        for opening, closing in (("(", ")"), ("[", "]"), ("{", "}")):
            assert text.count(opening) == text.count(closing)
        for opening, closing in (("begin", "end"), ("case", "endcase")):
            assert len(re.findall(rf"\b{opening}\b", text)) == len(re.findall(rf"\b{closing}\b", text))
        assigned = re.findall(r"assign (\w+)", text)
        clocked = re.findall(r"(?:^|[:;)])\s*(\w+)(?:\[[^=]*\])? <= ", text, re.MULTILINE)
        assert len(assigned) == len(set(assigned))
        assert not set(assigned) & set(clocked)
        driven_by_instance = {"result"} if name == "top" else set()
        inputs = set(re.findall(r"\binput\b\s*(?:\[[^]]*\])?\s*(\w+)", text))
        assert set(assigned) | set(clocked) | inputs | driven_by_instance == set(ports + signals), "undriven signals"


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_inputs_are_used_within_their_width(design):
    (_, text), _ = modules(design.verilog)
    bits = [int(bit) for bit in re.findall(r"inputs\[(\d+)", text)]
    assert max(bits, default=0) < design.core.input_bits
    assert design.core.result_bits >= 2
