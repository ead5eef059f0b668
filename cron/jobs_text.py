"""The file as text: encodings, control characters, and `.env` beside it."""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cron.jobs_errors import Mistake, Unreadable

LARGEST: Final = 64 * 1024 * 1024

_OTHER_ENCODINGS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_MOST_SHOWN: Final = 20


def read_bytes(path: Path) -> bytes:
    """Read the file whole. Raises Unreadable with one sentence."""
    try:
        if path.is_dir():
            raise Unreadable(_nowhere("this is a folder: name the file, such as jobs.yaml"))
        if path.exists() and not path.is_file():
            raise Unreadable(_nowhere("this is no file (a pipe, a socket or a device): name one, such as jobs.yaml"))
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise Unreadable(_nowhere("there is no such file: `hermes-cron init` writes one")) from None
    except PermissionError:
        raise Unreadable(_nowhere("config unreadable: permission denied (look at its owner and mode)")) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Unreadable(_nowhere(f"config unreadable: {reason.lower()}")) from None
    if len(data) > LARGEST:
        raise Unreadable(_nowhere(f"the file is larger than {LARGEST // 1024 // 1024} MB: is this the right one?"))
    return data


def decode(data: bytes) -> str:
    """Return the text of a UTF-8 file, without a BOM. Raises Unreadable for anything else."""
    for bom, name in _OTHER_ENCODINGS:
        if data.startswith(bom):
            raise Unreadable(_nowhere(f"the file is {name}: save it as UTF-8"))
    if b"\x00" in data[:400]:
        raise Unreadable(_nowhere("the file is binary, or UTF-16 without a mark: save it as UTF-8"))
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, column = place_of(before, len(before))
        bad = data[error.start]
        message = f"the byte 0x{bad:02X} here is not UTF-8: save the file as UTF-8"
        raise Unreadable(Mistake(line=line, column=column, message=message)) from None
    controls = tuple(_controls(text))
    if controls:
        raise Unreadable(*controls)
    return text


def _controls(text: str) -> Iterator[Mistake]:
    for found, match in enumerate(_CONTROL.finditer(text)):
        if found == _MOST_SHOWN:
            return
        line, column = place_of(text, match.start())
        name = f"U+{ord(match.group()):04X}"
        yield Mistake(line=line, column=column, message=f"the control character {name} stands here: remove it")


def place_of(text: str, index: int) -> tuple[int, int]:
    """Return line and column, counted from 1, of the character at `index`."""
    start = text.rfind("\n", 0, index) + 1
    return text.count("\n", 0, index) + 1, index - start + 1


def _nowhere(message: str) -> Mistake:
    return Mistake(line=0, column=0, message=message)


# --- .env -----------------------------------------------------------------------------------------

_ASSIGNMENT: Final = re.compile(
    r"""
    [ \t]*(?:export[ \t]+)?
    (?P<name>[A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*
    (?:
        '(?P<single>[^']*)'
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | (?P<plain>[^\r\n]*)
    )
    [^\r\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
_REMARK: Final = re.compile(r"(^|\s)#.*$")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


def parse_env(text: str) -> tuple[dict[str, str], tuple[int, ...]]:
    """Read a `.env` file: the variables, and the numbers of the lines that say nothing.

    Knows `export`, remarks, single quotes (as they are), double quotes (with escapes, over several lines) and
    CRLF. Nothing is expanded.
    """
    variables: dict[str, str] = {}
    odd: list[int] = []
    index, text = 0, text.removeprefix("\ufeff")
    while index < len(text):
        end = text.find("\n", index)
        line = text[index : len(text) if end < 0 else end].strip()
        match = None if not line or line.startswith("#") else _ASSIGNMENT.match(text, index)
        if match is not None:
            variables[match["name"]] = _env_value(match)
            end = text.find("\n", match.end())
        elif line and not line.startswith("#"):
            odd.append(text.count("\n", 0, index) + 1)
        index = len(text) if end < 0 else end + 1
    return variables, tuple(odd)


def _env_value(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return match["single"]
    if match["double"] is not None:
        unfolded = match["double"].replace("\r\n", "\n")
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), unfolded)
    return _REMARK.sub("", match["plain"]).strip()


def read_env(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Read the `.env` of a folder, if there is one: its variables, and warnings about it."""
    path = folder / ".env"
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}, ()
    except OSError as error:
        return {}, (f"{path}: not read: {(error.strerror or str(error)).lower()}",)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return {}, (f"{path}: not read: save it as UTF-8",)
    variables, odd = parse_env(text)
    return variables, tuple(f"{path}:{line}:1: not read: write NAME=value" for line in odd)
