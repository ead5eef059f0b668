"""YAML's traps, in a person's words: what the parser refuses, and what to write instead.

A trap that one pair of quotes repairs is repaired in a copy, so that the mistakes after it are found as well.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from cron.jobs_errors import Mistake, Unreadable

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_KINDS: Final = {yaml.ScalarNode: "str", yaml.SequenceNode: "seq", yaml.MappingNode: "map"}


class TextLoader(_Parser):  # type: ignore[misc]
    """PyYAML's loader without its idea of what a text means: every scalar stays what was typed."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: object) -> str:
        """Name the kind of a node that has no tag of its own."""
        return f"tag:yaml.org,2002:{_KINDS[kind]}"


_MOST_REPAIRS: Final = 30
_LARGEST_REPAIRED: Final = 2_000_000
_CRON: Final = re.compile(r"\*(/\d+)?([,\d/*-]*)(\s+[\w*/,#?-]+){2,6}|\*/\d+.*")
_KEY_BEFORE: Final = re.compile(r"""["']?([\w.-]+)["']?\s*:\s*\[?[^:]*$""")
_QUOTED_OR_REMARK: Final = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|(?<!\S)#.*""")
_AT_CONTEXT: Final = frozenset(
    {"while scanning an alias", "while scanning an anchor", "while scanning a simple key"}
)  # where what was begun says more than where it broke
_SECRET_KEY: Final = re.compile("token|key|secret|passw", re.IGNORECASE)
_SCHEDULE_KEYS: Final = frozenset({"schedule", "cron", "every", "at", "schedules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trap:
    mistake: Mistake
    repaired: str | None = None  # the whole line, quoted


def compose(text: str) -> tuple[yaml.Node | None, tuple[Mistake, ...]]:
    """Parse the text into nodes: the nodes, and the mistakes that were stepped over to get them.

    Raises Unreadable with every mistake found up to the one that cannot be stepped over.
    """
    mistakes: list[Mistake] = []
    lines = text.split("\n")
    while True:
        try:
            return yaml.compose(text, Loader=TextLoader), tuple(mistakes)
        except yaml.MarkedYAMLError as error:
            trap = _diagnose(error, lines)
        except yaml.reader.ReaderError as error:
            trap = _Trap(mistake=Mistake(line=0, column=0, message=f"YAML cannot read this: {error.reason}"))
        except RecursionError:
            trap = _Trap(mistake=Mistake(line=0, column=0, message="the file is nested too deeply"))
        mistakes.append(trap.mistake)
        if trap.repaired is None or len(mistakes) >= _MOST_REPAIRS or len(text) > _LARGEST_REPAIRED:
            raise Unreadable(*mistakes) from None
        lines[trap.mistake.line - 1] = trap.repaired
        text = "\n".join(lines)


def _diagnose(error: yaml.MarkedYAMLError, lines: list[str]) -> _Trap:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return _Trap(mistake=Mistake(line=0, column=0, message=f"YAML cannot read this: {error.problem}"))
    line, column = mark.line, mark.column
    context = error.context or ""
    if error.context_mark is not None and context in _AT_CONTEXT:
        line, column = error.context_mark.line, error.context_mark.column
    content = lines[line] if line < len(lines) else ""
    sign = content[column : column + 1]
    if sign and sign in "*@`%&":
        return _quote_needed(lines, line, column)
    if "flow" in context:
        line, column = _open_bracket(lines, line, column)
        content = lines[line]
    message = _sentence(error, content, column)
    if error.context_mark is not None and "quoted scalar" in context and not _is_escape(error.problem or ""):
        line, column = error.context_mark.line, error.context_mark.column
    return _Trap(mistake=Mistake(line=line + 1, column=column + 1, message=message))


def _quote_needed(lines: list[str], line: int, column: int) -> _Trap:
    """Explain an unquoted text that begins with a sign of YAML's, and quote it."""
    content = lines[line].rstrip("\r")
    before, rest = content[:column], content[column:]
    value = _value_at(before, rest)
    key = _KEY_BEFORE.search(before)
    name = key[1] if key else _key_above(lines, line)
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    message = _why_quotes(value, name, quoted)
    repaired = before + quoted + rest[len(value) :]
    is_key = rest[len(value) :].lstrip().startswith(":") and key is None
    mistake = Mistake(line=line + 1, column=column + 1, message=message)
    return _Trap(mistake=mistake, repaired=None if is_key else repaired)


def _why_quotes(value: str, name: str | None, quoted: str) -> str:
    shown = "" if name is not None and _SECRET_KEY.search(name) else f": {quoted}"
    if name in _SCHEDULE_KEYS or _CRON.fullmatch(value):
        return f"put the schedule in quotes{shown}"
    if re.fullmatch(r"\*[\w-]+", value):
        return f'no anchor "&{value[1:]}" stands above; if this is a text, put it in quotes{shown}'
    return f'a text that begins with "{value[:1]}" needs quotes{shown}'


def _value_at(before: str, rest: str) -> str:
    plain = re.sub(r"""'[^']*'|"(?:[^"\\]|\\.)*\"""", "", before)
    in_flow = any(plain.count(opening) > plain.count(closing) for opening, closing in ("[]", "{}"))
    end = re.search(r"[,\]}]|\s#" if in_flow else r"\s#|:(?=\s|$)", rest)
    return (rest[: end.start()] if end else rest).rstrip()


def _key_above(lines: list[str], line: int) -> str | None:
    """Return the key whose list this line belongs to."""
    for content in reversed(lines[:line]):
        if re.match(r"\s*-", content) or not content.strip() or content.lstrip().startswith("#"):
            continue
        match = re.match(r"\s*([\w.-]+)\s*:\s*(#.*)?$", content)
        return match[1] if match else None
    return None


def _sentence(error: yaml.MarkedYAMLError, content: str, column: int) -> str:
    problem, context = error.problem or "", error.context or ""
    if "\t" in content[: column + 1] and "cannot start any token" in problem:
        return "a tab stands here: YAML is indented with spaces"
    if "another document" in problem:
        return "a second document begins here (---): a jobs.yaml holds one"
    if "mapping values are not allowed" in problem:
        if re.search(r"[\w\"']\s*:\s", content[:column]):
            return 'a colon and a space begin a new key: put the whole value in quotes, such as "slack:#ops"'
        return "this line does not fit the line above: look at its indentation, and for a missing colon above"
    if "duplicate anchor" in context:
        return "this anchor has the name of an earlier one: give it another"
    if "nesting depth" in problem:
        return "the file is nested too deeply"
    if "simple key" in context:
        return "a colon is missing here: a line is NAME: VALUE"
    if "quoted scalar" in context:
        if _is_escape(problem):
            return "inside double quotes a backslash is special: write \\\\, or use single quotes"
        return "the quote that opens here is never closed"
    if "flow" in context:
        return _unclosed(content[column : column + 1], content)
    if any(words in problem for words in ("did not find expected key", "expected '-' indicator", "expected <block")):
        return "this line does not fit the lines above: look at its indentation"
    return f"YAML cannot read this ({problem}): look at the indentation and the quotes"


def _is_escape(problem: str) -> bool:
    return "escape" in problem or "hexdec" in problem


def _unclosed(bracket: str, opening: str) -> str:
    if re.search(r"[\s\[,]#\w", opening):
        return f'what follows a "#" is a remark, so this {bracket} is never closed: put "#..." in quotes'
    return f"the {bracket} that opens here is never closed, or a comma is missing"


def _open_bracket(lines: list[str], line: int, column: int) -> tuple[int, int]:
    """Return where the innermost bracket opens that is open at a place; the place itself if none is."""
    closed = 0
    for number in range(min(line, len(lines) - 1), max(-1, line - 200), -1):
        content = _QUOTED_OR_REMARK.sub(lambda match: " " * len(match.group()), lines[number])
        for index in range(min(column, len(content)) - 1 if number == line else len(content) - 1, -1, -1):
            if content[index] in "]}":
                closed += 1
            elif content[index] in "[{" and closed == 0:
                return number, index
            elif content[index] in "[{":
                closed -= 1
    return min(line, len(lines) - 1), column
