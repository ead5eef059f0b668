"""The page in a real browser: briefs appear live, an answer typed there is answered, and it fits a phone."""

import pytest
from browserbed import browser

pytestmark = pytest.mark.slow


async def test_a_brief_appears_without_reloading(site):
    async with browser() as window:
        await window.open(f"http://localhost:{site.port}/channels/general")
        await window.run("window.wasNotReloaded = true")

        await site.run("disk")

        await window.until_text("#posts", lambda text: "Disk is 93 % full on db-3" in text)
        assert await window.run("return window.wasNotReloaded") is True
        assert await window.console() == []


async def test_an_answer_typed_in_the_form_is_answered_with_the_briefs_words(site):
    async with browser() as window:
        await window.open(f"http://localhost:{site.port}/channels/general")
        await window.run("window.wasNotReloaded = true")
        await site.run("disk")
        await window.until_text("#posts", lambda text: "93 %" in text)

        await window.type("footer textarea", "how full is db-3?")
        await window.click("footer button")

        text = await window.until_text("#posts", lambda text: text.count("93 %") == 2)
        assert text.index("how full is db-3?") < text.rindex("93 %")
        assert await window.run("return document.querySelector('footer textarea').value") == ""
        assert await window.run("return window.wasNotReloaded") is True
        assert await window.console() == []


async def test_an_answer_in_the_thread_is_answered_in_the_thread(site):
    await site.run("disk")
    async with browser(width=390, height=844) as window:
        await window.open(f"http://localhost:{site.port}/channels/general")
        await window.click("#m1 summary")

        await window.type("#m1 textarea", "how full is db-3?")
        await window.click("#m1 form button")

        thread = await window.until_text("#m1 .thread", lambda text: "93 %" in text)
        assert "how full is db-3?" in thread
        assert await window.is_wider_than_the_window() is False


async def test_run_now_shows_the_outcome_without_reloading(site):
    async with browser() as window:
        await window.open(f"http://localhost:{site.port}/")

        await window.click("#job-disk form button")

        await window.until_text("#main", lambda text: "Disk is 93 % full on db-3" in text and "sent" in text)
        assert await window.console() == []


async def test_no_page_scrolls_sideways_on_a_phone(site):
    row = await site.run("disk")
    wide = "| " + " | ".join(f"column {n}" for n in range(30)) + " |\n" + "|---" * 30 + "|\n"
    for text in ("w" * 500, "```\n" + "x" * 500 + "\n```", wide, "https://example.com/" + "a" * 300):
        await site.running.say(text, author="k" * 80)
    session = row["deliveries"][0]["flat_session"]
    async with browser(width=390, height=844) as window:
        sideways = []
        for path in (
            "",
            "runs",
            f"runs/{row['run']}",
            "channels",
            "channels/general",
            "sessions",
            f"sessions/{session}",
        ):
            await window.open(f"http://localhost:{site.port}/{path}")
            if await window.is_wider_than_the_window():
                sideways.append(path)

    assert sideways == []


async def test_the_token_in_the_address_signs_a_browser_in(open_site):
    async with open_site(token="a-token-of-this-test") as site, browser() as window:
        await window.open(f"http://localhost:{site.port}/?token=a-token-of-this-test")

        await window.until_text("h1", lambda text: "Jobs" in text)
        assert "token" not in await window.run("return location.href")
