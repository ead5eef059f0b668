from collections.abc import Iterator
from pathlib import Path

import pytest
import statebed

from state.database import Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    """An open database whose batches take whatever is queued."""
    database = statebed.open_database(path, monotonic=statebed.stopped_clock)
    yield database
    database.close()
