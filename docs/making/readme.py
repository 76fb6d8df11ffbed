"""``python -m docs.making.readme`` writes README.md from its template, with figures and output of the result files.

The template is Markdown with the placeholders of :mod:`docs.making.figures`.
"""

from pathlib import Path

from docs.making.figures import filled

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TEMPLATE = Path(__file__).with_name("readme.template")


def text() -> str:
    """README.md as it should be.

    Raises:
        ValueError: a placeholder of the template names nothing.
    """
    return filled(TEMPLATE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    README.write_text(text(), encoding="utf-8")
