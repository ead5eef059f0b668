"""Finding places in Slack: the list of conversations, and which one a target means."""

from typing import Protocol

from delivery.directory import ListChats, address_of, choose
from delivery.model import Address, ChatKind
from delivery.platforms.slack_calls import (
    CallFailed,
    Calls,
    Json,
    Limited,
    ListIncomplete,
    Refused,
    Unclear,
    account_down,
    ask,
    pages,
)
from delivery.platforms.slack_names import Names, Person
from delivery.platforms.slack_time import is_ts
from delivery.ports import Chat, TargetUnresolved
from delivery.targets import Target

SCOPES = {
    "public_channel": "channels:read",
    "private_channel": "groups:read",
    "mpim": "mpim:read",
    "im": "im:read",
}
MOST_ROOTS = 5_000
NAMED = 5


class KnownChats(Protocol):
    """What resolving asks of the channel directory; see `delivery.directory.Directory`."""

    async def find(self, name: str, list_chats: ListChats) -> Chat:
        """Return the chat of this id or name, listing anew on a miss. Raises TargetUnresolved, AccountDown."""

    async def lookup(self, name: str) -> Chat | None:
        """Return the chat of this id or name if it is known. Raises TargetUnresolved."""


class Places:
    """Resolves targets of one account. What was found once is not asked for again."""

    def __init__(self, *, account: str, calls: Calls, names: Names, directory: KnownChats | None) -> None:
        self._account = account
        self._calls = calls
        self._names = names
        self._directory = directory
        self._direct: dict[str, str] = {}  # user id to the id of the conversation with them
        self._roots: dict[tuple[str, str], str] = {}

    # --- the list -------------------------------------------------------------------------------------

    async def chats(self, scopes: frozenset[str] | None) -> list[Chat]:
        """List the conversations that the token may see. Raises AccountDown; ListIncomplete if only for now."""
        kinds = [kind for kind, scope in SCOPES.items() if scopes is None or scope in scopes]
        if not kinds:
            raise ListIncomplete("the token lacks the scope channels:read: add it to the app and install it again")
        found: list[Json] = []
        try:
            async for page in pages(
                self._calls, "conversations.list", "channels", types=",".join(kinds), exclude_archived=True, limit=999
            ):
                found += page
        except CallFailed as failed:
            raise account_down(failed.result) or ListIncomplete(failed.reason) from failed
        await self._name_people(found)
        return [self._chat(one) for one in found if one.get("id")]

    async def _name_people(self, conversations: list[Json]) -> None:
        users = {str(one["user"]) for one in conversations if one.get("is_im") and one.get("user")}
        if any(self._names.handle(user) is None for user in users):
            try:
                await self._names.people()
            except CallFailed:
                return  # they are listed by their ids

    def _chat(self, conversation: Json) -> Chat:
        chat, kind = str(conversation["id"]), kind_of(conversation)
        user = conversation.get("user")
        name = conversation.get("name") or (user and self._names.handle(str(user))) or user or chat
        members = conversation.get("num_members")
        if kind is ChatKind.DM and user:
            self._direct[str(user)] = chat
        self._names.note_chat(chat, kind, str(name))
        return Chat(chat=chat, name=str(name), kind=kind, members=members if isinstance(members, int) else None)

    # --- one target -----------------------------------------------------------------------------------

    async def resolve(self, target: Target, workspace: str, scopes: frozenset[str] | None) -> Address:
        """Name the place of a target. Raises TargetUnresolved, AccountDown."""
        try:
            chat = await self._find(target.chat, scopes)
            root = None if target.thread is None else await self._root(chat.chat, target.thread)
        except CallFailed as failed:
            raise account_down(failed.result) or self._unresolved(target, failed) from failed
        except ListIncomplete as incomplete:
            reason = f'"{target.chat}" cannot be looked up now: {incomplete.reason}'
            raise TargetUnresolved(reason, final=False) from incomplete
        self._names.note_chat(chat.chat, chat.kind)
        place = Target(account=target.account, chat=target.chat, thread=root)
        return address_of(place, chat, workspace)

    def _unresolved(self, target: Target, failed: CallFailed) -> TargetUnresolved:
        passes = isinstance(failed.result, Limited | Unclear) or failed.code == "missing_scope"
        return TargetUnresolved(f'"{target.chat}" on {self._account}: {failed.reason}', final=not passes)

    async def _find(self, name: str, scopes: frozenset[str] | None) -> Chat:
        if name.startswith("#"):
            return await self._named(name, scopes)
        if name.startswith("@"):
            return await self._person(name)
        if name.startswith(("U", "W")):
            return await self._direct_chat(name)
        return await self._by_id(name)

    async def _named(self, name: str, scopes: frozenset[str] | None) -> Chat:
        async def list_chats() -> list[Chat]:
            return await self.chats(scopes)

        if self._directory is not None:
            return await self._directory.find(name, list_chats)
        found = choose(await list_chats(), self._account, name)
        if found is None:
            raise TargetUnresolved(f'"{name}" is nowhere to be found on {self._account}', final=True)
        return found

    async def _by_id(self, chat: str) -> Chat:
        known = self._names.kind(chat)
        if known is not None:
            return Chat(chat=chat, name=self._names.name(chat) or chat, kind=known)
        listed = None if self._directory is None else await self._directory.lookup(chat)
        if listed is not None and listed.chat == chat:
            return listed
        try:
            answer = await ask(self._calls, "conversations.info", channel=chat)
        except CallFailed as failed:
            if failed.code != "missing_scope":
                raise
            return Chat(chat=chat, name=chat, kind=ChatKind.DM if chat.startswith("D") else ChatKind.CHANNEL)
        return self._chat({"id": chat, **(answer.get("channel") or {})})

    async def _person(self, name: str) -> Chat:
        wanted = name.removeprefix("@")
        listed = await self._listed_person(name)
        if listed is not None and listed.kind is ChatKind.DM and listed.name.casefold() == wanted.casefold():
            return listed
        people = [one for one in await self._names.people() if not (one.is_deleted or one.is_bot)]
        handles = [one for one in people if one.handle.casefold() == wanted.casefold()]
        found = handles or [one for one in people if one.is_called(wanted)]
        if len(found) != 1:
            raise TargetUnresolved(self._nobody(name, found), final=True)
        return await self._direct_chat(found[0].id, found[0].handle)

    async def _listed_person(self, name: str) -> Chat | None:
        try:
            return None if self._directory is None else await self._directory.lookup(name)
        except TargetUnresolved:
            return None  # several begin so; the members' list may have one of exactly this name

    def _nobody(self, name: str, found: list[Person]) -> str:
        if not found:
            return f'nobody in the workspace of {self._account} is called "{name}": write their member id (U...)'
        named = ", ".join(f"@{one.handle} ({self._account}:{one.id})" for one in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        return f'"{name}" may mean {named}{more}: write the one that is meant by its id'

    async def _direct_chat(self, user: str, name: str | None = None) -> Chat:
        chat = self._direct.get(user)
        if chat is None:
            answer = await ask(self._calls, "conversations.open", users=user)
            chat = str((answer.get("channel") or {}).get("id") or "")
            if not chat:
                raise CallFailed(Unclear(reason="Slack opened a conversation without an id"))
            self._direct[user] = chat
        return Chat(chat=chat, name=name or user, kind=ChatKind.DM)

    async def _root(self, chat: str, thread: str) -> str:
        """Return the thread's root: a target may name a reply, under which Slack would scatter what is posted.

        Where Slack will not say, the thread stays as it was written. Raises TargetUnresolved if it is not there.
        """
        known = self._roots.get((chat, thread))
        if known is not None:
            return known
        try:
            answer = await ask(self._calls, "conversations.replies", channel=chat, ts=thread, limit=1)
        except CallFailed as failed:
            if failed.result == Refused(code="thread_not_found"):
                reason = f'there is no message {thread} in "{chat}": write the timestamp of the message to post under'
                raise TargetUnresolved(reason, final=True) from failed
            return thread
        first: Json = next(iter(answer.get("messages") or []), {})
        root = str(first.get("thread_ts") or first.get("ts"))
        if not is_ts(root):
            return thread
        if len(self._roots) >= MOST_ROOTS:
            self._roots.clear()
        self._roots[chat, thread] = root
        return root


def kind_of(conversation: Json) -> ChatKind:
    """Return the kind of a conversation as conversations.info gives it."""
    if conversation.get("is_im"):
        return ChatKind.DM
    return ChatKind.GROUP if conversation.get("is_mpim") else ChatKind.CHANNEL
