"""What jobs.yaml says of each chat, found by the chat's real id: targets are resolved when accounts are up."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cron.model import AccountKind, AccountSpec, Config, Everyone, TargetSpec
from delivery.model import Address
from delivery.ports import AccountDown, Platform, TargetUnresolved
from delivery.targets import LOCAL, TargetError
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
        self._known: dict[_Place, _Known] = {}

    def for_chat(self, address: Address) -> ChatRules:
        """Return the rules of the topic if a target names it, else of the chat, else the account's."""
        known = self._known.get((address.account, address.chat, address.topic)) or self._of_chat(address)
        account = self._config().accounts.get(address.account)
        allow, everyone = _allowed(account)
        if address.account == LOCAL:  # the page's own people; it always listens
            return ChatRules(listen=Listen.ALL, everyone=True, is_delivered_to=True)
        return ChatRules(
            listen=Listen.MENTIONS if known is None else known.listen,
            sessions=SessionScope.SHARED if known is None else known.sessions,
            allow=allow,
            everyone=everyone,
            is_delivered_to=known is not None and known.is_delivered_to,
            has_threads=account is None or account.kind is not AccountKind.TELEGRAM,  # there, an answer quotes
        )

    async def refresh(self, account: str | None = None) -> None:
        """Resolve every target of the file (or of one account) to the chat that it names now."""
        config = self._config()
        delivered = {text for job in config.jobs.values() if job.enabled for text in job.deliver}
        for text in dict.fromkeys([*config.targets, *sorted(delivered)]):
            try:
                spec = config.target(text)
            except TargetError:
                continue  # `check` has said so
            if account is None or spec.target.account == account:
                await self._learn(spec, is_delivered_to=text in delivered)

    async def _learn(self, spec: TargetSpec, *, is_delivered_to: bool) -> None:
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
            return
        place = (address.account, address.chat, address.topic)
        before = self._known.get(place)
        self._known[place] = _Known(
            listen=Listen(str(spec.listen)),
            sessions=SessionScope(str(spec.sessions)),
            is_delivered_to=is_delivered_to or (before is not None and before.is_delivered_to),
        )

    def _of_chat(self, address: Address) -> _Known | None:
        """The rules of any topic of the chat hold for its other topics too, as far as hearing goes."""
        whole = self._known.get((address.account, address.chat, None))
        if whole is not None:
            return whole
        parts = [known for place, known in self._known.items() if place[:2] == (address.account, address.chat)]
        return next((known for known in parts if known.is_delivered_to), parts[0] if parts else None)


def _allowed(account: AccountSpec | None) -> tuple[frozenset[str] | None, bool]:
    if account is None or account.allow is None:
        return None, False
    if isinstance(account.allow, Everyone):
        return None, True
    return account.allow, False
