"""Rules between the options of a plan. Each rule checks a plan; if the plan breaks the rule, it raises ValueError with
a text that says what to do instead.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from harness.clients.connection import about_connecting
from harness.clients.exec.command import PREFIX
from harness.cluster.distribution import tiered_storage, versions
from harness.cluster.table import CLUSTERS
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import app, compacted, derived, groups, pipeline, share, upgrade
from harness.plan.setting_values import JAVA_ACKS, boolean, client_acks
from harness.plan.test_plan import TestPlan, option_name
from harness.sim.queue.bugs import BUGS
from workloads.log_model.draw_broker_actions import parse_weights
from workloads.recovery.scenarios import SCENARIOS

NODES_MAX: Final = 15
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
NAME_RULE: Final = "a name consists of a-z, 0-9 and -, at most 31 characters"
ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,\[\]]+):\d{1,5}")
LOG_DIRS_SINCE: Final = (3, 7, 0)  # several log directories with KRaft: KIP-858
INTEGER_SETTINGS: Final = ("retries", "max.in.flight.requests.per.connection")  # the guarantees depend on them


def libraries(plan: TestPlan) -> None:
    """Checks the client libraries, and the options that some libraries do not support."""
    if not plan.client:
        raise ValueError("--client: name at least one library")
    if "noop" in plan.client and len(set(plan.client)) > 1:
        raise ValueError("--client noop must be the only library: it sends nothing, so others would miss its records")
    if "aiokafka" in plan.client and plan.retries is not None:
        raise ValueError(
            f"--retries {plan.retries} cannot be combined with --client aiokafka, which cannot limit retries"
        )
    others = [name for name in plan.client if name not in ("confluent", "noop") and not name.startswith(PREFIX)]
    if others and plan.client_config:
        raise ValueError(
            f"--client-config cannot be combined with --client {others[0]}: the file contains librdkafka properties"
        )
    for name in derived.client_versions(plan):
        if name not in plan.client:
            raise ValueError(f"--client-version {plan.client_version}: {name} is not among the libraries of --client")


def metadata(plan: TestPlan) -> None:
    """Checks where the metadata is kept, and which nodes are controllers."""
    if plan.cluster != "local" and (plan.metadata or plan.controllers):
        given = f"--metadata {plan.metadata}" if plan.metadata else f"--controllers {plan.controllers}"
        raise ValueError(f"{given} requires --cluster local")
    if plan.cluster == "local":
        try:
            versions.check(plan.kafka_version, derived.metadata_mode(plan))
        except BadInput as error:
            raise ValueError(str(error)) from None
    if plan.controllers and derived.metadata_mode(plan) == versions.ZOOKEEPER and not upgrade.migrates(plan):
        raise ValueError(
            f"--controllers {plan.controllers} requires KRaft: with ZooKeeper, one of the brokers is the controller"
        )


def attached(plan: TestPlan) -> None:
    """Checks the options for clusters that the run does not start itself."""
    if plan.nodes > NODES_MAX and plan.cluster != "external":
        raise ValueError(f"--nodes {plan.nodes}: at most {NODES_MAX}")
    if plan.cluster_name and not NAME.fullmatch(plan.cluster_name):
        raise ValueError(f"--cluster {plan.cluster}:{plan.cluster_name}: {NAME_RULE}")
    if plan.cluster_name and not CLUSTERS[plan.cluster].can_stay:
        raise ValueError(
            f"--cluster {plan.cluster}:{plan.cluster_name}: a {plan.cluster} cluster cannot be kept; omit the name"
        )
    external = plan.cluster == "external"
    for field in ("bootstrap", "client_config"):
        if getattr(plan, field) and not external:
            raise ValueError(f"{option_name(field)} requires --cluster external")
    if (plan.cluster == "ssh") != bool(plan.hosts):
        raise ValueError("--cluster ssh and --hosts FILE must be given together; the file describes the hosts")
    if external and not plan.bootstrap:
        raise ValueError("--cluster external needs --bootstrap host:port,...")
    for address in plan.bootstrap.split(",") if external else ():
        if not ADDRESS.fullmatch(address.strip()):
            raise ValueError(f"--bootstrap {plan.bootstrap}: write host:port, several separated by commas")
    for field in ("producer_config", "consumer_config"):
        if any(about_connecting(name) for name in getattr(plan, field)):
            raise ValueError(
                f"{option_name(field)}: put connection settings and passwords into the file of --client-config, "
                "which no run stores"
            )


def producer(plan: TestPlan) -> None:
    """Checks the settings that a producer's guarantees need, and that the timeouts are in the right order."""
    if plan.txn and plan.acks != "all":
        raise ValueError(f"--txn needs --acks all (it is {plan.acks}): transactional producers are idempotent")
    if plan.idempotence and plan.acks != "all":
        raise ValueError(f"--idempotence needs --acks all (it is {plan.acks})")
    if (plan.txn or plan.idempotence) and plan.retries == 0:
        raise ValueError("--retries 0 cannot be combined with --txn or --idempotence, which rely on retries")
    if plan.txn and plan.idempotence is False:
        raise ValueError("--no-idempotence cannot be combined with --txn: transactional producers are idempotent")
    if plan.min_txn_length > derived.txn_length_max(plan):
        raise ValueError(f"--min-txn-length {plan.min_txn_length} is above --max-txn-length")
    for name in INTEGER_SETTINGS:
        given = plan.producer_config.get(name, "0")
        if not re.fullmatch(r"\d{1,10}", given.strip(), re.ASCII):
            raise ValueError(f"--producer-config {name}={given}: must be a whole number")
    _read_by_java(plan)
    if plan.reuse_producers and (plan.txn or plan.workload not in ("queue", "delivery")):
        also = "--txn" if plan.txn else f"--workload {plan.workload}"
        raise ValueError(f"--reuse-producers cannot be combined with {also}: there, a new process has a new producer")
    if not plan.sub_via:
        raise ValueError("--sub-via needs assign, subscribe, or both")
    if plan.delivery_timeout_s > plan.op_timeout_s:
        raise ValueError(
            f"--delivery-timeout {plan.delivery_timeout_s:g} is above --op-timeout "
            f"{plan.op_timeout_s:g}: a send would outlive its op"
        )


def _read_by_java(plan: TestPlan) -> None:
    """Refuses values that only Kafka's Java client would reject, in settings that affect guarantees."""
    if "java" not in plan.client:
        return
    acks = plan.producer_config.get("acks", plan.acks)
    if client_acks(acks, "java") is None:
        raise ValueError(f"--producer-config acks={acks}: Kafka's Java client accepts {', '.join(JAVA_ACKS)}")
    if client_acks(acks, "java") != "all" and (plan.txn or plan.idempotence):
        raise ValueError(f"--producer-config acks={acks} cannot be combined with --txn or --idempotence: use acks=all")
    for option, config, name in (
        ("producer", plan.producer_config, "enable.idempotence"),
        ("consumer", plan.consumer_config, "check.crcs"),
    ):
        if name in config and boolean(config[name]) is None:
            raise ValueError(f"--{option}-config {name}={config[name]}: Kafka's Java client accepts only true or false")


def kinds_of_cluster(plan: TestPlan) -> None:
    """Checks options that only one kind of cluster supports."""
    if plan.cluster != "docker" and (plan.image or plan.system != "kafka"):
        given = f"--image {plan.image}" if plan.image else f"--system {plan.system}"
        raise ValueError(f"{given} requires --cluster docker")
    if plan.cluster == "docker" and plan.nodes != 3:
        raise ValueError(f"--nodes {plan.nodes}: the cluster of docker-compose.yml has exactly three nodes")
    if plan.cluster == "docker" and versions.KRAFT not in versions.modes(plan.kafka_version):
        raise ValueError(f"--kafka-version {plan.kafka_version}: containers need KRaft, so Kafka 3.3.1 or later")
    if plan.sim_bugs and plan.cluster != "sim":
        raise ValueError("--sim-bugs requires --cluster sim")
    if plan.keep_data and plan.cluster != "local":
        raise ValueError(f"--keep-data requires --cluster local: the disks of a {plan.cluster} cluster cannot be read")
    unknown = sorted(set(plan.sim_bugs) - BUGS.keys())
    if unknown:
        raise ValueError(f"--sim-bugs {', '.join(unknown)}: no such bug; choose from {', '.join(BUGS)}")
    if not CLUSTERS[plan.cluster].takes_faults and (plan.nemesis or plan.schedule):
        raise ValueError(
            f"--cluster {plan.cluster} has no processes to inject faults into: use --nemesis none, or --sim-bugs"
        )


def copies(plan: TestPlan) -> None:
    """Checks that min.insync.replicas <= replication factor <= number of nodes.

    Checks nothing if the number of nodes is not known.
    """
    known = not (derived.is_attached(plan) or plan.hosts) or "nodes" in plan.model_fields_set
    if "replication" in plan.model_fields_set and plan.replication > plan.nodes and known:
        raise ValueError(
            f"--replication {plan.replication} needs at least {plan.replication} nodes, but --nodes is {plan.nodes}"
        )
    if "min_insync_replicas" in plan.model_fields_set and derived.min_isr(plan) < plan.min_insync_replicas and known:
        raise ValueError(
            f"--min-insync-replicas {plan.min_insync_replicas} is above the replication factor "
            f"{derived.replication_factor(plan)}: no acks=all send could succeed"
        )


def log_dirs(plan: TestPlan) -> None:
    """Checks that the brokers can have several log directories, and that the harness creates their folders."""
    if plan.log_dirs == 1:
        return
    if plan.cluster != "local":
        raise ValueError(f"--log-dirs {plan.log_dirs} requires --cluster local")
    if derived.metadata_mode(plan) == versions.KRAFT and versions.parse_version(plan.kafka_version) < LOG_DIRS_SINCE:
        raise ValueError(
            f"--log-dirs {plan.log_dirs}: Kafka {plan.kafka_version} supports only one log directory per broker with "
            "KRaft; use 3.7 or later, or --metadata zookeeper"
        )


def racks(plan: TestPlan) -> None:
    """Checks that racks are used only where the harness configures the brokers, and where consumers know racks."""
    if not plan.racks:
        return
    if plan.cluster != "local":
        raise ValueError(f"--racks {plan.racks} requires --cluster local")
    if plan.racks > plan.nodes:
        raise ValueError(f"--racks {plan.racks} needs at least {plan.racks} nodes, but --nodes is {plan.nodes}")
    if without := [name for name in plan.client if name not in ("confluent", "java")]:
        raise ValueError(f"--racks: --client {without[0]} cannot fetch from followers; use confluent or java")


def scenario(plan: TestPlan) -> None:
    """Checks that the recovery workload has a scenario, and a cluster whose files are accessible."""
    if plan.scenario and plan.workload != "recovery":
        raise ValueError(f"--scenario {plan.scenario} requires --workload recovery")
    if plan.workload != "recovery":
        return
    row = SCENARIOS.get(plan.scenario)
    if row is None:
        close = difflib.get_close_matches(plan.scenario, SCENARIOS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"--scenario {plan.scenario or '(none)'}: no such scenario; {hint}see `harness recovery list`")
    if plan.cluster != "local":
        raise ValueError("--workload recovery requires --cluster local: it reads and damages the servers' files")
    if plan.nemesis or plan.schedule:
        raise ValueError("--workload recovery injects its own faults: omit --nemesis and --schedule")
    if plan.nodes < row.nodes_min:
        raise ValueError(f"--nodes {plan.nodes}: the scenario {row.name} needs {row.nodes_min} or more")
    if row.before and versions.parse_version(plan.kafka_version) >= versions.parse_version(row.before):
        raise ValueError(
            f"--kafka-version {plan.kafka_version}: the scenario {row.name} shows what changed in {row.before}; use an "
            "earlier version"
        )


def log_model(plan: TestPlan) -> None:
    """Checks the options of --workload log-model, and options that only this workload supports.

    The workload needs brokers that the run starts. It excludes faults, because it restarts brokers itself.
    """
    if plan.tiered and (plan.workload, plan.cluster) != ("log-model", "local"):
        raise ValueError("--tiered requires --workload log-model and --cluster local")
    if plan.tiered and versions.parse_version(plan.kafka_version) < tiered_storage.SINCE:
        raise ValueError(f"--tiered: Kafka {plan.kafka_version} has no tiered storage; use 3.6 or later")
    if plan.workload != "log-model":
        # Compared with the default, as a plan.yaml names every option.
        if plan.steps != type(plan).model_fields["steps"].default or plan.weights:
            raise ValueError("--steps and --weights require --workload log-model")
        return
    if plan.cluster == "sim":
        raise ValueError("--workload log-model needs brokers; for the simulated log use `harness model run`")
    if derived.is_attached(plan) or plan.system != "kafka":
        raise ValueError(
            "--workload log-model needs Kafka brokers that the run starts with its own settings: use "
            "--cluster local or mock"
        )
    if plan.nemesis or plan.schedule:
        raise ValueError("--workload log-model restarts brokers itself: omit --nemesis and --schedule")
    if plan.log_dirs > 1:
        raise ValueError("--workload log-model reads only one log directory per broker: omit --log-dirs")
    try:
        power = parse_weights(plan.weights)["power"]
    except BadInput as error:
        raise ValueError(str(error)) from None
    if power and derived.replication_factor(plan) == 1:
        raise ValueError(
            "--weights power: with one replica it is unknown what a power loss may take; use --replication 2 or more"
        )


RULES: Final = (
    libraries,
    metadata,
    attached,
    producer,
    kinds_of_cluster,
    copies,
    log_dirs,
    racks,
    scenario,
    log_model,
    pipeline.rule,
    groups.rule,
    app.rule,
    share.rule,
    upgrade.rule,
    compacted.rule,
)
