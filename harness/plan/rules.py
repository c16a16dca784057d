"""What options of a plan may not be combined. Each rule raises ValueError with what to do instead."""

from __future__ import annotations

import difflib
import re
from typing import Final

from harness.clients.connection import about_connecting
from harness.cluster.distribution import tiered_storage, versions
from harness.cluster.table import CLUSTERS
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, pipeline
from harness.plan.options import EXEC
from harness.plan.setting_values import JAVA_ACKS, boolean, client_acks
from harness.plan.test_plan import TestPlan, option_name
from harness.sim.queue.bugs import BUGS
from workloads.log_model.draw_broker_actions import parse_weights
from workloads.recovery.scenarios import SCENARIOS

NODES_MAX: Final = 15
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
NAME_RULE: Final = "a name is made of a-z, 0-9 and -, 31 of them at most"
ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,\[\]]+):\d{1,5}")
INTEGER_SETTINGS: Final = ("retries", "max.in.flight.requests.per.connection")  # the guarantees read them


def libraries(plan: TestPlan) -> None:
    """Client libraries, and what they cannot do."""
    if not plan.client:
        raise ValueError("--client needs a library")
    if "noop" in plan.client and len(set(plan.client)) > 1:
        raise ValueError("--client noop goes alone: it sends nothing, so others would miss its records")
    if "aiokafka" in plan.client and plan.retries is not None:
        raise ValueError(f"--retries {plan.retries} does not go with --client aiokafka: it counts none")
    others = [name for name in plan.client if name not in ("confluent", "noop") and not name.startswith(EXEC)]
    if others and plan.client_config:
        raise ValueError(f"--client-config does not go with --client {others[0]}: its properties are librdkafka's")
    for name in derived.client_versions(plan):
        if name not in plan.client:
            raise ValueError(f"--client-version {plan.client_version}: there is no --client {name}")


def metadata(plan: TestPlan) -> None:
    """Where the metadata is, and who controls."""
    if plan.cluster != "local" and (plan.metadata or plan.controllers):
        given = f"--metadata {plan.metadata}" if plan.metadata else f"--controllers {plan.controllers}"
        raise ValueError(f"{given} goes with --cluster local")
    if plan.cluster == "local":
        try:
            versions.check(plan.kafka_version, derived.metadata_mode(plan))
        except BadInput as error:
            raise ValueError(str(error)) from None
    if plan.controllers and derived.metadata_mode(plan) == versions.ZOOKEEPER:
        raise ValueError(f"--controllers {plan.controllers} goes with KRaft: with ZooKeeper a broker controls")


def attached(plan: TestPlan) -> None:
    """Clusters that the run does not start itself."""
    if plan.nodes > NODES_MAX and plan.cluster != "external":
        raise ValueError(f"--nodes {plan.nodes}: at most {NODES_MAX}")
    if plan.cluster_name and not NAME.fullmatch(plan.cluster_name):
        raise ValueError(f"--cluster {plan.cluster}:{plan.cluster_name}: {NAME_RULE}")
    if plan.cluster_name and not CLUSTERS[plan.cluster].can_stay:
        raise ValueError(f"--cluster {plan.cluster}:{plan.cluster_name}: no cluster of that kind stays")
    external = plan.cluster == "external"
    for field in ("bootstrap", "client_config"):
        if getattr(plan, field) and not external:
            raise ValueError(f"{option_name(field)} goes with --cluster external")
    if (plan.cluster == "ssh") != bool(plan.hosts):
        raise ValueError("--hosts FILE, which describes the hosts, and --cluster ssh go together")
    if external and not plan.bootstrap:
        raise ValueError("--cluster external needs --bootstrap host:port,...")
    for address in plan.bootstrap.split(",") if external else ():
        if not ADDRESS.fullmatch(address.strip()):
            raise ValueError(f"--bootstrap {plan.bootstrap}: write it as host:port, several with commas")
    for field in ("producer_config", "consumer_config"):
        if any(about_connecting(name) for name in getattr(plan, field)):
            raise ValueError(
                f"{option_name(field)}: how to connect, and passwords, go into the file of "
                "--client-config, which no run keeps"
            )


def producer(plan: TestPlan) -> None:
    """What the guarantees of a producer ask of its settings, and times of each other."""
    if plan.txn and plan.acks != "all":
        raise ValueError(f"--txn needs --acks all (it is {plan.acks}): a transaction is idempotent")
    if plan.idempotence and plan.acks != "all":
        raise ValueError(f"--idempotence needs --acks all (it is {plan.acks})")
    if (plan.txn or plan.idempotence) and plan.retries == 0:
        raise ValueError("--retries 0 does not go with --txn or --idempotence, which rest on retries")
    if plan.txn and plan.idempotence is False:
        raise ValueError("--no-idempotence does not go with --txn: a transactional producer is idempotent")
    if plan.min_txn_length > derived.txn_length_max(plan):
        raise ValueError(f"--min-txn-length {plan.min_txn_length} is above --max-txn-length")
    for name in INTEGER_SETTINGS:
        given = plan.producer_config.get(name, "0")
        if not re.fullmatch(r"\d{1,10}", given.strip(), re.ASCII):
            raise ValueError(f"--producer-config {name}={given}: give a whole number")
    _read_by_java(plan)
    if not plan.sub_via:
        raise ValueError("--sub-via needs assign, subscribe, or both")
    if plan.delivery_timeout_s > plan.op_timeout_s:
        raise ValueError(
            f"--delivery-timeout {plan.delivery_timeout_s:g} is above --op-timeout "
            f"{plan.op_timeout_s:g}: a send would outlive its op"
        )


def _read_by_java(plan: TestPlan) -> None:
    """What promises hang on and Kafka's own client refuses, though another library takes it."""
    if "java" not in plan.client:
        return
    acks = plan.producer_config.get("acks", plan.acks)
    if client_acks(acks, "java") is None:
        raise ValueError(f"--producer-config acks={acks}: Kafka's Java client takes {', '.join(JAVA_ACKS)}")
    if client_acks(acks, "java") != "all" and (plan.txn or plan.idempotence):
        raise ValueError(f"--producer-config acks={acks} does not go with --txn or --idempotence, which need all")
    for option, config, name in (
        ("producer", plan.producer_config, "enable.idempotence"),
        ("consumer", plan.consumer_config, "check.crcs"),
    ):
        if name in config and boolean(config[name]) is None:
            raise ValueError(f"--{option}-config {name}={config[name]}: Kafka's Java client takes true or false")


def kinds_of_cluster(plan: TestPlan) -> None:
    """What goes with one kind of cluster only."""
    if plan.cluster != "docker" and (plan.image or plan.system != "kafka"):
        given = f"--image {plan.image}" if plan.image else f"--system {plan.system}"
        raise ValueError(f"{given} goes with --cluster docker")
    if plan.cluster == "docker" and plan.nodes != 3:
        raise ValueError(f"--nodes {plan.nodes}: docker-compose.yml has three, no more and no fewer")
    if plan.cluster == "docker" and versions.KRAFT not in versions.modes(plan.kafka_version):
        raise ValueError(f"--kafka-version {plan.kafka_version}: containers run KRaft (3.3.1 on)")
    if plan.sim_bugs and plan.cluster != "sim":
        raise ValueError("--sim-bugs goes with --cluster sim")
    if plan.keep_data and plan.cluster != "local":
        raise ValueError(f"--keep-data goes with --cluster local: what {plan.cluster} has is out of reach")
    unknown = sorted(set(plan.sim_bugs) - BUGS.keys())
    if unknown:
        raise ValueError(f"--sim-bugs {', '.join(unknown)}: no such bug; there are {', '.join(BUGS)}")
    if not CLUSTERS[plan.cluster].takes_faults and (plan.nemesis or plan.schedule):
        raise ValueError(f"--cluster {plan.cluster} has no processes to break: use --nemesis none, or --sim-bugs")


def copies(plan: TestPlan) -> None:
    """As many copies as nodes, as far as it is known how many there are."""
    known = not (derived.is_attached(plan) or plan.hosts) or "nodes" in plan.model_fields_set
    if "replication" in plan.model_fields_set and plan.replication > plan.nodes and known:
        raise ValueError(f"--replication {plan.replication} needs as many --nodes (it is {plan.nodes})")
    if "min_insync_replicas" in plan.model_fields_set and derived.min_isr(plan) < plan.min_insync_replicas and known:
        raise ValueError(
            f"--min-insync-replicas {plan.min_insync_replicas} is above the replication factor "
            f"{derived.replication_factor(plan)}: no acks=all send could succeed"
        )


def log_dirs(plan: TestPlan) -> None:
    """Directories of brokers that the harness lays out itself."""
    if plan.log_dirs > 1 and plan.cluster != "local":
        raise ValueError(f"--log-dirs {plan.log_dirs} goes with --cluster local")


def scenario(plan: TestPlan) -> None:
    """A scenario and its workload go together, on a cluster whose files can be reached."""
    if plan.scenario and plan.workload != "recovery":
        raise ValueError(f"--scenario {plan.scenario} goes with --workload recovery")
    if plan.workload != "recovery":
        return
    row = SCENARIOS.get(plan.scenario)
    if row is None:
        close = difflib.get_close_matches(plan.scenario, SCENARIOS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"--scenario {plan.scenario or '(none)'}: no such scenario; {hint}see `harness recovery list`")
    if plan.cluster != "local":
        raise ValueError("--workload recovery takes --cluster local: it looks at servers' files, and damages them")
    if plan.nemesis or plan.schedule:
        raise ValueError("--workload recovery has its own faults: leave --nemesis and --schedule out")
    if plan.nodes < row.nodes_min:
        raise ValueError(f"--nodes {plan.nodes}: the scenario {row.name} takes {row.nodes_min} or more")


def log_model(plan: TestPlan) -> None:
    """The log model asks brokers that the run starts, and has its own faults."""
    if plan.tiered and (plan.workload, plan.cluster) != ("log-model", "local"):
        raise ValueError("--tiered goes with --workload log-model and --cluster local")
    if plan.tiered and versions.parse_version(plan.kafka_version) < tiered_storage.SINCE:
        raise ValueError(f"--tiered: Kafka {plan.kafka_version} has no tiered storage; 3.6 and later have")
    if plan.workload != "log-model":
        # By its value: a plan.yaml names every option.
        if plan.steps != type(plan).model_fields["steps"].default or plan.weights:
            raise ValueError("--steps and --weights go with --workload log-model")
        return
    if plan.cluster == "sim":
        raise ValueError("--workload log-model takes brokers: for the simulated log, `harness model run`")
    if derived.is_attached(plan) or plan.system != "kafka":
        raise ValueError(
            "--workload log-model takes Kafka brokers that the run starts, with settings of its own: use "
            "--cluster local or mock"
        )
    if plan.nemesis or plan.schedule:
        raise ValueError("--workload log-model restarts brokers itself: leave --nemesis and --schedule out")
    if plan.log_dirs > 1:
        raise ValueError("--workload log-model looks into one log directory of each broker: leave --log-dirs out")
    try:
        power = parse_weights(plan.weights)["power"]
    except BadInput as error:
        raise ValueError(str(error)) from None
    if power and derived.replication_factor(plan) == 1:
        raise ValueError(
            "--weights power: what a lone replica had not flushed nobody knows; use --replication 2 or more"
        )


RULES: Final = (
    libraries,
    metadata,
    attached,
    producer,
    kinds_of_cluster,
    copies,
    log_dirs,
    scenario,
    log_model,
    pipeline.rule,
)
