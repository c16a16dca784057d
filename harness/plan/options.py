"""The options of a run in groups: the type, default, bounds and help text of each field.

A field with a description is an option of `harness run`, shown in its group's panel of the help. A field without a
description is set by the harness, or only in a plan file. Names of times end in _s or _ms, names of rates in _hz.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticKnownError

from harness.clients.app.spec import App
from harness.clients.exec import examples
from harness.clients.exec.command import PREFIX
from harness.cluster.distribution.versions import DEFAULT, Metadata, resolve
from harness.model.check_options import Acks, IsolationLevel
from harness.model.errors_and_exit_codes import BadInput
from harness.model.transforms import Transform
from harness.plan.schedule import ENTRIES_MAX, Line

SCHEMA: Final = 1


def _known(value: Any, info: ValidationInfo) -> Any:
    """Returns the value if `make_plan.names` has it among the field's valid values.

    Raises PydanticKnownError if not.
    """
    names = tuple((info.context or {}).get(info.field_name, (value,)))
    if value not in names:
        quoted = [repr(name) for name in names]
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(quoted[:-1])} or {quoted[-1]}"})
    return value


def _listed(value: Any) -> Any:
    """Returns a tuple for a text of comma-separated names, and any other value unchanged."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _acks(value: Any) -> str:
    return {"-1": "all"}.get(str(value), str(value))


def _kafka_version(value: str) -> str:
    """Returns the full version number for a version such as 2.4. Raises ValueError."""
    try:
        return resolve(value)
    except BadInput as error:
        raise ValueError(str(error).partition(": ")[2]) from None


def _newer_version(value: str) -> str:
    """Returns the full version number like `_kafka_version`; an empty text unchanged."""
    return _kafka_version(value) if value else value


def _known_client(value: Any, info: ValidationInfo) -> Any:
    """Checks that a value is a name in the table of clients, or "exec:" with a command. Raises PydanticKnownError.

    Replaces the name of a program of examples/clients by "exec:" and its command. Raises BadInput if it is not there.
    """
    if isinstance(value, str) and value.removeprefix(PREFIX) not in (value, ""):
        return value
    if isinstance(value, str) and value and (example := examples.find(value)) is not None:
        return example.client
    return _known(value, info)


Known = Annotated[str, BeforeValidator(_known)]  # the name of a row of a table: see `harness.plan.make_plan.names`
KnownClient = Annotated[str, BeforeValidator(_known_client)]


class RunFields(BaseModel):
    """Identity of the run, written to its plan.yaml when it starts."""

    schema_: int = Field(SCHEMA, alias="schema")
    run: str = ""
    started: str = ""
    seed: int = Field(
        default_factory=lambda: secrets.randbelow(1 << 31),
        ge=0,
        description="Seed of operations and faults. [default: random]",
    )
    versions: dict[str, str] = {}
    git_commit: str | None = None


class ClusterFields(BaseModel):
    """The cluster, and the configuration of its brokers and of the run's topics."""

    cluster: Known = Field(
        "local",
        description="local (brokers on this machine), docker (the brokers of docker-compose.yml), ssh (brokers on the "
        "hosts of --hosts), external (a cluster that is already running), mock (librdkafka's mock cluster, known to "
        "be wrong about transactions) or sim (a simulated log).",
    )
    cluster_name: str = ""
    # path of the file that describes the hosts
    hosts: str = Field(
        "", description="With --cluster ssh: a YAML file that lists the hosts; see docs/use/clusters.md."
    )
    system: Literal["kafka", "redpanda"] = Field("kafka", description="With --cluster docker: kafka or redpanda.")
    image: str = Field(
        "",
        description="Image for --cluster docker. [default: apache/kafka:VERSION, or an image built on this machine]",
    )
    bootstrap: str = Field(
        "",
        description="With --cluster external: addresses of the cluster's brokers, host:port,...",
    )
    client_config: str = Field(
        "",
        description="With --cluster external: a file of librdkafka properties, such as sasl.password=${PASSWORD}; "
        "the run stores none of it.",
    )
    keep_topics: bool = Field(False, description="Do not delete the run's topics from a cluster that stays up.")
    keep_data: bool = Field(
        False,
        description="Copy the run's data from the brokers' disks to the run folder, up to 2 GiB, for harness inspect.",
    )
    kafka_version: Annotated[str, AfterValidator(_kafka_version)] = Field(
        DEFAULT,
        description="Kafka version, from Maven Central: 4.1.1, or 4.1 for the latest 4.1 patch release known here.",
    )
    upgrade_to: Annotated[str, AfterValidator(_newer_version)] = Field(
        "",
        description="Version to which the faults upgrade, finalize, roll-back and downgrade take the cluster; see "
        "docs/use/upgrades.md.",
    )
    # None: the default of the version
    metadata: Metadata | None = Field(
        None,
        description="kraft or zookeeper. [default: zookeeper before 3.3, kraft from 3.3 on]",
    )
    controllers: int = Field(
        0,
        ge=0,
        le=5,
        description="Number of dedicated KRaft controllers; with 0, the first brokers are controllers too.",
    )
    nodes: int = Field(3, ge=1, le=1000, description="Number of brokers.")
    log_dirs: int = Field(
        1,
        ge=1,
        le=4,
        description="With --cluster local: log directories of each broker; at least 2 if a fault needs them.",
    )
    racks: int = Field(
        0,
        ge=0,
        le=15,
        description="With --cluster local: spread brokers and clients over this many racks; consumers fetch from the "
        "replica in their own rack, leader or follower (KIP-392).",
    )
    tiered: bool = Field(
        False,
        description="log-model: enable remote storage on brokers (Kafka 3.6 or later) and on half the topics.",
    )
    network: Literal["auto", "namespaces", "loopback"] = Field(
        "auto",
        description="namespaces, loopback, or auto: namespaces where the system allows them.",
    )
    outside: bool = Field(
        False,
        description="Brokers also listen on ports of 127.0.0.1, so that you can use your own tools during the run.",
    )
    proxy: Literal["auto", "clients", "everybody"] = Field(
        "auto",
        description="Whose requests go through the wire proxy: clients (clients only), everybody (brokers too), or "
        "auto (clients, if a fault needs the proxy).",
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
        "each record is accounted for), compacted (as queue, on compacted topics), recovery (crashes and disk damage, "
        "step by step), log-model (random operations compared with a model of the log), pipeline (consume, transform "
        "and produce, with each record processed once), app (your own application, described by --app FILE) or share "
        "(members of share groups acknowledge records; Kafka 4.2 or later).",
    )
    # of the app workload
    app: App | None = None
    # of the recovery workload
    scenario: str = Field(
        "",
        description="recovery: the scenario; see `harness recovery list`. [default: all, one after another]",
    )
    # of the log model
    steps: int = Field(500, ge=1, le=100_000, description="log-model: number of actions; each topic gets 30.")
    weights: str = Field(
        "",
        description="log-model: weights of actions, such as append=10,read=5,restart=0; others keep their default.",
    )
    time_limit_s: float = Field(60.0, gt=0, le=7 * 86400, description="Seconds of load.")
    rate_hz: float = Field(200.0, ge=0, description="Operations per second over all clients; 0: as fast as possible.")
    concurrency: int = Field(10, ge=1, le=1000, description="Number of clients.")
    clients_per_process: int = Field(1, ge=1, le=1000, description="Clients in each worker process.")
    op_timeout_s: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Seconds after which an unfinished operation completes as info.",
    )
    final_time_limit_s: float = Field(
        90.0,
        gt=0,
        le=86400,
        description="Time limit of the final sends and polls, and of the wait for a healthy cluster before them, in "
        "seconds.",
    )
    crash_clients: bool = Field(False, description="Periodically close a client without committing.")
    crash_client_interval_s: float = Field(30.0, gt=0, description="With --crash-clients: seconds between two crashes.")
    txn: bool = Field(False, description="Run every operation in a transaction.")
    min_txn_length: int = Field(1, ge=1, le=1000, description="Minimum number of sends and polls in an operation.")
    max_txn_length: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of sends and polls in an operation. [default: 4 with --txn, else 1]",
    )
    abort_p: float = Field(0.05, ge=0, le=1, description="With --txn: probability of a deliberate abort.")
    records: int = Field(0, ge=0, description="delivery: number of records to send; 0: as many as fit in the time.")
    record_bytes: int = Field(0, ge=0, le=1 << 20, description="Pad records to this size, in bytes.")
    primer: bool = Field(
        False,
        description="delivery: send one record first, with no early timeout, and the rest once it is acknowledged.",
    )
    record_keys: int = Field(
        0, ge=0, le=10_000, description="compacted: record keys in each partition. [default: 8 with this workload]"
    )
    settle_s: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="delivery: seconds without growth after which a log counts as read to its end.",
    )


class KeyFields(BaseModel):
    """The distribution of operations over keys."""

    key_count: int = Field(12, ge=1, le=100_000, description="Number of keys in use at a time.")
    max_writes_per_key: int = Field(1024, ge=1, description="Writes to a key before a new key replaces it.")
    key_dist: Literal["uniform", "exponential"] = Field(
        "exponential",
        description="Distribution of keys: uniform or exponential.",
    )
    key_dist_base: float = Field(
        2.0,
        ge=1.0,
        le=1000.0,
        description="exponential: how many times likelier each key is than the previous key.",
    )
    sub_p: float = Field(1 / 64, ge=0, le=1, description="Probability that an operation is an assign or a subscribe.")
    sub_via: tuple[Literal["assign", "subscribe"], ...] = Field(
        ("assign",),
        description="How consumers get partitions: assign, subscribe, or assign,subscribe.",
    )
    sub_pattern: bool = Field(
        False, description="subscribe: use a regular expression that matches all topics of the run, of now and later."
    )
    group_protocol: Literal["classic", "consumer", "both"] = Field(
        "classic",
        description="Protocol of consumer groups: classic, consumer (KIP-848), or both (members of both in one group, "
        "which brokers convert while it is used).",
    )
    remote_assignor: Literal["", "uniform", "range"] = Field(
        "", description="consumer: the assignor of the brokers, uniform or range. [default: the broker's]"
    )


class PipelineFields(BaseModel):
    """The options of --workload pipeline."""

    writers: int = Field(2, ge=1, le=100, description="Clients that write to the input topics.")
    instances: int = Field(4, ge=1, le=100, description="Clients that consume, transform, produce and commit.")
    partitions: int = Field(12, ge=1, le=1000, description="Partitions of each topic.")
    input_topics: int = Field(1, ge=1, le=100, description="Number of input topics.")
    send_batch: int = Field(5, ge=1, le=10_000, description="Records in each send of a writer.")
    pipeline_mode: Literal["exactly-once", "at-least-once", "at-most-once", "auto-commit", "files"] = Field(
        "exactly-once",
        description="exactly-once, at-least-once, at-most-once, auto-commit, or files (exactly once, in Parquet files "
        "that the output records point to).",
    )
    transform: Transform = Field(
        "identity",
        description="identity, fan-out, filter, or aggregate (a running count per key).",
    )
    assignor: Literal["range", "roundrobin", "cooperative-sticky", "consumer"] = Field(
        "range",
        description="range, roundrobin, cooperative-sticky, or consumer (new group protocol: brokers assign).",
    )
    static_members: bool = Field(
        False, description="Make the instances, or the consumers of other workloads, static members of the group."
    )
    one_poll: bool = Field(False, description="Deliver a revocation and the following assignment in the same poll.")
    churn_interval_s: float = Field(
        10.0,
        ge=0,
        le=86400,
        description="Interval in seconds at which an instance leaves the group; it rejoins after half of it. 0: never.",
    )
    flush_s: float | None = Field(
        None,
        ge=0,
        le=3600,
        description="Seconds to buffer records before they are produced; 0: only until the next poll. "
        "[default: 0.25; 30 in mode files]",
    )
    pipeline_mistake: str = Field("", description="Bug to inject, for the check to find; see docs/use/pipelines.md.")


class ShareFields(BaseModel):
    """The options of --workload share. `PipelineFields` has the number of its writers and of its partitions."""

    share_groups: int = Field(1, ge=1, le=20, description="Number of share groups that read the same topics.")
    share_topics: int = Field(1, ge=1, le=100, description="Number of topics, each with --partitions partitions.")
    share_acknowledgement: Literal["explicit", "implicit"] = Field(
        "explicit",
        description="explicit (members acknowledge each record) or implicit (a poll accepts the records of the last).",
    )
    share_lock_s: float = Field(3.0, ge=1, le=3600, description="Seconds for which a delivered record is locked.")
    share_session_s: float = Field(5.0, ge=2, le=60, description="Seconds after which a group removes a silent member.")
    share_delivery_limit: int = Field(5, ge=2, le=10, description="How often a record is delivered at most.")
    share_release_p: float = Field(0.1, ge=0, le=1, description="Probability that a record is released.")
    share_reject_p: float = Field(0.03, ge=0, le=1, description="Probability that a record is rejected.")
    share_renew_p: float = Field(0.1, ge=0, le=1, description="Probability that a record's lock is renewed (java).")
    share_hold_p: float = Field(
        0.03, ge=0, le=1, description="Probability that a batch is kept for longer than the lock lasts."
    )
    share_leave_p: float = Field(0.02, ge=0, le=1, description="Probability that a member leaves with its records.")
    share_crash_p: float = Field(0.01, ge=0, le=1, description="Probability that a member crashes with its records.")
    share_dead_letters: bool = Field(
        False, description="Give each share group a dead letter queue, and check it (KIP-1191; Kafka 4.4 or later)."
    )
    share_recreate: bool = Field(
        False, description="Halfway through the load, delete the topics of the share groups and create them again."
    )


class ClientFields(BaseModel):
    """The client libraries and their settings."""

    # in rotation
    client: Annotated[tuple[KnownClient, ...], BeforeValidator(_listed)] = Field(
        ("confluent",),
        description="Client library: confluent (librdkafka), java (Kafka's own; one JVM per client), aiokafka, "
        "exec:COMMAND, a program of your own (docs/use/your-own-client.md), or a program of examples/clients, which is "
        f"built if necessary: {', '.join(examples.NAMES)}; NAME@VERSION is the program with another version of its "
        "library. Of several libraries, separated by commas, each client uses the next.",
    )
    client_version: str = Field(
        "",
        description="Version of the client library; with several libraries, java=3.9.1,confluent=2.1.0. "
        "[default: the newest known]",
    )
    client_env: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        (),
        description="Names of environment variables to pass on to `exec:COMMAND` clients and to the instances of "
        "`--app`, comma-separated.",
    )
    client_user: str = Field(
        "nobody",
        description="User that your programs run as, if the harness itself runs as root: those of `exec:COMMAND` "
        "clients, and the instances of `--app`. The user must be able to read and execute them.",
    )
    pipelined: bool = Field(False, description="Send consecutive sends of an operation without waiting between them.")
    reuse_producers: bool = Field(
        False,
        description="Keep a producer after a send whose outcome is unknown, as most applications do (without --txn).",
    )
    rewind: bool = Field(True, description="After an abort, seek back and read the records of the transaction again.")
    acks: Annotated[Acks, BeforeValidator(_acks)] = Field("all", description="Producer acks: 0, 1 or all.")
    retries: int | None = Field(None, ge=0, description="Producer retries. [default: the library's]")
    # None: the default of Kafka's own producers since 3.0; see `harness.plan.derived.idempotent`
    idempotence: bool | None = Field(None, description="Idempotent producer. [default: on with acks=all and retries]")
    isolation_level: IsolationLevel = Field(
        "read_committed",
        description="Consumer isolation.level: read_committed or read_uncommitted.",
    )
    auto_offset_reset: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Consumer auto.offset.reset: earliest or latest.",
    )
    auto_commit: bool = Field(False, description="Consumers commit their offsets automatically.")
    logical_offsets: bool = Field(
        False,
        description="Start consumers at librdkafka's logical offset BEGINNING; exposes a bug in librdkafka.",
    )
    delivery_timeout_s: float = Field(8.0, gt=0, description="Seconds for which a send is retried.")
    request_timeout_s: float = Field(3.0, gt=0, description="Seconds to wait for a broker's response.")
    poll_ms: int = Field(100, ge=0, le=60_000, description="Milliseconds to wait for records in a poll.")
    producer_config: dict[str, str] = Field({}, description="Producer setting, key=value; repeatable.")
    consumer_config: dict[str, str] = Field({}, description="Consumer setting, key=value; repeatable.")


class FaultFields(BaseModel):
    """The faults, either at one common interval or in a schedule."""

    nemesis: tuple[str, ...] = Field(
        (),
        description="Faults, comma-separated: leader-kill, leader-pause, leader-isolate, client-crash, none, or "
        "VERB:TARGET such as kill:follower.",
    )
    nemesis_interval_s: float = Field(
        10.0,
        gt=0,
        description="Seconds from one fault to the next; a fault is active for the first half.",
    )
    nemesis_first_s: float = Field(5.0, ge=0, description="Seconds before the first fault.")
    schedule: tuple[Line, ...] = Field((), max_length=ENTRIES_MAX)


class CheckingFields(BaseModel):
    """The options for checking the history."""

    ww_deps: bool = Field(True, description="Infer write-write dependencies between transactions from offsets.")
    jepsen_compatible: bool = Field(False, description="Judge exactly as Jepsen does.")


# One group per panel of the help, in the order of the panels.
GROUPS: Final[Mapping[str, type[BaseModel]]] = {
    "Faults": FaultFields,
    "Cluster": ClusterFields,
    "Load": LoadFields,
    "Pipeline": PipelineFields,
    "Share groups": ShareFields,
    "Keys": KeyFields,
    "Clients": ClientFields,
    "Checking": CheckingFields,
    "Options": RunFields,
}
