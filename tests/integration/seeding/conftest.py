from collections.abc import Iterator
from pathlib import Path

import pytest
from seedbed import Clock, Rules, opened

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
