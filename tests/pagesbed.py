"""What the tests of the documentation share: the pages, their code blocks and their tables."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]+) -->\n)?^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block. `mark`: what the remark on the line before it says."""

    page: Path
    line: int
    kind: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(kind: str, page: Path | None = None) -> list[Block]:
    """Return the blocks of a kind: of one page, or of all."""
    return [block for one in ([page] if page else PAGES) for block in _blocks(one) if block.kind == kind]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("kind")) + 1
        yield Block(page, line, found["kind"], textwrap.dedent(found["text"]), found["mark"] or "")


def sections(page: str) -> dict[str, str]:
    """Return what stands below each heading of the second level."""
    pieces = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def first_cells(text: str) -> list[str]:
    """Return the first cell of every row of every table, without the heads."""
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    heads = re.findall(r"^\| (.+?) \|.*\n\|---", text, re.MULTILINE)
    return [row for row in rows if row not in heads]


def words_in_code(text: str) -> list[str]:
    """Return what stands in backticks."""
    return [found.strip() for _, found in re.findall(r"(`+)(.+?)\1", text)]
