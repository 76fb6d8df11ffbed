"""The pages of `make docs` that are no files of docs/: front page, notebook, one page for each module, navigation.

mkdocs-gen-files runs this at the beginning of a build; nothing is written into the checkout.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[2]
PACKAGES = ("dse", "hardware", "policies", "actors")
TOP_LEVEL = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
CHAPTERS = {
    "Start": ("index", "quickstart"),
    "Inside": ("contributing", "changelog"),
}
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def page_of(path: Path) -> str:
    """The Markdown file ``path`` with links that lead somewhere on the site too.

    GitHub's anchors have a hyphen for each space, the site's one for several.
    """

    def moved(link: re.Match[str]) -> str:
        target, anchor = (path.parent / link[1]).resolve().relative_to(ROOT), re.sub("-+", "-", link[2] or "")
        name = target.as_posix()
        if name in TOP_LEVEL:
            return f"]({TOP_LEVEL[name]}{anchor})"
        if target.parts[0] == "docs":
            shown = target.with_suffix(".md") if target.suffix == ".ipynb" else target
            return f"]({shown.relative_to('docs').as_posix()}{anchor})"
        copied = f"files/{name}" if (ROOT / name).is_file() else ""
        if copied:
            with mkdocs_gen_files.open(copied, "wb") as file:
                file.write((ROOT / name).read_bytes())
        return f"]({copied}{anchor})"

    return LINK.sub(moved, path.read_text(encoding="utf-8"))


def notebook_page(path: Path) -> str:
    """A notebook as Markdown, without its outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if is_code else text for text, is_code in texts) + "\n"


def modules(package: str) -> Iterator[tuple[str, ...]]:
    """The public modules of ``package``, each as the words of its name, packages before what they hold.

    Files in a folder that is no package are templates for a user's own code.
    """
    for path in sorted((ROOT / package).rglob("*.py"), key=lambda path: path.with_suffix("").parts):
        if not (path.parent / "__init__.py").is_file():
            continue
        words = path.relative_to(ROOT).with_suffix("").parts
        words = words[:-1] if words[-1] == "__init__" else words
        if not any(word.startswith("_") for word in words):
            yield words


def write(name: str, text: str) -> None:
    """Add a page to the site, or put ``text`` in the place of one."""
    with mkdocs_gen_files.open(name, "w") as file:
        file.write(text)


def build() -> None:
    """All pages, and the navigation."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        write(path.name, page_of(path))
    for name, page in TOP_LEVEL.items():
        write(page, page_of(ROOT / name))
    for path in sorted((ROOT / "docs").glob("*.ipynb")):
        write(f"{path.stem}.md", notebook_page(path))
    navigation = []
    for title, names in CHAPTERS.items():
        navigation += [f"* {title}", *(f"    * [{name.capitalize()}]({name}.md)" for name in names)]
    navigation.append("* Modules")
    for package in PACKAGES:
        for words in modules(package):
            name, page = ".".join(words), f"api/{'/'.join(words)}/index.md"
            write(page, f"::: {name}\n")
            navigation.append(f"{'    ' * len(words)}* [{words[-1]}]({page})")
    write("SUMMARY.md", "\n".join(navigation) + "\n")


build()
