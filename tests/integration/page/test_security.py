"""Who may ask: this machine, and with a token others; never another site's page in somebody's browser."""

import logging
import stat
from dataclasses import replace

import httpx
import pytest

from cron.page.access import Access
from cron.page.guard import Guard
from cron.page.server import PageServer, PortTaken, is_loopback, listening, listening_socket
from cron.page.token import keep_token, read_token

TOKEN = "a-token-of-this-test"
MESSAGE = {"channel": "notes", "text": "hello"}


async def test_a_foreign_name_that_points_here_is_refused(site):
    hosts = ["evil.example", f"evil.example:{site.port}", "127.0.0.1.evil.example", "localhost.evil.example", "a b", ""]

    found = [(await site.http.get("/api/local/messages", headers={"Host": host})).status_code for host in hosts]

    assert found == [421] * len(hosts)


async def test_every_name_of_loopback_is_served(site):
    hosts = ["localhost", "LOCALHOST.", "127.0.0.1", "127.0.0.2:80", "[::1]:9000", "hermes.localhost"]

    found = [(await site.http.get("/healthz", headers={"Host": host})).status_code for host in hosts]

    assert found == [200] * len(hosts)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
async def test_what_another_site_sends_changes_nothing(site, headers):
    posts = [
        await site.http.post("/api/local/messages", json=MESSAGE, headers=headers),
        await site.http.post("/channels/notes", data={"text": "hello"}, headers=headers),
        await site.http.post("/api/do/trigger", json={"arguments": {"job": "disk"}}, headers=headers),
        await site.http.post("/jobs/run", data={"job": "disk"}, headers=headers),
        await site.http.post("/jobs/pause", data={"job": "disk"}, headers=headers),
    ]

    assert [one.status_code for one in posts] == [403] * 5
    assert (await site.messages("notes"), await site.running.runs()) == ([], [])


async def test_our_own_page_may_send(site):
    ours = f"http://127.0.0.1:{site.port}"

    by_origin = await site.http.post("/api/local/messages", json=MESSAGE, headers={"Origin": ours})
    by_site = await site.http.post("/api/local/messages", json=MESSAGE, headers={"Sec-Fetch-Site": "same-origin"})

    assert (by_origin.status_code, by_site.status_code) == (201, 201)


async def test_a_link_elsewhere_may_lead_here_but_nothing_else_may_read(site):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    script = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}

    assert (await site.http.get("/", headers=link)).status_code == 200
    assert (await site.http.get("/api/local/messages", headers=script)).status_code == 403


async def test_every_answer_carries_the_rules_for_browsers(site):
    found = [await site.http.get(path) for path in ("/", "/api/local/messages", "/nothing", "/healthz")]

    for one in found:
        assert "script-src 'self'" in one.headers["content-security-policy"]
        assert "unsafe-inline" not in one.headers["content-security-policy"]
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["cache-control"] == "no-store"
        assert "server" not in one.headers
        assert not any(name.startswith("access-control") for name in one.headers)


async def test_pages_ask_nobody_else_for_anything(site):
    await site.run("disk")
    paths = ["/", "/runs", "/channels/general", "/sessions", "/static/page.css", "/static/page.js"]

    texts = [(await site.http.get(path)).text for path in paths]

    assert not any(word in text for text in texts for word in ("http://", "https://", "<style", "<script>", "onclick"))


async def test_secrets_of_the_file_do_not_reach_a_page(open_site):
    jobs = """
        jobs:
          leaky:
            schedule: "@yearly"
            command: [sh, -c, "echo $KEY >&2; exit 3"]
            env: {KEY: "${LEAK}"}
        """
    async with open_site(jobs, environ={"LEAK": "s3cr3t-of-the-test"}) as site:
        row = await site.run("leaky")
        pages = [(await site.http.get(path)).text for path in ("/", "/runs", f"/runs/{row['run']}", "/channels/alerts")]

    assert not any("s3cr3t-of-the-test" in page for page in pages)


# --- with a token ---------------------------------------------------------------------------------------


async def test_without_the_token_nothing_is_shown_or_done(open_site):
    async with open_site(token=TOKEN) as site:
        found = [
            await site.http.get("/"),
            await site.http.get("/?token=wrong"),
            await site.http.get("/?token="),
            await site.http.get("/api/local/messages?token=" + TOKEN),
            await site.http.get("/api/local/messages", headers={"Authorization": "Bearer wrong"}),
            await site.http.get("/static/page.js"),
            await site.http.post("/api/local/messages", json=MESSAGE),
        ]

    assert [one.status_code for one in found] == [401] * len(found)
    assert not any(TOKEN in one.text for one in found)


async def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(open_site):
    async with open_site(token=TOKEN) as site:
        first = await site.http.get(f"/runs?job=disk&token={TOKEN}")
        then = await site.http.get("/runs?job=disk")

    kept = first.headers["set-cookie"].lower()
    assert 'url=/runs?job=disk"' in first.text
    assert TOKEN not in first.text
    assert "httponly" in kept
    assert "samesite=strict" in kept
    assert then.status_code == 200


async def test_a_program_shows_the_token_in_a_header(open_site):
    async with open_site(token=TOKEN) as site:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        response = await site.http.post("/api/local/messages", json=MESSAGE, headers=bearer)

    assert response.status_code == 201


async def test_health_without_the_token_is_a_yes_or_a_no(open_site):
    async with open_site(token=TOKEN) as site:
        response = await site.http.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_with_the_token_another_sites_page_still_changes_nothing(open_site):
    async with open_site(token=TOKEN) as site:
        headers = {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}
        response = await site.http.post("/api/local/messages", json=MESSAGE, headers=headers)

    assert response.status_code == 403


async def test_on_other_hosts_addresses_and_the_given_name_are_ours(open_site):
    async with open_site(token=TOKEN, host="box.example") as site:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        found = {
            host: (await site.http.get("/healthz", headers=bearer | {"Host": host})).status_code
            for host in ("192.0.2.7:8765", "box.example:8765", "[2001:db8::1]", "other.example")
        }

    assert list(found.values()) == [200, 200, 200, 421]


def test_the_token_is_made_once_for_its_owners_eyes_only(tmp_path):
    home = tmp_path / "home"

    token = keep_token(home)

    assert (len(token) >= 40, keep_token(home), read_token(home)) == (True, token, token)
    assert stat.S_IMODE((home / "page-token").stat().st_mode) == 0o600


def test_a_token_file_that_others_could_read_is_narrowed(tmp_path):
    (tmp_path / "page-token").write_text("old\n")
    (tmp_path / "page-token").chmod(0o644)

    assert keep_token(tmp_path) == "old"
    assert stat.S_IMODE((tmp_path / "page-token").stat().st_mode) == 0o600


# --- where it listens -----------------------------------------------------------------------------------


def test_a_taken_port_is_one_sentence():
    with listening_socket(0) as taken, pytest.raises(PortTaken, match="choose another with --port"):
        listening_socket(taken.getsockname()[1])


def test_a_host_that_is_not_here_is_one_sentence():
    with pytest.raises(PortTaken, match="--host"), listening(0, "no-such-host.invalid"):
        pass


def test_loopback_listens_nowhere_else():
    with listening(0, "127.0.0.1") as sockets:
        assert [one.getsockname()[0] for one in sockets] == ["127.0.0.1"]


def test_another_address_leaves_loopback_to_the_command_line():
    with listening(0, "127.0.0.2") as sockets:
        places = [one.getsockname() for one in sockets]

    assert [host for host, _ in places] == ["127.0.0.2", "127.0.0.1"]
    assert len({port for _, port in places}) == 1


def test_what_counts_as_loopback():
    hosts = ["127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "::", "192.168.0.2", "box"]

    assert [host for host in hosts if is_loopback(host)] == ["127.0.0.1", "127.9.9.9", "::1", "localhost"]


# --- errors ---------------------------------------------------------------------------------------------


async def test_an_unexpected_error_is_one_sentence_and_a_log_line(caplog):
    async def broken(scope, receive, send):
        raise RuntimeError("a bug with details")

    guard = Guard(broken, Access(port=80), is_healthy=lambda: True)
    transport = httpx.ASGITransport(app=guard, raise_app_exceptions=False)
    with caplog.at_level(logging.ERROR):
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            found = [await http.get("/"), await http.get("/api/jobs")]

    assert [one.status_code for one in found] == [500, 500]
    assert not any("details" in one.text for one in found)
    assert list(found[1].json()) == ["error"]
    assert [record.action for record in caplog.records] == ["request_failed", "request_failed"]


async def test_a_database_that_fails_is_told_as_503(site, tmp_path):
    from seedbed import opened

    with opened(tmp_path / "other.db") as closed:
        pass
    broken = replace(site.running.wired, db=closed)
    with listening_socket(0) as sock:
        async with PageServer(broken, sock, has_page=True, stop=site.running.stop_event) as server:
            base = f"http://127.0.0.1:{server.port}"
            async with httpx.AsyncClient(base_url=base, trust_env=False) as http:
                api = await http.get("/api/runs")
                page = await http.get("/runs")

    assert (api.status_code, page.status_code) == (503, 503)
    assert list(api.json()) == ["error"]
    assert "Traceback" not in page.text
