"""`search` as a person types it."""

from processbed import Process

CONFIG = """
    jobs:
      builds: {schedule: '0 9 * * *', text: "2 C++ builds failed; see foo-bar. 構築が失敗した"}
      fruit: {schedule: '0 9 * * *', text: apples are cheap}
"""


async def test_words_find_the_turns_that_hold_them_without_a_daemon(tmp_path):
    home = Process(tmp_path, {"LC_ALL": "C", "PYTHONUTF8": "0"})
    home.write(CONFIG)
    nothing = await home.json("search", "builds")
    for job in ("builds", "fruit"):
        assert (await home.cli("trigger", job, "--wait"))[0] == 0
    both = await home.json("search", "c++", "builds")
    cjk = await home.json("search", "失敗")
    shown = await home.cli("search", "--cheap", "apples")
    odd = await home.cli("search", 'x" AND NEAR( *')
    sessions = {one["id"] for one in await home.json("sessions")}
    assert nothing == []
    assert [sorted(hit) for hit in both] == [["at", "role", "session", "snippet"]] * 2
    assert {hit["session"] for hit in both} == {hit["session"] for hit in cjk} <= sessions
    assert "2 C++ builds failed" in both[0]["snippet"]
    assert (shown[0], "apples" in shown[1]) == (0, True)
    assert (odd[0], odd[1].strip(), odd[2]) == (0, "Nothing was found.", "")
