"""The options of `harness run`, as a table: one row for each field of the plan that a user may set.

Types and defaults come from the plan itself, so help and plan cannot disagree. Literals and lists of names
are given as text, mappings as repeated key=value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

import typer

from harness.plan.rules import option_name
from harness.plan.test_plan import TestPlan

FAULTS: Final = "Faults"
CLUSTER: Final = "Cluster"
LOAD: Final = "Load"
KEYS: Final = "Keys"
PIPELINE: Final = "Pipeline"
CLIENTS: Final = "Clients"
CHECKING: Final = "Checking"

OPTIONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("nemesis", FAULTS, "Faults, comma-separated: leader-kill, leader-pause, leader-isolate, client-crash, "
     "none, or VERB:TARGET such as kill:follower."),
    ("nemesis_interval_s", FAULTS, "Seconds between faults: on for one half, off for the other."),
    ("nemesis_first_s", FAULTS, "Seconds before the first fault."),
   ("cluster", CLUSTER, "local (brokers on this machine), docker (those of docker-compose.yml), ssh (on "
     "the hosts of --hosts), external (others run it), mock (librdkafka's mock cluster, known to be wrong "
     "about transactions) or sim (a simulated log)."),
    ("hosts", CLUSTER, "With --cluster ssh: a YAML file that lists the hosts; see docs/ssh.md."),
    ("system", CLUSTER, "With --cluster docker: kafka or redpanda."),
    ("image", CLUSTER, "The image for --cluster docker. [default: apache/kafka:VERSION, or one made here]"),
    ("bootstrap", CLUSTER, "With --cluster external: addresses of a cluster that others run, host:port,..."),
    ("client_config", CLUSTER, "With --cluster external: a file of librdkafka's properties, such as "
     "sasl.password=${PASSWORD}; nothing of it is kept."),
    ("keep_topics", CLUSTER, "Leave the run's topics on a cluster that stays."),
    ("keep_data", CLUSTER, "Keep what the brokers have on disk of the run, at most 2 GiB: harness inspect."),
    ("kafka_version", CLUSTER, "Kafka version, from Maven Central: 4.1.1, or 2.4 for its last known patch."),
    ("metadata", CLUSTER, "kraft or zookeeper. [default: zookeeper before 3.3, kraft from there on]"),
    ("controllers", CLUSTER, "Nodes that only control, with KRaft; 0: the first brokers do that too."),
    ("nodes", CLUSTER, "Number of brokers."),
    ("log_dirs", CLUSTER, "With --cluster local: log directories of each broker."),
    ("tiered", CLUSTER, "log-model: brokers have a remote tier (Kafka 3.6 on), and half the topics use it."),
    ("network", CLUSTER, "namespaces, loopback, or auto: namespaces where they are allowed."),
    ("outside", CLUSTER, "Brokers also listen on ports of 127.0.0.1, for your own tools during the run."),
    ("proxy", CLUSTER, "Whose requests pass a wire proxy: nobody, clients, everybody, or auto: clients "
     "where a fault needs it."),
    ("broker_config", CLUSTER, "Broker setting, key=value; repeatable."),
    ("replication", CLUSTER, "Replication factor of the topics; at most --nodes."),
    ("min_insync_replicas", CLUSTER, "min.insync.replicas; capped by the replication factor."),
    ("partitions_per_topic", CLUSTER, "Partitions of each topic."),
    ("sim_bugs", CLUSTER, "With --cluster sim: bugs to switch on, comma-separated."),
    ("workload", LOAD, "What the clients do: queue (sends, polls and transactions over many keys), "
     "delivery (sends only; each record is accounted for), recovery (crashes and damage, step by step), "
     "or pipeline (consume, transform, produce and commit, each record once)."),
    ("scenario", LOAD, "recovery: which scenario; see `harness recovery list`. [default: all, one by one]"),
    ("steps", LOAD, "log-model: how many actions; a topic takes 30."),
    ("weights", LOAD, "log-model: how often each comes: append=10,read=5,restart=0; others as usual."),
    ("time_limit_s", LOAD, "Seconds of load."),
    ("rate_hz", LOAD, "Ops a second over all clients; 0 for as fast as possible."),
    ("concurrency", LOAD, "Number of clients."),
    ("clients_per_process", LOAD, "Clients in one worker process."),
    ("op_timeout_s", LOAD, "Seconds after which an op is given up as info."),
    ("final_time_limit_s", LOAD, "Seconds that final polls may take; the wait for health before them, too."),
    ("crash_clients", LOAD, "Now and then close a client without commit."),
    ("crash_client_interval_s", LOAD, "Seconds between such crashes."),
    ("txn", LOAD, "Every op is a transaction."),
    ("min_txn_length", LOAD, "Fewest sends and polls in an op."),
    ("max_txn_length", LOAD, "Most sends and polls in an op. [default: 4 with --txn, else 1]"),
    ("abort_p", LOAD, "With --txn: probability of aborting on purpose."),
    ("records", LOAD, "delivery: how many records to send; 0 for as many as the time allows."),
    ("record_bytes", LOAD, "Records are padded to this size."),
    ("primer", LOAD, "delivery: send one record first, patiently, and the rest when it is acknowledged."),
    ("settle_s", LOAD, "delivery: seconds that the logs must not have grown before they count as read."),
    ("writers", PIPELINE, "Clients that fill the input topics."),
    ("instances", PIPELINE, "Clients that consume, transform, produce and commit."),
    ("partitions", PIPELINE, "Partitions of each topic."),
    ("input_topics", PIPELINE, "Number of input topics."),
    ("send_batch", PIPELINE, "Records in a writer's op."),
    ("pipeline_mode", PIPELINE, "exactly-once, at-least-once, at-most-once, auto-commit, or files (exactly "
     "once, in Parquet files that the output refers to)."),
    ("transform", PIPELINE, "identity, fan-out, filter, or aggregate (a running count of each key)."),
    ("assignor", PIPELINE, "range, roundrobin, cooperative-sticky, or consumer: the brokers', by the new "
     "group protocol."),
    ("static_members", PIPELINE, "Instances are static members of the group."),
    ("one_poll", PIPELINE, "A revocation and the assignment after it come in one poll."),
    ("churn_interval_s", PIPELINE, "So often an instance leaves the group, for half as long; 0: none does."),
    ("flush_s", PIPELINE, "How long work waits before it is produced. [default: 0.25, and 30 for files]"),
    ("pipeline_mistake", PIPELINE, "A mistake for the check to find; see docs/pipeline.md."),
    ("key_count", KEYS, "Keys in use at a time."),
    ("max_writes_per_key", KEYS, "Values of a key before another takes its place."),
    ("key_dist", KEYS, "uniform or exponential."),
    ("key_dist_base", KEYS, "exponential: how much likelier each key is than the one before."),
    ("sub_p", KEYS, "Probability that an op is an assign or a subscribe."),
    ("sub_via", KEYS, "assign, subscribe, or assign,subscribe."),
    ("client", CLIENTS, "Client library: confluent (librdkafka), java (Kafka's own; a JVM for each) or "
     "aiokafka; of several, separated by commas, clients take turns."),
    ("client_version", CLIENTS, "Version of the client library; of several, java=3.9.1,confluent=2.1.0. "
     "[default: the newest known]"),
    ("pipelined", CLIENTS, "Sends of an op that follow each other go out together."),
    ("rewind", CLIENTS, "After an abort, read again what the transaction had read."),
    ("acks", CLIENTS, "0, 1 or all."),
    ("retries", CLIENTS, "Producer retries. [default: the library's]"),
    ("idempotence", CLIENTS, "Idempotent producer. [default: on with acks=all and retries]"),
    ("isolation_level", CLIENTS, "read_committed or read_uncommitted."),
    ("auto_offset_reset", CLIENTS, "earliest or latest."),
    ("auto_commit", CLIENTS, "Consumers commit by themselves."),
    ("logical_offsets", CLIENTS, "Consumers begin at librdkafka's logical BEGINNING; shows a bug of its."),
    ("delivery_timeout_s", CLIENTS, "Seconds that a send may be retried."),
    ("request_timeout_s", CLIENTS, "Seconds that a broker may take to answer."),
    ("poll_ms", CLIENTS, "Milliseconds that a poll waits for records."),
    ("producer_config", CLIENTS, "Producer setting, key=value; repeatable."),
    ("consumer_config", CLIENTS, "Consumer setting, key=value; repeatable."),
    ("ww_deps", CHECKING, "Offsets imply write order between transactions."),
    ("jepsen_compatible", CHECKING, "Judge exactly as Jepsen does."),
    ("seed", "Options", "Repeats ops and faults; drawn if not given."),
)  # fmt: skip


def _kind(annotation: Any) -> Any:
    """The type that the command line parses for a field."""
    if annotation in (int, float, bool, str):
        return annotation
    if get_origin(annotation) is dict:
        return list[str]
    optional = [part for part in get_args(annotation) if part is not type(None)]
    if type(None) in get_args(annotation) and optional[0] in (int, float, bool):
        return optional[0]
    return str


def _parameter(field: str, panel: str, text: str) -> inspect.Parameter:
    info = TestPlan.model_fields[field]
    kind = _kind(info.annotation)
    value = info.get_default(call_default_factory=False)
    if field == "nemesis":
        value = "none"
    elif isinstance(value, tuple):
        value = ",".join(value)
    elif kind not in (int, float, bool, str) or not isinstance(value, kind):
        value = None
    name = option_name(field)
    flags = f"{name}/--no-{name[2:]}" if kind is bool and value is not False else name
    option = typer.Option(flags, help=text, rich_help_panel=panel, show_default=value is not None)
    annotation = kind if value is not None else kind | None
    return inspect.Parameter(
        field, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=Annotated[annotation, option]
    )


def with_options(command: Callable[..., int], fields: Collection[str] = ()) -> Callable[..., int]:
    """Give a command the table's options, before its own keyword parameters; it receives them by name.

    fields  only those; none for all
    """
    table = [_parameter(*row) for row in OPTIONS if not fields or row[0] in fields]
    own = [
        parameter
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = [*own[:1], *table, *own[1:]]
    command.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def given(ctx: typer.Context) -> dict[str, Any]:
    """The options that the user gave, rather than those that have their default."""
    return {
        name: value
        for name, value in ctx.params.items()
        if getattr(ctx.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"
    }


RunsDir = Annotated[Path, typer.Option("--runs", envvar="HARNESS_RUNS", help="Folder that holds the runs.")]
SparkMaster = Annotated[
    str,
    typer.Option(
        "--spark-master",
        help="Where the checker's Spark runs; none: judge in this process (pipelines need Spark).",
        rich_help_panel=CHECKING,
    ),
]
