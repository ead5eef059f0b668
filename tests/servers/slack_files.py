"""Files: the two-step external upload, and shares that become visible later.

https://docs.slack.dev/messaging/working-with-files#uploading_files
"""

import mimetypes

from servers.slack_api import Api, File, required
from servers.slack_blocks import ApiError, parsed
from servers.slack_world import Json, Kind, Message


def upload_url(api: Api, args: Json) -> Json:
    """Promise a place to upload to."""
    name, length = required(args, "filename"), required(args, "length")
    if not length.isdigit() or int(length) == 0:
        raise ApiError("invalid_arguments")
    file = File(id=api.world.fresh("F"), name=name, size=int(length))
    api.files[file.id] = file
    return {"upload_url": f"{api.url}/upload/v1/{file.id}", "file_id": file.id}


def complete(api: Api, args: Json) -> Json:
    """Finish uploads; sharing goes on after the answer, which holds no message ts."""
    wanted = parsed(required(args, "files"), "invalid_arguments")
    files = []
    for item in wanted:
        file = api.files.get(str(item.get("id")))
        if file is None or file.data is None:
            raise ApiError("file_not_found")
        file.title, file.is_complete = str(item.get("title") or file.name), True
        files.append(file)
    refs = [args["channel_id"]] if args.get("channel_id") else str(args.get("channels") or "").split(",")
    for ref in (r for r in refs if r):
        share = {
            "channel": api.writable(ref).id,
            "thread_ts": args.get("thread_ts"),
            "text": str(args.get("initial_comment") or ""),
            "files": [f.id for f in files],
        }
        files[0].waiting.append(share)
    if not api.holds_shares:
        complete_shares(api)
    return {"files": [{"id": f.id, "title": f.title} for f in files]}


def complete_shares(api: Api) -> list[str]:
    """Share what waits to be shared, as Slack does some time after the answer; return the messages' ts."""
    done = []
    for file in api.files.values():
        for share in file.waiting:
            done.append(_share(api, share))
        file.waiting.clear()
    return done


def info(api: Api, args: Json) -> Json:
    """Describe one file and where it is shared by now."""
    file = api.files.get(required(args, "file"))
    if file is None or not file.is_complete:
        raise ApiError("file_not_found")
    return {"file": file_json(api, file), "comments": []}


def file_json(api: Api, file: File) -> Json:
    """Return a file as files.info does."""
    shares: dict[str, dict[str, list[Json]]] = {}
    for channel_id, ts in file.shares.items():
        channel = api.world.channels[channel_id]
        group = "public" if channel.kind is Kind.PUBLIC else "private"
        entry: Json = {"ts": ts, "channel_name": channel.name, "team_id": api.world.team, "reply_count": 0}
        thread_ts = channel.messages[ts].thread_ts
        if thread_ts is not None:
            entry["thread_ts"] = thread_ts
        shares.setdefault(group, {})[channel_id] = [entry]
    return {
        "id": file.id,
        "name": file.name,
        "title": file.title,
        "mimetype": mimetypes.guess_type(file.name)[0] or "application/octet-stream",
        "filetype": file.name.rpartition(".")[2],
        "size": file.size,
        "user": api.world.bot_user,
        "mode": "hosted",
        "url_private": f"{api.url}/files/{file.id}",
        "shares": shares,
    }


def _share(api: Api, share: Json) -> str:
    world = api.world
    ts = world.clock.next_ts()
    for file_id in share["files"]:
        api.files[file_id].shares[share["channel"]] = ts
    message = Message(
        channel=share["channel"],
        ts=ts,
        user=world.bot_user,
        team=world.team,
        bot_id=world.bot_id,
        text=share["text"],
        thread_ts=share["thread_ts"],
        by_us=True,
        files=[],
    )
    world.store(message)
    message.files = [file_json(api, api.files[f]) for f in share["files"]]
    message.subtype = "file_share"
    api.events.posted(message)
    return ts
