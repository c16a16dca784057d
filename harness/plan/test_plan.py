"""The plan: one frozen, validated object that describes a run, and its YAML file.

Every option of `harness run` is a field here, and the field holds the default. `plan.yaml` in the run folder
adds the seed that was drawn, the versions and the git commit; `harness run --plan FILE` repeats it. What the
seed decides is the stream of ops and the order and targets of faults; timing it does not.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harness import yaml_data
from harness.cluster.distribution import versions as kafka
from harness.model.errors import BadInput
from harness.model.options import CheckOptions, Settings
from harness.model.transforms import Transform
from harness.plan import pipeline, rules
from harness.plan import schedule as timetable
from harness.plan.rules import option_name
from harness.yaml_data import Loaded, Place, Where, line
from workloads.log_model import broker_actions
from workloads.recovery.scenarios import SCENARIOS
from workloads.recovery.scenarios import settings as scenario_settings

SCHEMA: Final = 1


class TestPlan(BaseModel):
    """A run, described. Times end in _s or _ms, rates in _hz."""

    __test__ = False  # not a test, whatever pytest thinks of the name
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_: int = Field(SCHEMA, alias="schema")
    run: str = ""
    started: str = ""
    seed: int = Field(default_factory=lambda: secrets.randbelow(1 << 31), ge=0)
    versions: dict[str, str] = {}
    git_commit: str | None = None

    # the cluster
    cluster: Literal["local", "docker", "ssh", "external", "mock", "sim"] = "local"
    cluster_name: str = ""
    bootstrap: str = ""
    client_config: str = ""
    keep_topics: bool = False
    keep_data: bool = False
    hosts: str = ""  # path of the file that describes them
    system: Literal["kafka", "redpanda"] = "kafka"
    image: str = ""
    kafka_version: str = kafka.DEFAULT
    metadata: kafka.Metadata | None = None  # None: what suits the version
    controllers: int = Field(0, ge=0, le=5)
    log_dirs: int = Field(1, ge=1, le=4)
    tiered: bool = False
    nodes: int = Field(3, ge=1, le=1000)
    network: Literal["auto", "namespaces", "loopback"] = "auto"
    outside: bool = False
    proxy: Literal["auto", "clients", "everybody"] = "auto"
    broker_config: dict[str, str] = {}
    replication: int = Field(3, ge=1, le=15)
    min_insync_replicas: int = Field(2, ge=1, le=15)
    partitions_per_topic: int = Field(4, ge=1, le=1000)
    sim_bugs: tuple[str, ...] = ()

    # the load
    workload: Literal["queue", "delivery", "recovery", "log-model", "pipeline"] = "queue"
    scenario: str = ""  # of the recovery workload
    steps: int = Field(500, ge=1, le=100_000)  # of the log model
    weights: str = ""
    time_limit_s: float = Field(60.0, gt=0, le=7 * 86400)
    final_time_limit_s: float = Field(90.0, gt=0, le=86400)
    rate_hz: float = Field(200.0, ge=0)
    concurrency: int = Field(10, ge=1, le=1000)
    clients_per_process: int = Field(1, ge=1, le=1000)
    op_timeout_s: float = Field(10.0, gt=0, le=3600)
    txn: bool = False
    min_txn_length: int = Field(1, ge=1, le=1000)
    max_txn_length: int | None = Field(None, ge=1, le=1000)
    key_count: int = Field(12, ge=1, le=100_000)
    max_writes_per_key: int = Field(1024, ge=1)
    key_dist: Literal["uniform", "exponential"] = "exponential"
    key_dist_base: float = Field(2.0, ge=1.0, le=1000.0)
    abort_p: float = Field(0.05, ge=0, le=1)
    sub_p: float = Field(1 / 64, ge=0, le=1)
    sub_via: tuple[Literal["assign", "subscribe"], ...] = ("assign",)
    crash_clients: bool = False
    crash_client_interval_s: float = Field(30.0, gt=0)
    records: int = Field(0, ge=0)
    record_bytes: int = Field(0, ge=0, le=1 << 20)
    primer: bool = False
    settle_s: float = Field(2.0, gt=0, le=3600)

    # the pipeline
    writers: int = Field(2, ge=1, le=100)
    instances: int = Field(4, ge=1, le=100)
    partitions: int = Field(12, ge=1, le=1000)
    input_topics: int = Field(1, ge=1, le=100)
    send_batch: int = Field(5, ge=1, le=10_000)
    pipeline_mode: Literal["exactly-once", "at-least-once", "at-most-once", "auto-commit", "files"] = "exactly-once"
    transform: Transform = "identity"
    assignor: Literal["range", "roundrobin", "cooperative-sticky", "consumer"] = "range"
    static_members: bool = False
    one_poll: bool = False
    churn_interval_s: float = Field(10.0, ge=0, le=86400)
    flush_s: float | None = Field(None, gt=0, le=3600)
    pipeline_mistake: str = ""

    # the clients
    client: tuple[Literal["confluent", "java", "aiokafka", "noop"], ...] = ("confluent",)  # in turns
    client_version: str = ""
    acks: Literal["0", "1", "all"] = "all"
    retries: int | None = Field(None, ge=0)
    idempotence: bool | None = None  # None: as Kafka's own producers since 3.0, see `idempotent`
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    auto_commit: bool = False
    logical_offsets: bool = False
    delivery_timeout_s: float = Field(8.0, gt=0)
    request_timeout_s: float = Field(3.0, gt=0)
    poll_ms: int = Field(100, ge=0, le=60_000)
    pipelined: bool = False
    rewind: bool = True
    producer_config: dict[str, str] = {}
    consumer_config: dict[str, str] = {}

    # faults
    nemesis: tuple[str, ...] = ()
    nemesis_interval_s: float = Field(10.0, gt=0)
    nemesis_first_s: float = Field(5.0, ge=0)
    schedule: tuple[timetable.Line, ...] = Field((), max_length=timetable.ENTRIES_MAX)

    # checking
    ww_deps: bool = True
    jepsen_compatible: bool = False

    @field_validator("acks", mode="before")
    @classmethod
    def _acks(cls, value: Any) -> Any:
        return {"-1": "all"}.get(str(value), str(value))

    @field_validator("client", mode="before")
    @classmethod
    def _clients(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _rules(self) -> TestPlan:
        for rule in rules.RULES:
            rule(self)
        return self

    @property
    def client_versions(self) -> Mapping[str, str]:
        """Versions of client libraries by name, of those that are not the default. Raises ValueError."""
        pairs = [part.strip() for part in self.client_version.split(",") if part.strip()]
        if len(pairs) == 1 and "=" not in pairs[0]:
            if len(set(self.client)) > 1:
                raise ValueError(f"--client-version {pairs[0]}: say whose it is: {self.client[0]}={pairs[0]},...")
            return {self.client[0]: pairs[0]}
        found = {name.strip(): version.strip() for name, _, version in (p.partition("=") for p in pairs)}
        for name, version in found.items():
            if not name or not version:
                raise ValueError(f"--client-version {self.client_version}: write it as NAME=VERSION,...")
        return found

    @field_validator("kafka_version")
    @classmethod
    def _version(cls, value: str) -> str:
        try:
            return kafka.resolve(value)
        except BadInput as error:
            raise ValueError(str(error).partition(": ")[2]) from None

    @property
    def metadata_kept(self) -> kafka.Metadata:
        """Where the metadata is."""
        return self.metadata or kafka.default_metadata(self.kafka_version)

    @model_validator(mode="before")
    @classmethod
    def _pipeline(cls, data: Any) -> Any:
        """What follows from the pipeline's own options."""
        if not isinstance(data, dict) or data.get("workload") != "pipeline":
            return data
        fields = cls.model_fields.items()
        return pipeline.settled(data, {name: field.get_default() for name, field in fields})

    @model_validator(mode="before")
    @classmethod
    def _scenario(cls, data: Any) -> Any:
        """What a scenario asks for, unless the plan says otherwise."""
        if not isinstance(data, dict) or str(data.get("scenario")) not in SCENARIOS:
            return data
        asked = scenario_settings(data["scenario"])
        given = data.get("broker_config") or {}
        if not isinstance(given, dict):
            return data  # told of by the field
        broker = {**asked["broker_config"], **given}
        return {**asked, **data, "broker_config": broker}

    @model_validator(mode="before")
    @classmethod
    def _log_model(cls, data: Any) -> Any:
        """Brokers that look soon at what there is to do, and time for all steps, unless the plan says."""
        if not isinstance(data, dict) or data.get("workload") != "log-model":
            return data
        given = data.get("broker_config") or {}
        if not isinstance(given, dict):
            return data  # told of by the field
        broker = {**broker_actions.BROKER, **given}
        asked = {"time_limit_s": 1200.0, "concurrency": 1}
        if broker_actions.wants_controller(data):
            asked["controllers"] = 1
        return {**asked, **data, "broker_config": broker}

    @model_validator(mode="before")
    @classmethod
    def _where(cls, data: Any) -> Any:
        """`local:NAME` is two fields; addresses alone say that the cluster is external."""
        if not isinstance(data, dict):
            return data
        kind, colon, name = str(data.get("cluster", "")).partition(":")
        if colon:
            return {**data, "cluster": kind, "cluster_name": name}
        return {**data, "cluster": "external"} if data.get("bootstrap") and "cluster" not in data else data

    @property
    def attached(self) -> bool:
        """Whether the cluster is there before the run, and stays."""
        return self.cluster == "external" or bool(self.cluster_name)

    @property
    def scheduled(self) -> tuple[str, ...]:
        """The faults of the schedule, each once."""
        return tuple(dict.fromkeys(one.fault for one in self.schedule))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Names of the clients in the workers, which the slots take in turns."""
        return ("sim",) if self.cluster == "sim" else self.client

    @property
    def clients_per_worker(self) -> int:
        """The simulated log lives in one worker, with every client."""
        return self.concurrency if self.cluster == "sim" else self.clients_per_process

    @property
    def replication_factor(self) -> int:
        """The default is capped by the number of nodes."""
        return min(self.replication, self.nodes)

    @property
    def min_isr(self) -> int:
        """The default is capped by the replication factor."""
        return min(self.min_insync_replicas, self.replication_factor)

    @property
    def idempotent(self) -> bool:
        """Unless the plan says: on with acks=all and retries, where a retry would otherwise make duplicates
        (KIP-679 made that the default of Kafka's producers), off elsewhere."""
        if self.idempotence is not None:
            return self.idempotence or self.txn
        return self.txn or (self.acks == "all" and self.retries != 0)

    @property
    def partition_count(self) -> int:
        """How many partitions the load writes to from the beginning: one for each key, or the inputs."""
        return self.partitions * self.input_topics if self.workload == "pipeline" else self.key_count

    @property
    def txn_length_max(self) -> int:
        """4 micro-ops in transactions and 1 outside, unless the plan says."""
        if self.max_txn_length is not None:
            return self.max_txn_length
        return max(4 if self.txn else 1, self.min_txn_length)

    def settings(self) -> Settings:
        """What the guarantees follow from."""
        producer = {**self.producer_config}
        said = producer.get("enable.idempotence", str(self.idempotent)).lower()
        return Settings(
            acks=str(producer.get("acks", self.acks)),
            retries=int(producer["retries"]) if "retries" in producer else self.retries,
            max_in_flight=int(producer.get("max.in.flight.requests.per.connection", 0)) or None,
            idempotence=said == "true",
            txn=self.txn,
            isolation_level=self.isolation_level,
            auto_offset_reset=self.auto_offset_reset,
            replication=self.replication_factor,
            min_insync_replicas=int(self.broker_config.get("min.insync.replicas", self.min_isr)),
            unclean_election=self.broker_config.get("unclean.leader.election.enable") == "true",
            cleanup_policy=self.broker_config.get("log.cleanup.policy", "delete"),
            flush_messages=int(self.broker_config.get("log.flush.interval.messages", 0)) or None,
            sub_via=frozenset(self.sub_via),
            group_protocol=self.consumer_config.get("group.protocol", "classic"),
            damaged_copies=SCENARIOS[self.scenario].damaged if self.scenario else 0,
            unsynced_copies=SCENARIOS[self.scenario].unsynced if self.scenario else 0,
            broker=dict(self.broker_config),
        )

    def check_options(self) -> CheckOptions:
        """What the checker is told of this plan."""
        return CheckOptions(
            ww_deps=self.ww_deps,
            sub_via=frozenset(self.sub_via),
            jepsen_compatible=self.jepsen_compatible,
            settings=self.settings(),
            expected_faults=tuple(dict.fromkeys((*self.nemesis, *self.scheduled))),
            require_final_polls=True,
        )


def make(values: Mapping[str, Any], where: Where | None = None) -> TestPlan:
    """A plan of option values. Raises BadInput with one line per mistake.

    where  place of a key (and whether of its value) -> file:line:column, empty where it is no file's
    """
    try:
        return TestPlan.model_validate(dict(values))
    except ValidationError as error:
        raise BadInput("\n".join(_explain(error, where))) from None


def _explain(error: ValidationError, where: Where | None) -> list[str]:
    """Each error as a sentence that names the file's line, or the option."""
    told = []
    for one in error.errors():
        place = tuple(one["loc"])
        if where is not None and place and where(place, False):
            told.append(line(one, where, keys))
        else:
            told.append(_option(one))
    return told


def _option(error: Any) -> str:
    """One pydantic error as a sentence that names the option."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"{option_name(name)}: no such option; `harness run --help` lists them"
    return f"{option_name(name)} {error['input']}: {message[0].lower()}{message[1:]}"


def keys(place: Place) -> Sequence[str]:
    """What may stand in a mapping of a plan file, by its place."""
    if place[:1] == ("schedule",):
        return timetable.keys(place[1:])
    return [field.alias or name for name, field in TestPlan.model_fields.items()]


def settled(plan: TestPlan, facts: Mapping[str, Any]) -> TestPlan:
    """The plan with what is known of the cluster that it is carried out on. Raises BadInput where what was
    asked for does not go with that."""
    given = {name: getattr(plan, name) for name in plan.model_fields_set if name != "schema_"}
    return make({**given, "seed": plan.seed, **facts})


def dump(plan: TestPlan) -> str:
    """The plan as YAML."""
    data = plan.model_dump(by_alias=True, mode="json")
    data |= {"replication": plan.replication_factor, "min_insync_replicas": plan.min_isr}
    data["schedule"] = timetable.dumped(plan.schedule)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def load_data(path: Path) -> Loaded:
    """The mapping of a plan file, not validated. Raises BadInput with file, line and column."""
    loaded = yaml_data.load(path, "a plan")
    if not isinstance(loaded.data, dict):
        raise BadInput(f"{loaded.where((), True)}: a plan is a mapping of options")
    newer = loaded.data.get("schema", SCHEMA)
    if not isinstance(newer, int) or newer > SCHEMA:
        at = loaded.where(("schema",), True)
        raise BadInput(f"{at}: schema {newer}; this version reads up to {SCHEMA}: use a newer harness")
    return loaded


def load(path: Path) -> TestPlan:
    """The plan of a run folder's plan.yaml, or of any such file. Raises BadInput naming the file."""
    loaded = load_data(path)
    try:
        return make(loaded.data, loaded.where)
    except BadInput as error:
        text = str(error) if str(error).startswith(f"{path}:") else f"{path}: {error}"
        raise BadInput(f"{text}; mend the file, or judge its history/*.jsonl alone") from None
