"""The platforms that are configured now: `local`, and one per account. A changed account is a new platform."""

from collections.abc import Callable, Mapping

from cron.model import AccountSpec, Config
from delivery.ports import Platform
from delivery.targets import LOCAL


class PlatformSet:
    """Keeps one platform per account. `live` is one mapping for life; others hold it and see every change."""

    def __init__(self, local: Platform, make: Callable[[AccountSpec], Platform]) -> None:
        self._make = make
        self._specs: dict[str, AccountSpec] = {}
        self.live: dict[str, Platform] = {LOCAL: local}

    def now(self) -> Mapping[str, Platform]:
        """Return the live mapping."""
        return self.live

    def gone(self, config: Config) -> list[str]:
        """Return the accounts that this config no longer names, or names with other words."""
        return [name for name, spec in self._specs.items() if config.accounts.get(name) != spec]

    def drop(self, name: str) -> Platform:
        """Take an account out and return its platform, for its owner to close."""
        del self._specs[name]
        return self.live.pop(name)

    def take_over(self, config: Config) -> list[str]:
        """Make the platforms of accounts that are new; return their names."""
        added = [name for name in config.accounts if name not in self._specs]
        for name in added:
            self._specs[name] = config.accounts[name]
            self.live[name] = self._make(config.accounts[name])
        return added
