"""The local channels' interface: its shapes are a contract, its refusals are sentences."""

import json

import httpx
from daemonbed import until


async def test_what_a_person_says_is_stored_and_returned(site):
    response = await site.http.post(
        "/api/local/messages", json={"channel": "general", "text": "hello", "author": "kim", "thread": None}
    )

    said = response.json()
    assert response.status_code == 201
    assert sorted(said) == ["at", "author", "channel", "id", "job", "text", "thread"]
    assert (said["channel"], said["thread"], said["author"], said["text"], said["job"]) == (
        "general",
        None,
        "kim",
        "hello",
        None,
    )
    assert said in await site.messages()


async def test_a_brief_is_listed_with_its_job(site):
    await site.run("disk")

    (brief,) = await site.messages()
    assert (brief["text"], brief["job"], brief["thread"]) == ("**Disk** is 93 % full on db-3", "disk", None)


async def test_a_question_in_the_thread_of_a_brief_is_answered_there_with_its_words(site):
    await site.run("disk")
    (brief,) = await site.messages()

    asked = await site.http.post("/api/local/messages", json={"text": "how full is db-3?", "thread": brief["id"]})

    async def answer():
        later = [one for one in await site.messages() if int(one["id"]) > int(asked.json()["id"])]
        return later[0] if later else None

    answered = await until(answer, "an answer")
    assert answered["thread"] == brief["id"]
    assert "93 %" in answered["text"]


async def test_after_gives_what_came_later_oldest_first(site):
    ids = []
    for n in range(3):
        said = await site.http.post("/api/local/messages", json={"text": f"{n}", "channel": "quiet"})
        ids.append(said.json()["id"])

    later = (await site.http.get("/api/local/messages", params={"channel": "quiet", "after": ids[0]})).json()

    assert [one["text"] for one in later if one["author"] == "you"] == ["1", "2"]


async def test_a_channel_in_which_nothing_was_said_is_empty(site):
    assert await site.messages("nothing-here") == []


async def test_a_channel_may_be_written_with_its_hash(site):
    await site.http.post("/api/local/messages", json={"channel": "#Ops", "text": "hello"})

    assert (await site.messages("ops"))[0]["channel"] == "ops"


REFUSED = [
    (b"", "JSON"),
    (b"{", "JSON"),
    (b"\xff\xfe", "JSON"),
    (b"[" * 100_000, "JSON"),
    (b"[]", "JSON object"),
    (b'"hello"', "JSON object"),
    (b"{}", '"text" is missing'),
    (b'{"text": null}', '"text" is missing'),
    (b'{"text": 5}', '"text" must be a text'),
    (b'{"text": ["a"]}', '"text" must be a text'),
    (b'{"text": ""}', "empty message"),
    (b'{"text": " \\n\\t "}', "empty message"),
    (b'{"text": "\\ud800"}', "half a character"),
    (b'{"text": "a", "channel": 5}', '"channel" must be a text'),
    (b'{"text": "a", "channel": ""}', "no channel name"),
    (b'{"text": "a", "channel": "a b"}', "no channel name"),
    (b'{"text": "a", "channel": "../etc"}', "no channel name"),
    (b'{"text": "a", "author": 5}', '"author" must be a text'),
    (b'{"text": "a", "thread": 5}', '"thread" must be'),
    (b'{"text": "a", "thread": "999999"}', "no message 999999"),
    (b'{"text": "a", "thread": "-1"}', "no message id"),
    (b'{"text": "a", "thread": "99999999999999999999999"}', "no message id"),
    (b'{"text": "' + b"x" * 40_001 + b'"}', "at most 40000 characters"),
    (b'{"text": "a", "author": "' + b"x" * 100 + b'"}', "at most 80 characters"),
    (b'{"text": "' + b"x" * 3_000_000 + b'"}', "at most 1 MB"),
]


async def test_what_cannot_be_said_is_refused_in_one_sentence(site):
    found = []
    for body, _ in REFUSED:
        response = await site.http.post("/api/local/messages", content=body)
        found.append((response.status_code, list(response.json()), response.json().get("error", "")))

    assert [(status, keys) for status, keys, _ in found] == [(400, ["error"])] * len(REFUSED)
    assert [says for (_, says), (_, _, error) in zip(REFUSED, found, strict=True) if says not in error] == []
    assert await site.messages() == []


async def test_a_thread_of_another_channel_is_not_there(site):
    said = (await site.http.post("/api/local/messages", json={"channel": "one", "text": "a"})).json()

    response = await site.http.post("/api/local/messages", json={"channel": "two", "text": "b", "thread": said["id"]})

    assert response.status_code == 400
    assert "#two" in response.json()["error"]


async def test_an_answer_to_an_answer_lies_in_the_same_thread(site):
    root = (await site.http.post("/api/local/messages", json={"channel": "one", "text": "a"})).json()
    reply = await site.http.post("/api/local/messages", json={"channel": "one", "text": "b", "thread": root["id"]})

    deeper = await site.http.post(
        "/api/local/messages", json={"channel": "one", "text": "c", "thread": reply.json()["id"]}
    )

    assert deeper.json()["thread"] == root["id"]


async def test_a_list_that_cannot_be_is_refused_in_one_sentence(site):
    queries = ["channel=a%20b", "channel=", "after=x", "after=-1", "after=1.5", "after=999999999999999999999999"]

    found = [await site.http.get(f"/api/local/messages?{query}") for query in queries]

    assert [(one.status_code, list(one.json())) for one in found] == [(400, ["error"])] * len(queries)


async def test_the_largest_text_goes_through(site):
    text = "ü" * 40_000

    response = await site.http.post("/api/local/messages", content=json.dumps({"text": text}).encode())

    assert (response.status_code, response.json()["text"]) == (201, text)


async def test_other_methods_are_refused_as_json(site):
    found = [await site.http.request(method, "/api/local/messages") for method in ("PUT", "DELETE", "OPTIONS")]

    assert [(one.status_code, list(one.json())) for one in found] == [(405, ["error"])] * 3
    assert not any("access-control-allow-origin" in one.headers for one in found)


async def test_health_is_ok_with_its_facts(site):
    response = await site.http.get("/healthz")

    assert response.status_code == 200
    assert response.json()["status"] == "ok"


async def test_the_lists_have_the_command_lines_shapes(site):
    row = await site.run("disk")

    jobs = (await site.http.get("/api/jobs")).json()
    runs = (await site.http.get("/api/runs?job=disk&n=1")).json()
    sessions = (await site.http.get("/api/sessions")).json()
    transcript = (await site.http.get(f"/api/sessions/{row['deliveries'][0]['flat_session']}")).json()

    assert [job["job"] for job in jobs] == ["disk", "quiet", "threads", "off"]
    assert jobs[0] | {"next": None} == {
        "job": "disk",
        "schedule": "0 8 * * *",
        "timezone": "Asia/Kolkata",
        "next": None,
        "paused": False,
        "last_outcome": "ran",
        "enabled": True,
    }
    assert jobs[0]["next"].endswith("T08:00:00+05:30")
    assert runs == [row]
    assert {"id", "keys", "account", "chat", "topic", "root", "display_name", "turns", "updated_at"} == set(sessions[0])
    assert [(turn["role"], turn["origin"]) for turn in transcript] == [("user", "cron")]


async def test_what_is_not_there_is_told_as_json(site):
    paths = {"/api/runs/nothing": 404, "/api/sessions/nothing": 404, "/api/nothing": 404, "/api/runs?n=x": 400}

    found = {path: await site.http.get(path) for path in paths}

    assert {path: one.status_code for path, one in found.items()} == paths
    assert all(list(one.json()) == ["error"] for one in found.values())


async def test_a_verb_that_cannot_be_done_is_told_with_its_exit_code(site):
    cases = [
        ("fly", {}, "no verb"),
        ("trigger", {"job": "dsik"}, "did you mean 'disk'?"),
        ("trigger", {"job": "off"}, "disabled"),
        ("trigger", {}, "trigger"),
        ("pause", {"job": "disk", "until": "soon"}, "pause"),
    ]

    for verb, arguments, says in cases:
        response = await site.http.post(f"/api/do/{verb}", json={"arguments": arguments})
        assert (response.status_code, response.json()["code"]) == (200, 2)
        assert says in response.json()["error"]


async def test_without_a_page_the_programs_interface_is_all_there_is(open_site):
    async with open_site(has_page=False) as site:
        await site.run("disk")

        assert len(await site.messages()) == 1
        assert (await site.http.get("/healthz")).status_code == 200
        for path in ("/", "/runs", "/channels/general", "/static/page.css"):
            response = await site.http.get(path)
            assert (response.status_code, response.headers["content-type"]) == (404, "text/plain; charset=utf-8")


async def test_many_clients_at_once_lose_nothing(site):
    async with httpx.AsyncClient(base_url=site.http.base_url, trust_env=False) as other:
        for n in range(10):
            client = other if n % 2 else site.http
            assert (await client.post("/api/local/messages", json={"channel": "c", "text": str(n)})).status_code == 201

    said = [one["text"] for one in await site.messages("c") if one["author"] == "you"]
    assert said == [str(n) for n in range(10)]
