"""What people read on the page, and what its forms do without a line of JavaScript."""

import re
from datetime import datetime
from html import unescape

import pytest
from daemonbed import until


def words(page):
    """The text of a page, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


async def test_a_jobs_next_time_is_in_its_own_zone_with_utc_on_hover(site):
    page = await site.http.get("/")

    shown = re.search(
        r'<time datetime="([^"]+)" title="([^"]+)">([^<]+)<span class="zone">Asia/Kolkata</span>', page.text
    )
    assert shown is not None
    assert shown[3].strip().endswith(", 08:00")
    assert shown[2].endswith("02:30:00 UTC")
    assert datetime.fromisoformat(shown[1]).utcoffset().total_seconds() == 0


async def test_a_disabled_job_is_shown_as_such_and_cannot_be_run(site):
    page = (await site.http.get("/")).text

    card = page[page.index('id="job-off"') : page.index("<h1>Channels")]
    assert "disabled" in card
    assert "Run now" not in card


async def test_run_now_leads_to_the_run_with_its_brief(site):
    pressed = await site.http.post("/jobs/run", data={"job": "disk"})
    assert pressed.status_code == 303
    run = pressed.headers["location"].removeprefix("/runs/")
    await site.http.post("/api/do/wait", json={"arguments": {"run": run}})

    page = await site.http.get(pressed.headers["location"])

    assert "<strong>Disk</strong> is 93 % full on db-3" in page.text
    assert "run by hand" in page.text
    assert "/channels/general#m1" in page.text


async def test_the_last_outcome_leads_to_its_run(site):
    row = await site.run("quiet")

    page = (await site.http.get("/")).text

    assert f"/runs/{row['run']}" in page
    assert '<span class="badge plain">silent</span>' in page


async def test_pausing_shows_who_paused_and_resuming_ends_it(site):
    await site.http.post("/jobs/pause", data={"job": "disk"})
    paused = words(await site.http.get("/"))
    await site.http.post("/jobs/resume", data={"job": "disk"})
    resumed = words(await site.http.get("/"))

    assert "Paused by the page" in paused
    assert "when it is resumed" in paused
    assert "Paused" not in resumed


async def test_a_job_that_is_not_there_is_one_sentence(site):
    page = await site.http.post("/jobs/run", data={"job": "dsik"})

    assert page.status_code == 400
    assert "did you mean 'disk'?" in words(page)


async def test_a_refused_jobs_yaml_is_told_on_every_page_until_it_is_good(site, tmp_path):
    good = (tmp_path / "jobs.yaml").read_text()
    (tmp_path / "jobs.yaml").write_text(good + "\nnonsense: <b>1</b>\n")
    await site.running.wired.daemon.reread()
    refused = [await site.http.get(path) for path in ("/", "/runs", "/channels/general", "/sessions")]
    (tmp_path / "jobs.yaml").write_text(good)
    await site.running.wired.daemon.reread()
    accepted = await site.http.get("/")

    assert all("is refused; the last good one goes on" in words(page) for page in refused)
    assert "nonsense" in words(refused[0])
    assert "is refused" not in words(accepted)


async def test_accounts_are_shown_up_or_down_with_the_reason(open_site):
    jobs = """
        accounts:
          tg: {kind: telegram, token: "123456:abcdefghijklmnopqrstuvwxyz0123456789", base_url: "http://127.0.0.1:1"}
        jobs:
          a: {schedule: "@yearly", text: hello}
        """
    async with open_site(jobs) as site:

        async def both():
            text = words(await site.http.get("/"))
            return text if "down tg" in text and "up local" in text else None

        shown = await until(both, "both accounts' states")

    assert "telegram" in shown


async def test_the_timeline_shows_where_a_brief_went_and_which_conversations_hold_it(site):
    row = await site.run("threads")

    page = (await site.http.get("/runs")).text

    (delivery,) = row["deliveries"]
    assert f"/channels/ops#m{delivery['message_ids'][0]}" in page
    assert f"/sessions/{delivery['thread_session']}" in page
    assert "sent" in page


async def test_older_runs_are_on_the_next_page(site):
    for _ in range(31):
        await site.run("quiet")

    first, second = await site.http.get("/runs"), await site.http.get("/runs?page=2&job=quiet")

    assert (first.text.count("<li class"), second.text.count("<li class")) == (30, 1)
    assert 'rel="next"' in first.text
    assert 'rel="prev"' in second.text


async def test_a_conversation_is_shown_turn_by_turn(site):
    row = await site.run("disk")
    await site.running.answer_to("how full is db-3?")

    listed = await site.http.get("/sessions")
    page = await site.http.get(f"/sessions/{row['deliveries'][0]['flat_session']}")

    assert "general" in words(listed)
    text = words(page)
    assert text.index("brief of disk") < text.index("how full is db-3?") < text.rindex("93 %")


async def test_a_channel_shows_briefs_with_their_threads(site):
    row = await site.run("threads")
    root = row["deliveries"][0]["root"]
    await site.running.say("how long did it take?", channel="ops", thread=root)

    page = (await site.http.get("/channels/ops")).text

    thread = page[page.index(f'data-thread="{root}"') :]
    assert "Backup of db-7 took 41 minutes" in thread
    assert "how long did it take?" in thread


async def test_the_form_works_without_javascript(site):
    await site.run("disk")
    (brief,) = await site.messages()

    sent = await site.http.post("/channels/general", data={"text": "how full\r\nis db-3?", "thread": brief["id"]})

    message = (await site.messages())[1]
    assert sent.status_code == 303
    assert sent.headers["location"] == f"/channels/general#m{message['id']}"
    assert (message["text"], message["thread"]) == ("how full\nis db-3?", brief["id"])


async def test_a_message_that_is_refused_comes_back_as_a_draft(site):
    text = "long " * 10_000

    page = await site.http.post("/channels/general", data={"text": text})

    assert page.status_code == 400
    assert "at most 40000 characters" in words(page)
    assert text in page.text


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))",
        "![x](https://tracker.example/pixel.png)",
        "`</code><script>alert(1)</script>`",
        '"><svg/onload=alert(1)>',
    ],
)
async def test_what_people_write_cannot_act_on_the_page(site, text):
    await site.running.say(text, author='<b onclick="x">kim</b>')

    page = (await site.http.get("/channels/general")).text

    posts = page[page.index('id="posts"') :]
    assert not re.search(r"<(script|img|svg|b)\b", posts)
    assert 'href="javascript:' not in posts


async def test_older_messages_are_a_page_away_and_threads_stay_whole(site):
    root = await site.running.say("the root", channel="notes")
    for n in range(70):
        await site.running.say(f"reply {n}", channel="notes", thread=root["id"])
    last = await site.running.say("newest", channel="notes")

    page = (await site.http.get("/channels/notes")).text

    assert page.index("the root") < page.index("reply 0") < page.index("reply 69") < page.index(f'id="m{last["id"]}"')
    older = re.search(r'href="(\?before=\d+)">Older', page)
    assert (await site.http.get(f"/channels/notes{older[1]}")).status_code == 200


async def test_what_is_not_there_is_a_page_that_says_so(site):
    paths = ["/nothing", "/runs/nothing", "/sessions/nothing", "/channels/a%20b", "/runs/%3Cscript%3E"]

    found = [await site.http.get(path) for path in paths]

    assert [one.status_code for one in found] == [404] * len(paths)
    assert all("Not found" in words(one) and "<script>" not in one.text for one in found)


async def test_a_wrong_page_number_is_one_sentence(site):
    page = await site.http.get("/runs?page=x")

    assert page.status_code == 400
    assert "whole number" in words(page)


async def test_files_of_the_page_may_be_kept_and_change_address_when_they_change(site):
    page = (await site.http.get("/")).text
    address = re.search(r'href="(/static/page\.css\?\w+)"', page)[1]

    response = await site.http.get(address)

    assert response.headers["content-type"].startswith("text/css")
    assert "immutable" in response.headers["cache-control"]


async def test_what_was_said_is_found_by_its_words_whatever_is_typed(site):
    row = await site.run("disk")

    found = await site.http.get("/search", params={"q": "FULL 93 % db-3"})
    odd = await site.http.get("/search", params={"q": '"<script>alert(1) AND ('})

    assert "is 93 % full on db-3" in words(found)
    assert f'href="/sessions/{row["deliveries"][0]["flat_session"]}?before=' in found.text
    assert (odd.status_code, "Nothing was found" in words(odd), "<script>alert" in odd.text) == (200, True, False)
