"""What jobs.yaml says of each chat, found by the chat's real id: targets are resolved when accounts are up."""

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cron.model import AccountKind, AccountSpec, Config, Everyone, TargetSpec
from delivery.model import Address
from delivery.ports import AccountDown, Platform, TargetUnresolved
from delivery.targets import LOCAL, TargetError, format_target
from seeding.model import ChatRules, Listen, SessionScope

log = logging.getLogger(__name__)

_Place = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    listen: Listen
    sessions: SessionScope
    is_delivered_to: bool


class JobRulebook:
    """`seeding.ports.Rulebook` from a Config. `refresh` after a reload, and when an account comes up."""

    def __init__(self, *, config: Callable[[], Config], platforms: Callable[[], Mapping[str, Platform]]) -> None:
        self._config = config
        self._platforms = platforms
        self._spots: dict[str, _Place] = {}  # where each target text was found, the last time that it could be asked
        self._moved: dict[tuple[str, str], str] = {}  # (account, old chat) -> new chat
        self._known: dict[_Place, _Known] = {}

    def for_chat(self, address: Address) -> ChatRules:
        """Return the rules of the topic if a target names it, else of the chat, else the account's."""
        everything = self._known
        known = everything.get((address.account, address.chat, address.topic)) or _of_chat(everything, address)
        account = self._config().accounts.get(address.account)
        allow, everyone = _allowed(account)
        if address.account == LOCAL:  # the page's own people; it always listens
            return ChatRules(listen=Listen.ALL, everyone=True, is_delivered_to=True, is_own_page=True)
        return ChatRules(
            listen=Listen.MENTIONS if known is None else known.listen,
            sessions=SessionScope.SHARED if known is None else known.sessions,
            allow=allow,
            everyone=everyone,
            is_delivered_to=known is not None and known.is_delivered_to,
            has_threads=account is None or account.kind is not AccountKind.TELEGRAM,  # there, an answer quotes
        )

    def remember(self, spots: Mapping[str, tuple[str, str, str | None]], moves: Mapping[tuple[str, str], str]) -> None:
        """Take over where targets (as text) were found before this start: (account, chat, topic); and moves.

        Until the platform can be asked, people in those chats are heard all the same.
        """
        self._moved.update(moves)
        self._spots = dict(spots) | self._spots
        self._apply()

    async def refresh(self, account: str | None = None) -> None:
        """Resolve every target of the file (or of one account) to the chat that it names now."""
        for spec, _ in self._targets():
            if account is None or spec.target.account == account:
                await self._find(spec)
        self._apply()

    def moved(self, account: str, old: str, new: str) -> None:
        """Let the rules of a chat follow it to its new id at once: people go on writing there.

        The platform may go on naming the old id where jobs.yaml does.
        """
        self._moved[account, old] = new
        for text, (of, chat, topic) in self._spots.items():
            if (of, chat) == (account, old):
                self._spots[text] = (of, new, topic)
        self._apply()

    def _targets(self) -> list[tuple[TargetSpec, bool]]:
        """Return every target of the file, and whether an enabled job delivers there."""
        config = self._config()
        delivered = {text for job in config.jobs.values() if job.enabled for text in job.deliver}
        found = []
        for text in dict.fromkeys([*config.targets, *sorted(delivered)]):
            with contextlib.suppress(TargetError):  # `check` has said so
                found.append((config.target(text), text in delivered))
        return found

    async def _find(self, spec: TargetSpec) -> None:
        platform = self._platforms().get(spec.target.account)
        if platform is None:
            return
        try:
            address = await platform.resolve(spec.target)
        except (AccountDown, TargetUnresolved) as error:
            log.info(
                "A target cannot be found yet.",
                extra={"action": "target_unresolved", "target": spec.to, "reason": error.reason},
            )
        else:
            moved = self._moved.get((address.account, address.chat), address.chat)
            self._spots[format_target(spec.target)] = (address.account, moved, address.topic)

    def _apply(self) -> None:
        """Build the rules anew from the file and what is known of its places. One assignment: others read meanwhile."""
        known: dict[_Place, _Known] = {}
        for spec, is_delivered_to in self._targets():
            place = self._spots.get(format_target(spec.target))
            if place is not None:
                before = known.get(place)
                # A target of `targets:` says what holds at its place, however else a job spells that place.
                rules = before if before is not None and spec.name is None else _rules(spec)
                known[place] = replace(
                    rules, is_delivered_to=is_delivered_to or (before is not None and before.is_delivered_to)
                )
        self._known = known


def _rules(spec: TargetSpec) -> _Known:
    return _Known(listen=spec.listen, sessions=spec.sessions, is_delivered_to=False)


def _of_chat(everything: Mapping[_Place, _Known], address: Address) -> _Known | None:
    """The rules of any topic of the chat hold for its other topics too, as far as hearing goes."""
    whole = everything.get((address.account, address.chat, None))
    if whole is not None:
        return whole
    parts = [known for place, known in everything.items() if place[:2] == (address.account, address.chat)]
    return next((known for known in parts if known.is_delivered_to), parts[0] if parts else None)


def _allowed(account: AccountSpec | None) -> tuple[frozenset[str] | None, bool]:
    if account is None or account.allow is None:
        return None, False
    if isinstance(account.allow, Everyone):
        return None, True
    return account.allow, False
