"""The options of a run by groups: each field with its type, its default, its bounds, and its help text.

A field with a description is an option of `harness run`, in its group's panel of the help; the others are set
by the harness, or in a plan file only. Times end in _s or _ms, rates in _hz.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticKnownError

from harness.cluster.distribution.versions import DEFAULT, Metadata, resolve
from harness.model.check_options import Acks, IsolationLevel
from harness.model.errors_and_exit_codes import BadInput
from harness.model.transforms import Transform
from harness.plan.schedule import ENTRIES_MAX, Line

SCHEMA: Final = 1
EXEC: Final = "exec:"  # and the command of a client program


def _known(value: Any, info: ValidationInfo) -> Any:
    """A name of the table that the context has for the field. Raises PydanticKnownError."""
    names = tuple((info.context or {}).get(info.field_name, (value,)))
    if value not in names:
        quoted = [repr(name) for name in names]
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(quoted[:-1])} or {quoted[-1]}"})
    return value


def _listed(value: Any) -> Any:
    """Names with commas between them, as a tuple."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _acks(value: Any) -> str:
    return {"-1": "all"}.get(str(value), str(value))


def _kafka_version(value: str) -> str:
    """The version in full. Raises ValueError."""
    try:
        return resolve(value)
    except BadInput as error:
        raise ValueError(str(error).partition(": ")[2]) from None


def _known_client(value: Any, info: ValidationInfo) -> Any:
    """A name of the table of clients, or "exec:" and a command. Raises PydanticKnownError."""
    if isinstance(value, str) and value.removeprefix(EXEC) not in (value, ""):
        return value
    return _known(value, info)


Known = Annotated[str, BeforeValidator(_known)]  # a name of a table: see `harness.plan.make_plan.names`
KnownClient = Annotated[str, BeforeValidator(_known_client)]


class RunFields(BaseModel):
    """What a run has of its own: written to its plan.yaml when it begins."""

    schema_: int = Field(SCHEMA, alias="schema")
    run: str = ""
    started: str = ""
    seed: int = Field(
        default_factory=lambda: secrets.randbelow(1 << 31),
        ge=0,
        description="Repeats ops and faults; drawn if not given.",
    )
    versions: dict[str, str] = {}
    git_commit: str | None = None


class ClusterFields(BaseModel):
    """The cluster: what it is, how its brokers and the run's topics are set up."""

    cluster: Known = Field(
        "local",
        description="local (brokers on this machine), docker (those of docker-compose.yml), ssh (on the hosts of "
        "--hosts), external (others run it), mock (librdkafka's mock cluster, known to be wrong about "
        "transactions) or sim (a simulated log).",
    )
    cluster_name: str = ""
    # path of the file that describes them
    hosts: str = Field(
        "", description="With --cluster ssh: a YAML file that lists the hosts; see docs/use/clusters.md."
    )
    system: Literal["kafka", "redpanda"] = Field("kafka", description="With --cluster docker: kafka or redpanda.")
    image: str = Field(
        "",
        description="The image for --cluster docker. [default: apache/kafka:VERSION, or one made here]",
    )
    bootstrap: str = Field(
        "",
        description="With --cluster external: addresses of a cluster that others run, host:port,...",
    )
    client_config: str = Field(
        "",
        description="With --cluster external: a file of librdkafka's properties, such as sasl.password=${PASSWORD}; "
        "nothing of it is kept.",
    )
    keep_topics: bool = Field(False, description="Leave the run's topics on a cluster that stays.")
    keep_data: bool = Field(
        False,
        description="Keep what the brokers have on disk of the run, at most 2 GiB: harness inspect.",
    )
    kafka_version: Annotated[str, AfterValidator(_kafka_version)] = Field(
        DEFAULT,
        description="Kafka version, from Maven Central: 4.1.1, or 2.4 for its last known patch.",
    )
    # None: what suits the version
    metadata: Metadata | None = Field(
        None,
        description="kraft or zookeeper. [default: zookeeper before 3.3, kraft from there on]",
    )
    controllers: int = Field(
        0,
        ge=0,
        le=5,
        description="Nodes that only control, with KRaft; 0: the first brokers do that too.",
    )
    nodes: int = Field(3, ge=1, le=1000, description="Number of brokers.")
    log_dirs: int = Field(1, ge=1, le=4, description="With --cluster local: log directories of each broker.")
    tiered: bool = Field(
        False,
        description="log-model: brokers have a remote tier (Kafka 3.6 on), and half the topics use it.",
    )
    network: Literal["auto", "namespaces", "loopback"] = Field(
        "auto",
        description="namespaces, loopback, or auto: namespaces where they are allowed.",
    )
    outside: bool = Field(
        False,
        description="Brokers also listen on ports of 127.0.0.1, for your own tools during the run.",
    )
    proxy: Literal["auto", "clients", "everybody"] = Field(
        "auto",
        description="Whose requests pass a wire proxy: nobody, clients, everybody, or auto: clients "
        "where a fault needs it.",
    )
    broker_config: dict[str, str] = Field({}, description="Broker setting, key=value; repeatable.")
    replication: int = Field(3, ge=1, le=15, description="Replication factor of the topics; at most --nodes.")
    min_insync_replicas: int = Field(
        2,
        ge=1,
        le=15,
        description="min.insync.replicas; capped by the replication factor.",
    )
    partitions_per_topic: int = Field(4, ge=1, le=1000, description="Partitions of each topic.")
    sim_bugs: tuple[str, ...] = Field((), description="With --cluster sim: bugs to switch on, comma-separated.")


class LoadFields(BaseModel):
    """The load: what the clients do, how much, for how long."""

    workload: Known = Field(
        "queue",
        description="What the clients do: queue (sends, polls and transactions over many keys), delivery (sends only; "
        "each record is accounted for), recovery (crashes and damage, step by step), or pipeline (consume, "
        "transform, produce and commit, each record once).",
    )
    # of the recovery workload
    scenario: str = Field(
        "",
        description="recovery: which scenario; see `harness recovery list`. [default: all, one by one]",
    )
    # of the log model
    steps: int = Field(500, ge=1, le=100_000, description="log-model: how many actions; a topic takes 30.")
    weights: str = Field(
        "",
        description="log-model: how often each comes: append=10,read=5,restart=0; others as usual.",
    )
    time_limit_s: float = Field(60.0, gt=0, le=7 * 86400, description="Seconds of load.")
    rate_hz: float = Field(200.0, ge=0, description="Ops a second over all clients; 0 for as fast as possible.")
    concurrency: int = Field(10, ge=1, le=1000, description="Number of clients.")
    clients_per_process: int = Field(1, ge=1, le=1000, description="Clients in one worker process.")
    op_timeout_s: float = Field(10.0, gt=0, le=3600, description="Seconds after which an op is given up as info.")
    final_time_limit_s: float = Field(
        90.0,
        gt=0,
        le=86400,
        description="Seconds that final polls may take; the wait for health before them, too.",
    )
    crash_clients: bool = Field(False, description="Now and then close a client without commit.")
    crash_client_interval_s: float = Field(30.0, gt=0, description="Seconds between such crashes.")
    txn: bool = Field(False, description="Every op is a transaction.")
    min_txn_length: int = Field(1, ge=1, le=1000, description="Fewest sends and polls in an op.")
    max_txn_length: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Most sends and polls in an op. [default: 4 with --txn, else 1]",
    )
    abort_p: float = Field(0.05, ge=0, le=1, description="With --txn: probability of aborting on purpose.")
    records: int = Field(0, ge=0, description="delivery: how many records to send; 0 for as many as the time allows.")
    record_bytes: int = Field(0, ge=0, le=1 << 20, description="Records are padded to this size.")
    primer: bool = Field(
        False,
        description="delivery: send one record first, patiently, and the rest when it is acknowledged.",
    )
    settle_s: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="delivery: seconds that the logs must not have grown before they count as read.",
    )


class KeyFields(BaseModel):
    """The keys of the load."""

    key_count: int = Field(12, ge=1, le=100_000, description="Keys in use at a time.")
    max_writes_per_key: int = Field(1024, ge=1, description="Values of a key before another takes its place.")
    key_dist: Literal["uniform", "exponential"] = Field("exponential", description="uniform or exponential.")
    key_dist_base: float = Field(
        2.0,
        ge=1.0,
        le=1000.0,
        description="exponential: how much likelier each key is than the one before.",
    )
    sub_p: float = Field(1 / 64, ge=0, le=1, description="Probability that an op is an assign or a subscribe.")
    sub_via: tuple[Literal["assign", "subscribe"], ...] = Field(
        ("assign",),
        description="assign, subscribe, or assign,subscribe.",
    )


class PipelineFields(BaseModel):
    """What goes with --workload pipeline."""

    writers: int = Field(2, ge=1, le=100, description="Clients that fill the input topics.")
    instances: int = Field(4, ge=1, le=100, description="Clients that consume, transform, produce and commit.")
    partitions: int = Field(12, ge=1, le=1000, description="Partitions of each topic.")
    input_topics: int = Field(1, ge=1, le=100, description="Number of input topics.")
    send_batch: int = Field(5, ge=1, le=10_000, description="Records in a writer's op.")
    pipeline_mode: Literal["exactly-once", "at-least-once", "at-most-once", "auto-commit", "files"] = Field(
        "exactly-once",
        description="exactly-once, at-least-once, at-most-once, auto-commit, or files (exactly once, in Parquet files "
        "that the output refers to).",
    )
    transform: Transform = Field(
        "identity",
        description="identity, fan-out, filter, or aggregate (a running count of each key).",
    )
    assignor: Literal["range", "roundrobin", "cooperative-sticky", "consumer"] = Field(
        "range",
        description="range, roundrobin, cooperative-sticky, or consumer: the brokers', by the new group protocol.",
    )
    static_members: bool = Field(False, description="Instances are static members of the group.")
    one_poll: bool = Field(False, description="A revocation and the assignment after it come in one poll.")
    churn_interval_s: float = Field(
        10.0,
        ge=0,
        le=86400,
        description="So often an instance leaves the group, for half as long; 0: none does.",
    )
    flush_s: float | None = Field(
        None,
        gt=0,
        le=3600,
        description="How long work waits before it is produced. [default: 0.25, and 30 for files]",
    )
    pipeline_mistake: str = Field("", description="A mistake for the check to find; see docs/use/pipelines.md.")


class ClientFields(BaseModel):
    """The client libraries and their settings."""

    # in turns
    client: Annotated[tuple[KnownClient, ...], BeforeValidator(_listed)] = Field(
        ("confluent",),
        description="Client library: confluent (librdkafka), java (Kafka's own; a JVM for each), aiokafka, or "
        "exec:COMMAND, a program of your own (docs/use/your-own-client.md); of several, separated by commas, clients "
        "take turns.",
    )
    client_version: str = Field(
        "",
        description="Version of the client library; of several, java=3.9.1,confluent=2.1.0. "
        "[default: the newest known]",
    )
    client_env: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        (), description="Names of environment variables that programs of --client exec: are given, comma-separated."
    )
    client_user: str = Field(
        "nobody",
        description="User that programs of --client exec: run as, if the harness runs as root.",
    )
    pipelined: bool = Field(False, description="Sends of an op that follow each other go out together.")
    rewind: bool = Field(True, description="After an abort, read again what the transaction had read.")
    acks: Annotated[Acks, BeforeValidator(_acks)] = Field("all", description="0, 1 or all.")
    retries: int | None = Field(None, ge=0, description="Producer retries. [default: the library's]")
    # None: as Kafka's own producers since 3.0, see `harness.plan.derived.idempotent`
    idempotence: bool | None = Field(None, description="Idempotent producer. [default: on with acks=all and retries]")
    isolation_level: IsolationLevel = Field(
        "read_committed",
        description="read_committed or read_uncommitted.",
    )
    auto_offset_reset: Literal["earliest", "latest"] = Field("earliest", description="earliest or latest.")
    auto_commit: bool = Field(False, description="Consumers commit by themselves.")
    logical_offsets: bool = Field(
        False,
        description="Consumers begin at librdkafka's logical BEGINNING; shows a bug of its.",
    )
    delivery_timeout_s: float = Field(8.0, gt=0, description="Seconds that a send may be retried.")
    request_timeout_s: float = Field(3.0, gt=0, description="Seconds that a broker may take to answer.")
    poll_ms: int = Field(100, ge=0, le=60_000, description="Milliseconds that a poll waits for records.")
    producer_config: dict[str, str] = Field({}, description="Producer setting, key=value; repeatable.")
    consumer_config: dict[str, str] = Field({}, description="Consumer setting, key=value; repeatable.")


class FaultFields(BaseModel):
    """The faults: in one rhythm, or each in its own."""

    nemesis: tuple[str, ...] = Field(
        (),
        description="Faults, comma-separated: leader-kill, leader-pause, leader-isolate, client-crash, none, or "
        "VERB:TARGET such as kill:follower.",
    )
    nemesis_interval_s: float = Field(
        10.0,
        gt=0,
        description="Seconds between faults: on for one half, off for the other.",
    )
    nemesis_first_s: float = Field(5.0, ge=0, description="Seconds before the first fault.")
    schedule: tuple[Line, ...] = Field((), max_length=ENTRIES_MAX)


class CheckingFields(BaseModel):
    """How the history is judged."""

    ww_deps: bool = Field(True, description="Offsets imply write order between transactions.")
    jepsen_compatible: bool = Field(False, description="Judge exactly as Jepsen does.")


# By the panels of the help, in their order.
GROUPS: Final[Mapping[str, type[BaseModel]]] = {
    "Faults": FaultFields,
    "Cluster": ClusterFields,
    "Load": LoadFields,
    "Pipeline": PipelineFields,
    "Keys": KeyFields,
    "Clients": ClientFields,
    "Checking": CheckingFields,
    "Options": RunFields,
}
