"""Templates and what they are given: every text is escaped, every secret is taken out, every instant has its zone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cron.redact import Redactor
from cron.schedule import format_duration
from delivery.render.plain import to_html

HERE = Path(__file__).parent
STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

_WORDS = {
    "ran": "ran",
    "silent": "silent",
    "failed": "failed",
    "skipped_late": "skipped: too late",
    "skipped_overlap": "skipped: still running",
    "skipped_paused": "skipped: paused",
    "skipped_calendar": "skipped: day off",
    "coalesced": "merged into a later one",
    "unknown": "unknown",
    "in_doubt": "in doubt",
}
_TONES = {
    "ran": "good",
    "sent": "good",
    "up": "good",
    "failed": "bad",
    "unknown": "bad",
    "in_doubt": "bad",
    "down": "bad",
    "degraded": "warn",
    "held": "warn",
    "skipped_late": "warn",
    "pending": "busy",
    "sending": "busy",
    "running": "busy",
}


class Templates:
    """Renders the page's templates. `redactor` returns what takes the present secrets out of a text."""

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self._redactor = redactor
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=self._shown,
        )
        self._environment.filters |= {
            "when": when,
            "markdown": self._markdown,
            "lateness": lambda seconds: format_duration(timedelta(seconds=round(seconds))),
            "words": lambda word: _WORDS.get(word, str(word).replace("_", " ")),
            "tone": lambda word: _TONES.get(word, "plain"),
            "path": lambda text: quote(str(text), safe=""),
        }
        self._environment.globals |= {"asset": _assets().__getitem__}

    def render(self, name: str, **facts: Any) -> str:
        """Return a page. Slow for long transcripts: call it in a thread."""
        return self._environment.get_template(name).render(**facts)

    def _markdown(self, text: str) -> Markup:
        return Markup(to_html(self._redactor().redact(text)))

    def _shown(self, value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Markup):
            return self._redactor().redact(value)
        return value


def when(at: datetime | str | None, zone: str | None, *, exact: bool = False) -> Markup:
    """Show an instant in a zone, with the zone's name; UTC appears on hover. `exact` shows seconds that are not 0.

    `zone` None: as the text's own offset says, which is then the label.
    """
    if at is None:
        return Markup("")
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    local = instant if zone is None else instant.astimezone(ZoneInfo(zone))
    utc = instant.astimezone(UTC)
    clock = f"{local:%H:%M:%S}" if exact and local.second else f"{local:%H:%M}"
    return Markup('<time datetime="{}" title="{}">{} <span class="zone">{}</span></time>').format(
        utc.isoformat(),
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
        f"{local:%a} {local.day} {local:%b} {local.year}, {clock}",
        offset_of(local) if zone is None else zone,
    )


def offset_of(at: datetime) -> str:
    """Write an instant's offset as a label: `UTC+05:30`."""
    text = f"{at:%z}"
    return f"UTC{text[:3]}:{text[3:5]}"


def static_files() -> dict[str, bytes]:
    """Return the files under /static by name."""
    return {name: (HERE / "static" / name).read_bytes() for name in STATIC}


def _assets() -> dict[str, str]:
    """Return each static file's address; it changes with the file, so that browsers may keep what they have."""
    return {name: f"/static/{name}?{sha256(body).hexdigest()[:12]}" for name, body in static_files().items()}
