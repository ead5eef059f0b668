"""Whatever stands in a jobs.yaml: it is read, or refused in sentences; never a traceback."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.cron.jobs_loading import ENVIRON

from cron.jobs import ConfigError, load_config

ROOT = Path(__file__).parents[3]
SAMPLE = (ROOT / "examples" / "slack.yaml").read_text().partition("timezone:")[2]
PIECES = [
    "*",
    "&a ",
    "*a",
    "@",
    "#",
    ": ",
    "\n",
    "  ",
    "\t",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "|",
    ">",
    "<<: ",
    "- ",
    "? ",
    "${",
    "!!",
    "%",
    "---\n",
    "null",
    "x",
    "1:30",
    "\x00",
    "\ufeff",
    "é",
    "\\",
    ",",
]


def is_read_or_refused(data: bytes) -> bool:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.yaml"
        path.write_bytes(data)
        try:
            load_config(path, environ=ENVIRON, host_zone="UTC")
        except ConfigError as error:
            return bool(error.mistakes) and all(
                line.startswith(str(path)) and "\n" not in line for line in error.mistakes
            )
        return True


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(SAMPLE)), st.integers(0, 9), st.sampled_from(PIECES)), min_size=1, max_size=4)
)
def test_a_file_with_slips_of_the_finger(slips: list[tuple[int, int, str]]) -> None:
    text = "timezone:" + SAMPLE
    for at, cut, piece in slips:
        text = text[:at] + piece + text[at + cut :]
    assert is_read_or_refused(text.encode())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    assert is_read_or_refused(data)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*PIECES, "jobs:", "a", "b: "]), max_size=30).map("".join))
def test_any_heap_of_signs(text: str) -> None:
    assert is_read_or_refused(text.encode())
