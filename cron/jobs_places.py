"""Accounts and targets: from the shapes of the file to values that are checked against each other."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cron.jobs_fields import check_name
from cron.jobs_models import AccountModel, TargetModel
from cron.jobs_yaml import Document, Loc
from cron.model import EVERYONE, AccountKind, AccountSpec, Allow, Listen, SessionScope, TargetSpec
from delivery.targets import LOCAL, Target, TargetError, parse_target

NOWHERE: Final = "none"

_ACCOUNT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TARGET_NAME: Final = re.compile(r"[^\s:/,#@][^:/,]*")
_IDS: Final = {AccountKind.SLACK: re.compile(r"[A-Z][A-Z0-9]{1,24}"), AccountKind.TELEGRAM: re.compile(r"-?\d{1,19}")}
_FIELDS: Final = {AccountKind.SLACK: ("bot_token", "app_token"), AccountKind.TELEGRAM: ("token",)}


def account_spec(name: str, model: AccountModel, document: Document) -> AccountSpec | None:
    """Return the account, or None after reporting what is wrong with it."""
    loc: Loc = ("accounts", name)
    before = len(document.mistakes)
    if name == LOCAL:
        document.report(loc, "`local` is always there: remove it from accounts", on_key=True)
        return None
    if not _ACCOUNT_NAME.fullmatch(name):
        message = f"{name!a} is no name for an account: letters, digits, dots, dashes and _ only"
        document.report(loc, message, on_key=True)
    word = model.kind or name
    if word not in ("slack", "telegram"):
        document.report(loc, f'say which platform "{name}" is: add kind: slack or kind: telegram', on_key=True)
        return None
    kind = AccountKind(word)
    _check_tokens(loc, kind, model, document)
    allow = _allow(loc, kind, model.allow, document)
    if len(document.mistakes) > before:
        return None
    return AccountSpec(
        name=name,
        kind=kind,
        bot_token=model.bot_token,
        app_token=model.app_token,
        token=model.token,
        allow=allow,
        base_url=_base_url(kind, model.base_url),
    )


def _check_tokens(loc: Loc, kind: AccountKind, model: AccountModel, document: Document) -> None:
    wanted = _FIELDS[kind]
    for name in ("bot_token", "app_token", "token"):
        value: str | None = getattr(model, name)
        if value is not None and name not in wanted:
            document.report((*loc, name), f"{kind} has no `{name}`: write {' and '.join(wanted)}", on_key=True)
        elif value is not None and any(char.isspace() for char in value):
            document.report((*loc, name), f"`{name}` holds white space: copy the token again")
    first = wanted[0]
    if getattr(model, first) is None:
        document.report(loc, f'{kind} needs `{first}`: add {first}: "${{NAME_OF_THE_VARIABLE}}"', on_key=True)
    for name, prefix, other in (("bot_token", "xapp-", "app_token"), ("app_token", "xoxb-", "bot_token")):
        if (getattr(model, name) or "").startswith(prefix):
            document.report((*loc, name), f"this token begins with {prefix}: it belongs under `{other}`")


def _allow(loc: Loc, kind: AccountKind, ids: tuple[str, ...] | None, document: Document) -> Allow:
    if ids is None:
        return None
    if [word.lower() for word in ids] == ["everyone"]:
        return EVERYONE
    for index, word in enumerate(ids):
        if not _IDS[kind].fullmatch(word):
            sort = "a member id such as U0123456789" if kind is AccountKind.SLACK else "a number such as 123456789"
            document.report(
                (*loc, "allow", index), f'"{word}" is no id: names can change, so write {sort}, or everyone'
            )
    return frozenset(ids)


def _base_url(kind: AccountKind, url: str | None) -> str | None:
    if url is None:
        return None
    return url.rstrip("/") + ("/" if kind is AccountKind.SLACK else "")


# --- places ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Places:
    """Every place that the file may name. `broken` names exist, but are wrong: they are not reported twice."""

    accounts: Mapping[str, AccountSpec]
    targets: Mapping[str, TargetSpec] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    _known: dict[str, Target] = field(default_factory=dict)

    def find(self, text: str) -> Target | None:
        """Return what a name or a text means; None if a mistake about it was reported already. Raises TargetError."""
        named = self.targets.get(text)
        if named is not None:
            return named.target
        account = text.partition(":")[0].strip()
        if text in self.broken or (":" in text and account in self.broken and account not in self.accounts):
            return None
        target = self._known.get(text)
        if target is None:
            target = self._known[text] = self._parse(text)
        return target

    def _parse(self, text: str) -> Target:
        kinds = {name: str(spec.kind) for name, spec in self.accounts.items()}
        try:
            return parse_target(text, kinds)
        except TargetError as error:
            if ":" in text or not self.targets:
                raise
            raise TargetError(f"{error} (names in targets: {', '.join(list(self.targets)[:10])})") from None

    def check_each(self, texts: tuple[str, ...], loc: Loc, document: Document) -> tuple[str, ...]:
        """Return the texts, one for each place; report those that name none."""
        kept: dict[object, str] = {}
        for index, text in enumerate(texts):
            try:
                target = self.find(text)
            except TargetError as error:
                document.report((*loc, index), str(error))
                continue
            if target is not None:
                kept.setdefault(target.place, text)
        return tuple(kept.values())


def target_spec(name: str, model: TargetModel, places: Places, document: Document) -> TargetSpec | None:
    """Return the named place, or None after reporting what is wrong with it."""
    loc: Loc = ("targets", name)
    try:
        check_name(name, "a target")
    except ValueError as error:
        document.report(loc, str(error), on_key=True)
        return None
    if name in (LOCAL, NOWHERE) or not _TARGET_NAME.fullmatch(name) or name != name.strip():
        reason = "has a meaning of its own" if name in (LOCAL, NOWHERE) else "holds one of : / , # @ or a space"
        document.report(loc, f'"{name}" is no name for a target, as it {reason}: choose another', on_key=True)
        return None
    try:
        target = places.find(model.to)
    except TargetError as error:
        document.report((*loc, "to"), str(error))
        return None
    if target is None:
        return None
    return TargetSpec(
        name=name,
        to=model.to,
        target=target,
        listen=model.listen or Listen.MENTIONS,
        sessions=model.sessions or SessionScope.SHARED,
    )


def check_rules_agree(targets: Mapping[str, TargetSpec], document: Document) -> None:
    """Report two names for one place with different rules."""
    first: dict[object, TargetSpec] = {}
    for name, spec in targets.items():
        other = first.setdefault(spec.target.place, spec)
        if (other.listen, other.sessions) != (spec.listen, spec.sessions):
            document.report(
                ("targets", name), f'"{name}" and "{other.name}" are one place with different rules: keep one'
            )
