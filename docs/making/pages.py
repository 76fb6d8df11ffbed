"""The pages of `make docs` that are no files of docs/: front page, notebook, one page for each module, navigation.

mkdocs-gen-files runs this at the beginning of a build; nothing is written into the checkout.
"""

import json
import os.path
import re
from collections.abc import Iterator
from pathlib import Path

import mkdocs_gen_files

from docs.making.figures import filled

ROOT = Path(__file__).parents[2]
PACKAGES = ("dse", "hardware", "policies", "actors")
TOP_LEVEL = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
CHAPTERS = ("start", "guides", "method", "evidence", "reference", "contribute")
"""Folders of docs/, in the order of the navigation."""

FIRST = {
    "start": ("ten-minutes", "quickstart"),
    "guides": (
        "price-a-training-plan",
        "find-the-best-plan",
        "run-a-campaign",
        "which-accelerator",
        "shard-a-step",
        "place-a-training-graph",
        "schedule-a-layer",
        "partition-over-chiplets",
        "place-on-a-wafer",
        "place-on-a-fabric",
        "bring-your-own",
        "calibrate",
        "read-a-trace",
        "pretrain-a-policy",
        "run-on-a-cluster",
        "check-and-share",
        "from-python",
    ),
}
"""Pages that stand first in their chapter; the others follow by name."""

NAME = re.compile(r"^```.*?^```|(?<!\[)`((?:dse|hardware|policies|actors)(?:\.\w+)+)`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def page_of(path: Path) -> str:
    """The Markdown file ``path`` with its figures and keys, with links that lead somewhere on the site too, and with
    names of code that lead to their docstrings.

    GitHub's anchors have a hyphen for each space, the site's one for several.
    """
    folder = path.parent.relative_to(ROOT / "docs").as_posix() if path.is_relative_to(ROOT / "docs") else "."

    def on_site(target: Path) -> str:
        name = target.as_posix()
        if name in TOP_LEVEL:
            return TOP_LEVEL[name]
        if target.parts[0] == "docs":
            shown = target.with_suffix(".md") if target.suffix == ".ipynb" else target
            return shown.relative_to("docs").as_posix()
        if not (ROOT / name).is_file():
            return ""
        with mkdocs_gen_files.open(f"files/{name}", "wb") as file:
            file.write((ROOT / name).read_bytes())
        return f"files/{name}"

    def moved(link: re.Match[str]) -> str:
        target, anchor = (path.parent / link[1]).resolve().relative_to(ROOT), re.sub("-+", "-", link[2] or "")
        page = on_site(target)
        return f"]({os.path.relpath(page, folder) if page else ''}{anchor})"

    def documented(code: re.Match[str]) -> str:
        name = code[1]
        return f'<autoref optional identifier="{name}"><code>{name}</code></autoref>' if name else code[0]

    return NAME.sub(documented, LINK.sub(moved, filled(path.read_text(encoding="utf-8"))))


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


def title_of(text: str) -> str:
    """The first heading of a page, without marks of code."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1].replace("`", "") if heading else ""


def chapter_pages(chapter: str) -> list[Path]:
    """The pages and notebooks of a chapter in the order of the navigation, its index first."""
    files = [path for pattern in ("*.md", "*.ipynb") for path in (ROOT / "docs" / chapter).glob(pattern)]
    order = {name: rank for rank, name in enumerate(("index", *FIRST.get(chapter, ())))}
    return sorted(files, key=lambda path: (order.get(path.stem, len(order)), path.stem))


def commands_page() -> str:
    """Every command with its options, from what ``--help`` says."""
    import click

    from dse.cli import group
    from dse.cli.help import WIDTH

    parts = ["# Commands"]

    def add(command: click.Command, name: str, parent: click.Context | None) -> None:
        context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH)
        if parent is not None:
            parts.append(f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```")
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                if found is not None:
                    add(found, each, context)

    add(group, "dse", None)
    return "\n\n".join(parts) + "\n"


def specs_page() -> str:
    """Every spec as its file, in which each constant has its source."""
    parts = ["# Specs"]
    for folder in sorted(path for path in (ROOT / "hardware" / "specs").iterdir() if path.is_dir()):
        parts.append(f"## {folder.name.replace('_', ' ')}")
        for path in sorted(folder.glob("*.yaml")):
            parts.append(f"### {path.stem}\n\n```yaml\n{path.read_text(encoding='utf-8').rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def build() -> None:
    """All pages, and the navigation."""
    navigation = ["* [dse](index.md)"]
    for name, page in TOP_LEVEL.items():
        write(page, page_of(ROOT / name))
    for chapter in CHAPTERS:
        navigation.append(f"* {chapter.capitalize()}")
        entries = []
        for path in chapter_pages(chapter):
            text = notebook_page(path) if path.suffix == ".ipynb" else page_of(path)
            page = f"{chapter}/{path.stem}.md"
            write(page, text)
            entries.append((title_of(text), page))
        if chapter == "reference":
            for page, text in (("commands", commands_page()), ("specs", specs_page())):
                write(f"reference/{page}.md", text)
                entries.append((title_of(text), f"reference/{page}.md"))
        if chapter == "contribute":
            entries += [("Contributing", "contributing.md"), ("Changelog", "changelog.md")]
        navigation += [f"    * [{title}]({page})" for title, page in entries]
    navigation.append("* Modules")
    for package in PACKAGES:
        for words in modules(package):
            name, page = ".".join(words), f"api/{'/'.join(words)}/index.md"
            write(page, f"::: {name}\n")
            navigation.append(f"{'    ' * len(words)}* [{words[-1]}]({page})")
    write("SUMMARY.md", "\n".join(navigation) + "\n")


build()
