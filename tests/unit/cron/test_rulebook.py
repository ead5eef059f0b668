"""The rules of a place hold however a job spells it, and follow a chat to its new id."""

from pathlib import Path

import pytest

from cron.jobs import load_config
from cron.rulebook import JobRulebook
from delivery.model import Address, ChatKind
from seeding.model import Listen, SessionScope

CONFIG = """
accounts:
  slack: {bot_token: "xoxb-1", app_token: "xapp-1"}
targets:
  open: {to: "slack:#general", listen: all, sessions: per_user}
jobs:
  fruit: {schedule: "0 9 * * *", text: apples, deliver: ["slack:C0GENERAL"]}
"""


class Places:
    """Resolves as a platform does that still knows a chat by its old id."""

    account = "slack"

    async def resolve(self, target):
        return Address(account="slack", workspace="T0", chat="C0GENERAL", chat_kind=ChatKind.CHANNEL)


@pytest.fixture
async def rulebook(tmp_path: Path) -> JobRulebook:
    path = tmp_path / "jobs.yaml"
    path.write_text(CONFIG)
    config = load_config(path, environ={}, host_zone="UTC")
    made = JobRulebook(config=lambda: config, platforms=lambda: {"slack": Places()})
    await made.refresh()
    return made


def at(chat: str) -> Address:
    return Address(account="slack", workspace="T0", chat=chat, chat_kind=ChatKind.CHANNEL)


async def test_a_named_target_rules_its_place_also_where_a_job_names_it_by_its_id(rulebook):
    rules = rulebook.for_chat(at("C0GENERAL"))
    assert (rules.listen, rules.sessions, rules.is_delivered_to) == (Listen.ALL, SessionScope.PER_USER, True)


async def test_people_of_a_chat_that_got_another_id_are_no_strangers_also_after_a_refresh(rulebook):
    rulebook.moved("slack", "C0GENERAL", "C0NEW")
    await rulebook.refresh("slack")
    rules = rulebook.for_chat(at("C0NEW"))
    assert (rules.listen, rules.is_delivered_to) == (Listen.ALL, True)


async def test_moves_and_places_are_known_again_after_a_restart(rulebook):
    fresh = JobRulebook(config=rulebook._config, platforms=dict)
    fresh.remember({"slack:C0GENERAL": ("slack", "C0NEW", None)}, {("slack", "C0GENERAL"): "C0NEW"})
    assert fresh.for_chat(at("C0NEW")).is_delivered_to
