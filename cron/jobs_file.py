"""One whole file: its sections in the order in which they need each other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from cron.jobs_agents import agent_spec
from cron.jobs_env import SECRET_FIELDS
from cron.jobs_models import AccountModel, AgentModel, ConfigModel, DefaultsModel, JobModel, TargetModel
from cron.jobs_places import NOWHERE, Places, account_spec, check_rules_agree, target_spec
from cron.jobs_resolve import DEFAULT_AGENT, DEFAULT_DELIVER, DEFAULT_ON_FAILURE, Resolver, same_ids
from cron.jobs_shape import fit, unknown_key
from cron.jobs_times import TimeChecks
from cron.jobs_yaml import Document, Loc, is_remark
from cron.model import RECALL, AccountKind, AccountSpec, AgentSpec, Config, Job, JobDefaults, TargetSpec
from cron.redact import Redactor
from delivery.model import Surface
from delivery.targets import TargetError

MAX_RUNNING: Final = 16
CATCH_UP_RUNNING: Final = 2

M = TypeVar("M", bound=BaseModel)
S = TypeVar("S")


@dataclass(slots=True, kw_only=True)
class FileReader:
    """Turns a document into a Config; what is wrong is reported to the document."""

    path: Path
    document: Document
    now: datetime | None
    host_zone: str | None
    warnings: list[tuple[Loc, str]] = field(default_factory=list)
    files: dict[Path, str] = field(default_factory=dict)  # what else was read, and what stood in it

    def config(self, notes: tuple[str, ...], fingerprint: Callable[[], str]) -> Config | None:
        """Return the file's values, or None if the document has mistakes. Raises Unreadable."""
        tree = self._tree()
        self._note_secrets(tree)
        times = TimeChecks(now=self.now, files=self.files)
        top = self._top(tree)
        zone, source = times.default_zone(top.timezone, self.host_zone, self.document)
        accounts = self._accounts(tree)
        places = self._places(tree, accounts)
        agents = self._each("agents", tree, AgentModel, self._agent)
        defaults = self._defaults(tree, places)
        resolver = Resolver(
            document=self.document,
            base_dir=self._base_dir,
            zone=zone,
            agents=agents,
            broken_agents=frozenset(tree["agents"]) - agents.keys(),
            places=places,
            times=times,
            defaults=defaults,
            names=frozenset(tree["jobs"]),
        )
        settled = self._settle(defaults, resolver)
        jobs = self._jobs(tree, resolver)
        self._check_names(tree)
        if self.document.mistakes:
            return None
        self._warn(accounts, jobs)
        return Config(
            path=self.path,
            base_dir=self._base_dir,
            timezone=zone,
            timezone_source=source,
            accounts=MappingProxyType(accounts),
            targets=MappingProxyType(dict(places.targets)),
            agents=MappingProxyType(agents),
            jobs=MappingProxyType(jobs),
            defaults=settled,
            secrets=frozenset(self.document.substitution.secrets),
            warnings=self._written((*times.warnings, *resolver.warnings, *self.warnings), notes),
            max_running=top.max_running or MAX_RUNNING,
            catch_up_running=top.catch_up_running or CATCH_UP_RUNNING,
            fingerprint=fingerprint(),
        )

    @property
    def _base_dir(self) -> Path:
        return self.path.absolute().parent

    # --- sections ---------------------------------------------------------------------------------

    def _tree(self) -> dict[str, Any]:
        """Return the file's sections, each a mapping, all of them there; report what is no section."""
        read = self.document.read()
        if not isinstance(read, dict):
            self.document.report((), "the file is a mapping: begin with a line such as jobs:")
            read = {}
        tree: dict[str, Any] = {}
        for key, value in read.items():
            if is_remark(key):
                continue
            if key not in ConfigModel.model_fields:
                self.document.report((key,), unknown_key(key, ConfigModel), on_key=True)
            tree[key] = value
        for name in ("accounts", "targets", "agents", "defaults", "jobs"):
            if tree.get(name) is None:
                tree[name] = {}
            elif not isinstance(tree[name], dict):
                self.document.report((name,), f"a mapping is wanted here: indented lines of NAME: {{...}} in {name}")
                tree[name] = {}
        return tree

    def _top(self, tree: Mapping[str, Any]) -> ConfigModel:
        """Return what stands at the top beside the sections."""
        written = {key: tree[key] for key in ("timezone", "max_running", "catch_up_running") if key in tree}
        model = fit(ConfigModel, written, (), self.document) if written else None
        return ConfigModel() if model is None else model  # type: ignore[call-arg]

    def _each(
        self, section: str, tree: Mapping[str, Any], model: type[M], make: Callable[[str, M], S | None]
    ) -> dict[str, S]:
        """Return what the good entries of a section make."""
        made: dict[str, S] = {}
        for name, value in tree[section].items():
            fitted = fit(model, {} if value is None else value, (section, name), self.document)
            spec = None if fitted is None else make(name, fitted)
            if spec is not None:
                made[name] = spec
        return made

    def _accounts(self, tree: Mapping[str, Any]) -> dict[str, AccountSpec]:
        def make(name: str, model: AccountModel) -> AccountSpec | None:
            return account_spec(name, model, self.document)

        return self._each("accounts", tree, AccountModel, make)

    def _agent(self, name: str, model: AgentModel) -> AgentSpec | None:
        return agent_spec(name, model, self._base_dir, self.document)

    def _places(self, tree: Mapping[str, Any], accounts: Mapping[str, AccountSpec]) -> Places:
        bare = Places(accounts=accounts, broken=frozenset(tree["accounts"]) - accounts.keys())

        def make(name: str, model: TargetModel) -> TargetSpec | None:
            return target_spec(name, model, bare, self.document)

        targets = self._each("targets", tree, TargetModel, make)
        check_rules_agree(targets, self.document)
        broken = bare.broken | (frozenset(tree["targets"]) - targets.keys())
        return Places(accounts=accounts, targets=targets, broken=broken)

    def _defaults(self, tree: Mapping[str, Any], places: Places) -> DefaultsModel:
        loc: Loc = ("defaults",)
        model = fit(DefaultsModel, tree["defaults"], loc, self.document) or DefaultsModel()  # type: ignore[call-arg]
        if model.on_failure not in (None, NOWHERE):
            try:
                places.find(str(model.on_failure))
            except TargetError as error:
                self.document.report((*loc, "on_failure"), str(error))
        if model.deliver is None:
            return model
        return model.model_copy(update={"deliver": places.check_each(model.deliver, (*loc, "deliver"), self.document)})

    def _settle(self, model: DefaultsModel, resolver: Resolver) -> JobDefaults:
        """Return the defaults as values."""
        if model.agent is not None and not resolver.has_agent(model.agent):
            self.document.report(("defaults", "agent"), resolver.no_agent(model.agent))
        on_failure = model.on_failure or DEFAULT_ON_FAILURE
        return JobDefaults(
            on_failure=None if on_failure == NOWHERE else on_failure,
            surface=model.surface or Surface.FLAT,
            deliver=model.deliver or DEFAULT_DELIVER,
            answer_agent=resolver.agents.get(model.agent or DEFAULT_AGENT, RECALL),
        )

    def _jobs(self, tree: Mapping[str, Any], resolver: Resolver) -> dict[str, Job]:
        models: dict[str, JobModel] = {}

        def make(name: str, model: JobModel) -> Job | None:
            models[name] = model
            return resolver.job(name, model)

        jobs = self._each("jobs", tree, JobModel, make)
        for name, message in same_ids(models, tree["jobs"]):
            self.document.report(("jobs", name, "was"), message)
        return jobs

    # --- secrets, names, warnings -----------------------------------------------------------------

    def _note_secrets(self, tree: Mapping[str, Any]) -> None:
        """Remember tokens, keys and variables named so, also where the rest of the entry is wrong."""
        note = self.document.substitution.note_secret
        for section in ("accounts", "agents", "jobs"):
            for entry in tree[section].values():
                if not isinstance(entry, dict):
                    continue
                fields = {name: entry[name] for name in SECRET_FIELDS & entry.keys()}
                env = entry.get("env")
                for name, value in (fields | (env if isinstance(env, dict) else {})).items():
                    if isinstance(value, str):
                        note(name, value)

    def _check_names(self, tree: Mapping[str, Any]) -> None:
        """Report names that hold a secret: names are shown everywhere."""
        secrets = self.document.substitution.secrets
        if not secrets:
            return
        redactor = Redactor(secrets)
        for section in ("accounts", "targets", "agents", "jobs"):
            for name in tree[section]:
                if redactor.redact(name) != name:
                    message = "this name holds the value of a secret, and names are shown: choose another"
                    self.document.report((section, name), message, on_key=True)

    def _warn(self, accounts: Mapping[str, AccountSpec], jobs: Mapping[str, Job]) -> None:
        for name, spec in accounts.items():
            if spec.kind is AccountKind.SLACK and spec.app_token is None:
                message = "without `app_token` briefs are posted, but no answer is heard"
                self.warnings.append((("accounts", name), message))
        if not jobs:
            self.warnings.append(((), "there are no jobs here"))

    def _written(self, warnings: tuple[tuple[Loc, str], ...], notes: tuple[str, ...]) -> tuple[str, ...]:
        redactor = Redactor(self.document.substitution.secrets)
        written = list(notes)
        for loc, message in warnings:
            line, column = self.document.place(loc, on_key=True)
            place = f"{self.path}:{line}:{column}" if loc else str(self.path)
            written.append(f"{place}: {message}")
        return tuple(dict.fromkeys(redactor.redact(text) for text in written))
