"""`backup` and `restore` as a person gives them, beside a living daemon and without one."""

import shutil

from processbed import Process, process

CONFIG = "jobs: {fruit: {schedule: '0 9 * * *', text: apples}, nuts: {schedule: '0 9 * * *', text: walnuts}}"


async def test_a_backup_of_a_living_daemon_can_be_put_back_and_knows_its_conversations(tmp_path):
    copy = tmp_path / "copies" / "mon day.db"
    copy.parent.mkdir()
    async with process(tmp_path, CONFIG) as running:
        assert (await running.cli("trigger", "fruit", "--wait"))[0] == 0
        code, out, err = await running.cli("backup", str(copy))
        assert (code, "checked" in out, err) == (0, True, "")
        assert (await running.cli("trigger", "nuts", "--wait"))[0] == 0
        again = await running.cli("backup", str(copy))
        forced = await running.cli("backup", str(copy.with_name("second.db")), "--force")
        early = await running.cli("restore", str(copy))
        assert await running.stop() == 0
        done = await running.cli("restore", str(copy))
        await running.start()
        jobs = [(row["job"], row["outcome"]) for row in await running.json("runs")]
        sessions = await running.json("sessions")
        said = running.log()
    assert (again[0], "--force" in again[2], forced[0]) == (2, True, 0)
    assert (early[0], "is in use by process" in early[2]) == (1, True)
    assert (done[0], "state-before-restore-" in done[1]) == (0, True)
    assert (jobs, len(sessions)) == ([("fruit", "ran")], 2)
    assert "action=rewind_settled" in said
    assert [one.name[:21] for one in (running.home / "backups").iterdir()] == ["state-before-restore-"]


async def test_names_that_are_no_place_for_a_backup_are_refused_in_a_sentence(tmp_path):
    home = Process(tmp_path)
    home.write(CONFIG)
    assert (await home.cli("trigger", "fruit", "--wait"))[0] == 0
    (tmp_path / "notes.txt").write_text("do not lose this")
    (tmp_path / "link.db").symlink_to(home.home / "state.db")
    before = (home.home / "state.db").read_bytes()
    for name, words in (
        (home.home / "state.db", "belongs to the running program"),
        (home.home / "state.db-wal", "belongs to the running program"),
        (home.home / "state.id", "belongs to the running program"),
        (tmp_path / "link.db", "belongs to the running program"),
        (tmp_path / "notes.txt", "is no database"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "copy.db", "There is no folder"),
    ):
        code, out, err = await home.cli("backup", str(name), "--force")
        assert (code, out, words in err, "Traceback" in err) == (2, "", True, False), (name, err)
    assert (tmp_path / "notes.txt").read_text() == "do not lose this"
    assert (home.home / "state.db").read_bytes() == before
    code, _, err = await home.cli("restore", str(tmp_path / "notes.txt"))
    assert (code, "damaged or no database" in err) == (1, True)
    code, _, err = await home.cli("restore", str(tmp_path / "nothing.db"))
    assert (code, "There is no file" in err) == (2, True)


async def test_a_name_with_letters_of_its_own_is_written_under_any_locale(tmp_path):
    home = Process(tmp_path, {"LC_ALL": "C", "PYTHONUTF8": "0"})
    home.write(CONFIG)
    assert (await home.cli("trigger", "fruit", "--wait"))[0] == 0
    code, _, _ = await home.cli("backup", str(tmp_path / "Sicherung für 東京.db"))
    assert (code, (tmp_path / "Sicherung für 東京.db").exists()) == (0, True)


async def test_before_there_is_a_database_there_is_nothing_to_back_up(tmp_path):
    home = Process(tmp_path)
    home.write(CONFIG)
    code, _, err = await home.cli("backup", str(tmp_path / "copy.db"))
    assert (code, "There is no database" in err) == (1, True)
    assert not (tmp_path / "copy.db").exists()
    shutil.rmtree(home.home, ignore_errors=True)
