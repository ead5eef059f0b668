"""`${NAME}` in values: read from the environment, then from `.env`; what came in this way may be a secret."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SHORTEST_SECRET: Final = 8
SHORTEST_TOKEN: Final = 4
SECRET_FIELDS: Final = frozenset({"bot_token", "app_token", "token", "api_key"})

_VARIABLE: Final = re.compile(
    r"(?P<literal>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_.]*)\}|(?P<odd>\$\{[^}\s]{0,60}\}?)"
)
_SECRET_NAME: Final = re.compile(r"token|secret|passw|(^|_|api)key($|_)|credential", re.IGNORECASE)


@dataclass(slots=True)
class Substitution:
    """Fills in variables and remembers which values must never be shown, and which variables were read."""

    environ: Mapping[str, str]
    dotenv: Mapping[str, str]
    secrets: set[str] = field(default_factory=set)
    used: dict[str, str] = field(default_factory=dict)

    def is_verbatim(self, loc: tuple[str | int, ...]) -> bool:
        """Tell whether values at a place are no secrets: targets, `allow`, `timezone` (names that are shown)."""
        return (
            loc[:1] in (("targets",), ("timezone",))
            or (len(loc) > 2 and loc[0] == "accounts" and loc[2] == "allow")
            or (len(loc) > 2 and loc[0] == "jobs" and loc[2] in ("deliver", "on_failure", "timezone"))
            or (len(loc) > 1 and loc[0] == "defaults" and loc[1] in ("deliver", "on_failure"))
        )

    def fill(self, text: str, loc: tuple[str | int, ...]) -> str:
        """Return the text with its variables filled in. Raises ValueError naming the one that is missing."""
        missing: list[str] = []
        is_open = self.is_verbatim(loc)

        def one(match: re.Match[str]) -> str:
            if match["literal"]:
                return "${"
            if match["odd"]:
                raise ValueError(f"{match['odd']} is not understood: write ${{NAME}}, or $${{...}} for the text itself")
            name = match["name"]
            value = self.environ.get(name, self.dotenv.get(name))
            if value is None:
                missing.append(name)
                return match.group()
            self.used[name] = value
            if not is_open and len(value) >= SHORTEST_SECRET:
                self.secrets.add(value)
            return value

        filled = _VARIABLE.sub(one, text)
        if missing:
            raise ValueError(_missing(missing))
        return filled

    def note_secret(self, name: str, value: str | None) -> None:
        """Remember the value of a token or key field, however it came in; or of an `env` entry that is named so."""
        if value is None:
            return
        is_named_so = len(value) >= SHORTEST_SECRET and _SECRET_NAME.search(name) is not None
        if is_named_so or (name in SECRET_FIELDS and len(value) >= SHORTEST_TOKEN):
            self.secrets.add(value)


def _missing(names: list[str]) -> str:
    listed = " and ".join(dict.fromkeys(names))
    verb = "is" if len(set(names)) == 1 else "are"
    return f"{listed} {verb} not set: set it in the environment, or in .env beside this file"
