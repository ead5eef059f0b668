"""Fit plain values into the models, with every misfit reported at its place in a person's words."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from cron.jobs_fields import NO_VALUE, ItemError
from cron.jobs_models import RetryModel
from cron.jobs_yaml import Document, Loc

M = TypeVar("M", bound=BaseModel)

_OTHER_WORDS: Final[Mapping[str, str]] = {
    "cron": "write `schedule`",
    "crontab": "write `schedule`",
    "at": "write `schedule`",
    "every": 'write `schedule`, such as schedule: "every 2h"',
    "interval": 'write `schedule`, such as schedule: "every 2h"',
    "schedules": "write `schedule`; it takes a list",
    "tz": "write `timezone`",
    "zone": "write `timezone`",
    "time_zone": "write `timezone`",
    "channel": "write `deliver`",
    "channels": "write `deliver`",
    "target": "write `deliver`",
    "to": "write `deliver`",
    "notify": "write `deliver`, or `on_failure`",
    "script": "write `command`",
    "run": "write `command`",
    "cmd": "write `command`",
    "exec": "write `command`",
    "message": "write `text`",
    "attach_to_session": "write `continue`",
    "mirror_delivery": "write `continue`",
    "continuable": "write `continue`",
    "cron_continuable_surface": "write `surface`",
    "no_agent": "write `command` instead of `prompt`",
    "disabled": "write `enabled: false`",
    "paused": "write `enabled: false`, or use `hermes-cron pause`",
    "coalesce": "write `catch_up: latest`",
    "misfire_grace_time": "write `late`",
    "max_instances": "write `overlap`",
    "retries": "write `retry: {attempts: 3, wait: 30s}`",
    "start_date": "write `start`",
    "from": "write `start`",
    "until": "write `end`",
    "end_date": "write `end`",
    "exclude": "write `except`",
    "system": "write `instructions`",
    "system_prompt": "write `instructions`",
    "url": "write `base_url`",
    "allowed_users": "write `allow`",
    "allow_from": "write `allow`",
}

_STAND_INS: Final[Mapping[str, object]] = {
    "schedule": "@daily",
    "command": ["true"],
    "prompt": "-",
    "text": "-",
    "bot_token": "-",
    "app_token": "-",
    "token": "-",
    "model": "-",
    "api_key": "-",
}

_MISSING: Final[Mapping[str, str]] = {
    "schedule": 'a job needs a schedule: add one, such as schedule: "0 8 * * mon-fri" or "every 2h"',
    "to": 'a target needs a place: add one, such as to: "slack:#ops"',
}


def fit(model: type[M], value: object, loc: Loc, document: Document) -> M | None:
    """Return the value as that model, after reporting everything that does not fit.

    What does not fit is left out (or stood in for), so that the rest can be checked against the other sections;
    None where too little is left.
    """
    odd = set(_nothings(value, loc, document))
    try:
        if not odd:
            return model.model_validate(value)
    except ValidationError as error:
        odd |= _report_all(model, error, loc, document)
    else:
        try:
            model.model_validate({key: item for key, item in _entries(value) if key not in odd})
        except ValidationError as error:
            odd |= _report_all(model, error, loc, document, unless=odd)
    return _rest(model, value, odd)


def _entries(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []


def _rest(model: type[M], value: object, odd: set[str]) -> M | None:
    """Return the model without its odd keys; what is needed has a stand-in, whose use is never seen."""
    if not isinstance(value, dict) or "kind" in odd:
        return None
    kept: dict[str, object] = {key: item for key, item in value.items() if key not in odd}
    try:
        return model.model_validate(kept | {key: _STAND_INS[key] for key in odd & _STAND_INS.keys()})
    except ValidationError:
        return None


def _report_all(
    model: type[BaseModel], error: ValidationError, loc: Loc, document: Document, unless: Collection[str] = ()
) -> set[str]:
    """Report each detail; return the keys at fault."""
    odd: set[str] = set()
    for detail in error.errors(include_url=False, include_input=False):
        key = str(detail["loc"][0]) if detail["loc"] else ""
        odd.add(key)
        if key not in unless:
            _report(model, detail, loc, document)
    return odd


def _nothings(value: object, loc: Loc, document: Document) -> Iterator[str]:
    """Report keys without a value (`deliver: #ops` is one); an empty `env:` will do."""
    for key, item in _entries(value):
        if item is None and key != "env":
            report(document, (*loc, key), NO_VALUE)
            yield key
        elif isinstance(item, dict) and key != "env" and list(_nothings(item, (*loc, key), document)):
            yield key


def report(document: Document, loc: Loc, message: str) -> None:
    """Report a message at a value; where nothing stands, look whether a `#` swallowed it."""
    if message == NO_VALUE:
        remark = document.remark_after(loc)
        if remark is not None:
            message = f'"{remark}" is read as a remark, because it begins with #: put the text in quotes'
    document.report(loc, message)


def _report(model: type[BaseModel], detail: Any, loc: Loc, document: Document) -> None:
    inner: Loc = detail["loc"]
    place = (*loc, *inner)
    sort = detail["type"]
    if sort == "extra_forbidden":
        owner = RetryModel if len(inner) > 1 else model
        document.report(place, unknown_key(str(inner[-1]), owner), on_key=True)
    elif sort == "missing":
        name = str(inner[-1])
        document.report(place[:-1], _MISSING.get(name, f"`{name}` is missing here"), on_key=True)
    elif sort in ("model_type", "dict_type", "model_attributes_type"):
        document.report(place, "a mapping is wanted here: indented lines of NAME: VALUE")
    else:
        error = detail.get("ctx", {}).get("error")
        if isinstance(error, ItemError):
            place = (*place, error.item)
        report(document, place, str(error) if error is not None else detail["msg"])


def known_keys(model: type[BaseModel]) -> list[str]:
    """Return the keys that a mapping may have, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def unknown_key(key: str, model: type[BaseModel]) -> str:
    """Say which known key was perhaps meant."""
    known = known_keys(model)
    folded = key.strip().lower().replace("-", "_").replace(" ", "_")
    hint = _OTHER_WORDS.get(folded)
    if hint is not None and folded not in known and hint.split("`")[1].split(":")[0] in known:
        return f'"{key}" is not known here: {hint}'
    near = [folded] if folded in known else get_close_matches(folded, known, n=1, cutoff=0.6)
    if near:
        return f'"{key}" is not known here: did you mean `{near[0]}`?'
    return f'"{key}" is not known here: the keys are {", ".join(known)}'
