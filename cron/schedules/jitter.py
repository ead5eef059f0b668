"""A delay that spreads jobs out and is the same on every machine and after every restart."""

import hashlib
from datetime import datetime, timedelta

from cron.schedules.rules import utc

_MICROSECOND = timedelta(microseconds=1)


def jitter_for(job_id: str, due: datetime, width: timedelta) -> timedelta:
    """Return a delay in [0, width) that only the job, the instant (aware) and the width decide."""
    steps = width // _MICROSECOND
    if steps <= 0:
        return timedelta()
    seed = f"{job_id}\0{utc(due).isoformat()}".encode()
    drawn = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big")
    return (drawn * steps >> 64) * _MICROSECOND
