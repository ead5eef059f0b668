"""Who has to give a lease back: one owner at a time, and every way out of a block gives it back unless it was taken."""

from types import TracebackType
from typing import Self

from state.database import Database
from state.registry import Lease


class OwnedLease:
    """A lease with an owner: the block that entered it, until somebody says that they took it.

    Leaving the block gives the lease back, however it is left, unless `hand_over` was called in it.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease: Lease | None = lease
        self._db = lease.db

    @property
    def db(self) -> Database:
        """The leased database, also after the lease was handed over."""
        return self._db

    def hand_over(self) -> Lease:
        """Give the lease to the caller, who has to close it from now on. Once: a second time is a RuntimeError."""
        lease, self._lease = self._lease, None
        if lease is None:
            raise RuntimeError("this lease was handed over or given back already")
        return lease

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.aclose()
