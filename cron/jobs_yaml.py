"""YAML nodes as plain values whose places are known: every scalar is the text that was typed.

A value is a text, a list, a dict, or None where nothing stands. Aliases share one value. What YAML 1.1 thinks of a
text (`17:00` is a number, `NO` is a boolean) is never asked.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import yaml

from cron.jobs_env import Substitution
from cron.jobs_errors import Mistake, Unreadable

Loc = tuple[str | int, ...]
"""The way from the top of the file to a value: keys and positions in lists."""

MOST_EXPANDED: Final = 500_000
"""What all aliases and merge keys of a file may expand to, in values."""

DEEPEST: Final = 40

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(
    _TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)
_MERGE: Final = "<<"

Entries = dict[str, tuple[yaml.Node, yaml.Node]]


@dataclass(slots=True)
class Document:
    """One file's nodes, read into plain values; `mistakes` grows while it is read."""

    root: yaml.Node
    lines: Sequence[str]
    substitution: Substitution
    mistakes: list[Mistake] = field(default_factory=list)
    _entries: dict[int, Entries] = field(default_factory=dict)
    _values: dict[tuple[int, bool], object] = field(default_factory=dict)
    _shared: frozenset[int] = frozenset()

    def read(self) -> object:
        """Return the whole file as plain values. Raises Unreadable if aliases loop or expand without bound."""
        self._measure()
        return self._value(self.root, ())

    def report(self, loc: Loc, message: str, *, on_key: bool = False, shift: int | None = None) -> None:
        """Note a mistake at a place (`shift` characters into its text), or at the nearest one above that exists."""
        line, column = self.place(loc, on_key=on_key)
        if shift is not None:
            column += self._shift(loc, shift)
        self.mistakes.append(Mistake(line=line, column=column, message=message))

    def place(self, loc: Loc, *, on_key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of the value (or of its key)."""
        key, node = self._find(loc)
        chosen = key if on_key and key is not None else node
        if isinstance(node, yaml.ScalarNode) and node.value == "" and is_plain(node) and key is not None:
            chosen = key
        return chosen.start_mark.line + 1, chosen.start_mark.column + 1

    def _shift(self, loc: Loc, shift: int) -> int:
        """Return the shift within the line, or 0 where the text is not in the file as it is."""
        _, node = self._find(loc)
        if not isinstance(node, yaml.ScalarNode) or "${" in node.value or node.start_mark.line != node.end_mark.line:
            return 0
        return shift if is_plain(node) else shift + 1

    def remark_after(self, loc: Loc) -> str | None:
        """Return the `#word` that follows the value on its line: perhaps it was meant as text."""
        key, node = self._find(loc)
        mark = node.end_mark if getattr(node, "value", None) or key is None else key.end_mark
        if isinstance(node, yaml.ScalarNode) and not is_plain(node):
            return None
        if mark.line >= len(self.lines):
            return None
        match = re.match(r":?-?\s+(#[^\s#].*)", self.lines[mark.line][mark.column :])
        return match[1].split()[0] if match else None

    # --- walking ----------------------------------------------------------------------------------

    def _find(self, loc: Loc) -> tuple[yaml.Node | None, yaml.Node]:
        key: yaml.Node | None = None
        node = self.root
        for step in loc:
            if isinstance(node, yaml.MappingNode) and (entry := self._entries_of(node).get(str(step))):
                key, node = entry
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                key, node = None, node.value[step]
            else:
                break
        return key, node

    def _value(self, node: yaml.Node, loc: Loc) -> object:
        if id(node) not in self._shared:
            return self._fresh_value(node, loc)
        key = (id(node), self.substitution.is_verbatim(loc))
        if key not in self._values:
            self._values[key] = self._fresh_value(node, loc)
        return self._values[key]

    def _fresh_value(self, node: yaml.Node, loc: Loc) -> object:
        self._refuse_tag(node)
        if len(loc) > DEEPEST:
            raise Unreadable(_too_deep(node))
        if isinstance(node, yaml.MappingNode):
            entries = self._entries_of(node) if id(node) in self._shared else self._fresh_entries(node)
            wanted = ((key, item) for key, (_, item) in entries.items() if loc or not is_remark(key))
            return {key: self._value(item, (*loc, key)) for key, item in wanted}
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*loc, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and not (is_plain(node) and node.value in _NULLS):
            return self._text(node, loc)
        return None

    def _text(self, node: yaml.ScalarNode, loc: Loc) -> str:
        if "${" not in node.value:
            return str(node.value)
        try:
            return self.substitution.fill(node.value, loc)
        except ValueError as error:
            self._at(node, str(error))
            return str(node.value)

    def _entries_of(self, node: yaml.MappingNode) -> Entries:
        known = self._entries.get(id(node))
        if known is None:
            known = self._entries[id(node)] = self._fresh_entries(node)
        return known

    def _fresh_entries(self, node: yaml.MappingNode) -> Entries:
        own: Entries = {}
        merged: list[yaml.MappingNode] = []
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._at(key, "a list or mapping cannot be a key: write NAME: VALUE")
            elif key.value == _MERGE and is_plain(key):
                merged.extend(self._merge_sources(value))
            elif key.value in own:
                first = own[key.value][0].start_mark.line + 1
                self._at(key, f'"{key.value}" stands here twice (first in line {first}): rename or remove one')
            else:
                own[key.value] = (key, value)
        for source in merged:
            for name, entry in self._entries_of(source).items():
                own.setdefault(name, entry)
        return own

    def _merge_sources(self, node: yaml.Node) -> Iterator[yaml.MappingNode]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if isinstance(source, yaml.MappingNode):
                yield source
            else:
                self._at(source, "<<: takes a mapping, or a list of mappings, such as <<: *defaults")

    def _refuse_tag(self, node: yaml.Node) -> None:
        if node.tag not in _TAGS:
            shown = "!!" + node.tag.removeprefix(_TAG) if node.tag.startswith(_TAG) else node.tag
            self._at(node, f"the tag {shown} means nothing here: remove it, or put the text in quotes")

    def _at(self, node: yaml.Node, message: str) -> None:
        mark = node.start_mark
        self.mistakes.append(Mistake(line=mark.line + 1, column=mark.column + 1, message=message))

    # --- the bound on aliases ---------------------------------------------------------------------

    def _measure(self) -> None:
        """Refuse aliases that loop or explode; note which nodes are shared. Files without anchors are free."""
        if not any("&" in line for line in self.lines):
            return
        sizes: dict[int, int] = {}
        shared: set[int] = set()
        total = _size(self.root, sizes, shared, set(), 0)
        if total - len(sizes) > MOST_EXPANDED:
            message = f"aliases (*name) expand to more than {MOST_EXPANDED:,} values: write less with anchors"
            raise Unreadable(Mistake(line=0, column=0, message=message))
        self._shared = frozenset(shared)


def is_plain(node: yaml.ScalarNode) -> bool:
    """Tell whether a text stands without quotes (libyaml says so with "", the Python parser with None)."""
    return not node.style


def is_remark(key: str) -> bool:
    """Tell whether a key at the top of the file is for the writer's own use (`x-common: &common {...}`)."""
    return key.startswith("x-")


def _too_deep(node: yaml.Node) -> Mistake:
    mark = node.start_mark
    return Mistake(line=mark.line + 1, column=mark.column + 1, message="the file is nested too deeply")


def _size(node: yaml.Node, sizes: dict[int, int], shared: set[int], above: set[int], depth: int) -> int:
    """Return how many values the node expands to, without expanding it."""
    known = sizes.get(id(node))
    if known is not None:
        shared.add(id(node))
        return known
    if id(node) in above:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        message = "the anchor here contains itself: remove the loop"
        raise Unreadable(Mistake(line=line, column=column, message=message))
    if depth > DEEPEST:
        raise Unreadable(_too_deep(node))
    size = 1
    if not isinstance(node, yaml.ScalarNode):
        above.add(id(node))
        for child in _children(node):
            size += _size(child, sizes, shared, above, depth + 1)
        above.discard(id(node))
    sizes[id(node)] = size
    return size


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for child in node.value:
        if isinstance(child, tuple):
            yield from child
        else:
            yield child
