from collections.abc import Iterator
from pathlib import Path

import pytest
from seedbed import Clock, Conversation, Rules, opened

from seeding.seeder import Seeder
from state.database import Database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path) as database:
        yield database


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
def seeder(rules: Rules) -> Seeder:
    return Seeder(rules)


@pytest.fixture
def talk(db: Database, clock: Clock, rules: Rules) -> Conversation:
    return Conversation(db, clock, rules)
