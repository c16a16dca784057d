"""The composition root: from a plan to a judged run. Only this module and `cli` know all packages."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from harness import client_versions, existing, loads, store, timetable
from harness import plan as plans
from harness.clients.settings import settings as client_settings
from harness.cluster import java, owners
from harness.cluster.refusals import reasons
from harness.crew import AdminLink, Crew
from harness.generator import Barrier, Clients, Rate, Then, TimeLimit, any_
from harness.interpreter import Interpreter, Limits, fault_of
from harness.live import Live
from harness.model.draw import Draw
from harness.model.errors import BadInput, HarnessError, Missing
from harness.model.op import NEMESIS, Op
from harness.model.options import CheckOptions
from harness.model.protocols import (
    Clocks,
    Cluster,
    Disks,
    Env,
    Fault,
    Generator,
    Hosts,
    Logs,
    Network,
    Roles,
    SlowDisks,
    Wire,
    Workload,
)
from harness.model.result import Result, to_data
from harness.plan import TestPlan
from harness.provenance import git_commit, versions
from harness.roles import AdminRoles, Topics, Viewed, ViewRoles
from harness.rolling import Roller
from harness.spark import WarmSpark
from harness.yaml_data import Where
from nemesis import table as nemeses
from nemesis import triggers
from nemesis.schedule import Timing

Say = Callable[[str], None]
log = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that ended: its folder, the verdict, and whether the user interrupted it."""

    folder: Path
    result: Result
    interrupted: bool


# --- parts of a plan ----------------------------------------------------------------------------------


def make_cluster(plan: TestPlan, work: Path, say: Say, needed: frozenset[type] = frozenset()) -> Cluster:
    """The cluster that a plan names, with what faults need; nothing is started. Raises Missing."""
    if plan.cluster_name:
        from harness.cluster import named

        return named.attach(plan.cluster_name, plan.cluster, plan.run)
    if plan.cluster == "mock":
        from harness.cluster.mock import MockCluster

        return MockCluster(plan.nodes, work)
    if plan.cluster == "sim":
        from harness.cluster.sim import SimCluster

        return SimCluster(work)
    if plan.cluster == "docker":
        return _docker_cluster(plan, work)
    if plan.cluster == "ssh":
        return _ssh_cluster(plan, work, needed)
    if plan.cluster == "external":
        return _external_cluster(plan, work)
    from harness.cluster import local, room

    room.require(len(server_names(plan)), work)
    config = {"min.insync.replicas": str(plan.min_isr), **plan.broker_config}
    return local.make(
        plan.nodes, plan.kafka_version, config, work, plan.network,
        outside=plan.outside, notice=say, disks=bool(needed & {Disks, SlowDisks}), clocks=Clocks in needed,
        metadata=plan.metadata_kept, controllers=plan.controllers, proxy=_proxied(plan, needed),
    )  # fmt: skip


# What a cluster has only if it was started with it.
AT_START: Final = frozenset({Disks, SlowDisks, Clocks, Wire})


def prepared(plan: TestPlan) -> frozenset[type]:
    """What the faults of a plan need of a cluster, and its options give."""
    names = nemeses.canonical(",".join(plan.nemesis), server_names(plan))
    needed = nemeses.needed(nemeses.faults(names, Timing()))
    return needed | {Wire} if _proxied(plan, needed) != "nobody" else needed


def _proxied(plan: TestPlan, needed: frozenset[type]) -> Literal["nobody", "clients", "everybody"]:
    """Whose requests are to pass a wire proxy."""
    if plan.proxy != "auto":
        return plan.proxy
    return "clients" if Wire in needed else "nobody"


def server_names(plan: TestPlan) -> list[str]:
    """The servers that a plan's faults may name."""
    from harness.cluster import layout

    brokers = [f"n{n + 1}" for n in range(plan.nodes)]
    if plan.cluster == "ssh":
        from harness.cluster import ssh_hosts

        return [host.name for host in ssh_hosts.load(Path(plan.hosts))]
    if plan.cluster != "local":
        return brokers
    return brokers + layout.beside(plan.nodes, plan.controllers, plan.metadata_kept)


def _docker_cluster(plan: TestPlan, work: Path) -> Cluster:
    from harness.cluster import docker_cluster, docker_redpanda_cluster

    if plan.system == "redpanda":
        return docker_redpanda_cluster.make(plan.image, plan.run, work, plan.broker_config)
    config = {"min.insync.replicas": str(plan.min_isr), **plan.broker_config}
    return docker_cluster.make(plan.image, plan.kafka_version, plan.run, work, config)


def _ssh_cluster(plan: TestPlan, work: Path, needed: frozenset[type]) -> Cluster:
    from harness.cluster import ssh_cluster, ssh_hosts

    config = {"min.insync.replicas": str(plan.min_isr), **plan.broker_config}
    hosts = ssh_hosts.load(Path(plan.hosts))
    return ssh_cluster.SshCluster(plan.run, hosts, plan.kafka_version, config, work, Network in needed)


def _external_cluster(plan: TestPlan, work: Path) -> Cluster:
    from harness.cluster import external

    connection = existing.connecting(plan)
    brokers = external.find(plan.bootstrap, connection).brokers
    cluster = external.ExternalCluster(plan.bootstrap, connection, brokers, work)
    config = existing.topic_config(plan)
    cluster.may_make(f"{plan.run}-0", plan.partitions_per_topic, plan.replication_factor, config)
    return cluster


def refusals(plan: TestPlan, needed: frozenset[type]) -> dict[type, str]:
    """What the plan's cluster could do and this machine does not let it do: the reasons, empty for none."""
    refused = reasons(needed)
    if plan.cluster_name:
        lacking = (needed & AT_START) - prepared(existing.plan_of(plan.cluster_name))
        again = f"harness cluster down {plan.cluster_name}, then up with --nemesis and these faults"
        refused |= dict.fromkeys(lacking, f"the cluster {plan.cluster_name} was started without: {again}")
    if plan.cluster == "docker" and Network in needed:
        from harness.cluster import docker_net

        refused[Network] = docker_net.why_not()
    return refused


def cannot(plan: TestPlan) -> str:
    """How a refusal describes the cluster."""
    if plan.cluster == "external":
        return (
            "a cluster that others run does not offer: only clients can be broken there "
            "(kill:client, pause:client); use --cluster local"
        )
    if plan.cluster == "docker":
        return "containers do not offer; use --cluster local"
    if plan.cluster == "ssh":
        return "brokers on other hosts do not offer; use --cluster local"
    if plan.cluster == "sim":
        return "a simulated log does not have; use --cluster local"
    if plan.cluster == "mock":
        return "librdkafka's mock cluster does not offer; use --cluster local"
    return (
        "this machine's namespaces would give, and they are refused or switched off; "
        "`harness doctor` says why and what to do"
    )


def client_config(plan: TestPlan, bootstrap: str) -> dict[str, Any]:
    """Plain data for the clients in the workers."""
    # librdkafka's mock cluster gives transaction markers no valid checksum, where a consumer would stop.
    quirks = {"check.crcs": "false"} if plan.cluster == "mock" else {}
    return {
        "library": plan.library,
        **({"java": client_versions.java_client(plan, log.info)} if plan.library == "java" else {}),
        "seed": plan.seed,
        "sim": {"bugs": list(plan.sim_bugs)},
        "bootstrap": bootstrap,
        "connection": existing.connecting(plan),
        "run": plan.run,
        "concurrency": plan.concurrency,
        "partitions_per_topic": plan.partitions_per_topic,
        "acks": plan.acks,
        "retries": plan.retries,
        "idempotence": plan.idempotent,
        "txn": plan.txn,
        "isolation_level": plan.isolation_level,
        "auto_offset_reset": plan.auto_offset_reset,
        "auto_commit": plan.auto_commit,
        "logical_offsets": plan.logical_offsets,
        "delivery_timeout_s": plan.delivery_timeout_s,
        "request_timeout_s": plan.request_timeout_s,
        "op_timeout_s": plan.op_timeout_s,
        "poll_ms": plan.poll_ms,
        "record_size": plan.record_bytes,
        "pipelined": plan.pipelined,
        "rewind": plan.rewind,
        "producer_config": plan.producer_config,
        "consumer_config": {**quirks, **plan.consumer_config},
    }


def load_phase(plan: TestPlan, workload: Workload, faults: tuple[Fault, ...]) -> Generator:
    """Ops at the plan's rate beside the faults, until the time limit."""
    ops = workload.generator
    if plan.rate_hz > 0:
        ops = Rate(ops, int(1e9 / plan.rate_hz))
    under_load = nemeses.under_load(faults, timetable.entries(plan.schedule))
    parts = [Clients(ops)] if under_load is None else [under_load, Clients(ops)]
    return TimeLimit(any_(*parts), int(plan.time_limit_s * 1e9))


def whole_run(plan: TestPlan, workload: Workload, faults: tuple[Fault, ...]) -> Generator:
    """Load with faults, heal, final polls."""
    parts = [load_phase(plan, workload, faults), Barrier(nemeses.healing(faults))]
    if workload.final is not None:
        finished = nemeses.mark(nemeses.FINAL_POLLS_COMPLETE)
        polls = Then((Clients(workload.final), finished))
        parts.append(Barrier(TimeLimit(polls, int(plan.final_time_limit_s * 1e9))))
    return Then(tuple(parts))


# --- the run ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Ctrl-C once: `on_first`, and the run goes on to heal and check. Twice: KeyboardInterrupt."""
    pressed = [0]

    def handler(number: int, frame: Any) -> None:
        pressed[0] += 1
        if pressed[0] > 1:
            raise KeyboardInterrupt
        on_first()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: pressed[0] > 0
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


def attach_log(folder: Path) -> logging.Handler:
    """harness.log in the run folder."""
    handler = logging.FileHandler(folder / "harness.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    return handler


def run(
    plan: TestPlan,
    runs: Path,
    say: Say,
    spark_master: str = "local[*]",
    quiet: bool = False,
    where: Where | None = None,
) -> Outcome:
    """Carry out a plan and judge what happened. Raises HarnessError. `where`: see `timetable.checked`."""
    plan = existing.settled(plan)
    names = nemeses.canonical(",".join(plan.nemesis), server_names(plan))
    schedule = timetable.checked(plan, server_names(plan), names, where)
    plan = plan.model_copy(update={"nemesis": names, "schedule": schedule})
    timing = Timing(plan.nemesis_first_s, plan.nemesis_interval_s)
    faults = nemeses.faults((*names, *plan.scheduled), timing)
    nemeses.refuse_unsubscribed(faults, plan.sub_via)
    spark = WarmSpark(spark_master)
    java.find()
    told = [*(name.replace(":", "-") for name in names), *(["schedule"] if schedule else [])]
    name = "-".join(told) or plan.workload
    folder = store.new_run(runs, existing.run_name(plan, name))
    handler = attach_log(folder)
    (folder / store.OWNER).write_text(owners.owner(os.getpid()))
    try:
        plan = plan.model_copy(
            update={
                "run": folder.name,
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "versions": versions(plan),
                "git_commit": git_commit(),
            }
        )
        (folder / "plan.yaml").write_text(plans.dump(plan))
        say(f"run {folder}")
        return _run_in(folder, plan, faults, say, spark, quiet)
    except (BadInput, Missing):
        store.discard_unused(folder)
        raise
    finally:
        (folder / store.OWNER).unlink(missing_ok=True)
        log.removeHandler(handler)
        handler.close()


def _run_in(
    folder: Path, plan: TestPlan, faults: tuple[Fault, ...], say: Say, spark: WarmSpark, quiet: bool
) -> Outcome:
    needed = nemeses.needed(faults)
    cluster = make_cluster(plan, folder / "cluster", say, needed)
    nemeses.refuse_unsupported(faults, cluster, cannot(plan), refusals(plan, needed))
    triggers.refuse_unsupported(timetable.entries(plan.schedule), cluster, cannot(plan))
    client_versions.fetch(plan, say)
    interrupted = False
    with contextlib.ExitStack() as stack:
        stack.callback(_put_away, folder, cluster)
        cluster.up(say)
        store.point_latest(folder)
        if plan.outside:
            reached = getattr(cluster, "outside_bootstrap", cluster.bootstrap)
            say(f"your own tools reach the brokers at {reached}")
        interrupted = _record(folder, plan, faults, cluster, spark, stack, say, quiet)
        began = time.monotonic()
        result = check_run(folder, judged_by(plan), spark.get(), say)
        log.info("verdict %s after %.1f s", result.valid, time.monotonic() - began)
        _tell(folder, result, say, time.monotonic() - began)
        try:
            draw(folder, say)
        except Exception as error:  # the verdict stands, whatever becomes of its pictures
            log.exception("the plots were not drawn")
            say(f"the plots were not drawn ({type(error).__name__}: {error}); see {folder / 'harness.log'}")
    return Outcome(folder, result, interrupted)


def _staff(
    folder: Path, plan: TestPlan, cluster: Cluster, stack: contextlib.ExitStack, say: Say
) -> tuple[Crew, Topics, Roles, AdminLink]:
    """Start the admin worker and the clients, make the first topics. Raises BadInput for client settings."""
    assert isinstance(cluster, Hosts)
    config = client_config(plan, cluster.bootstrap)
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    # The harness's own requests go to the brokers directly.
    direct = getattr(cluster, "direct_bootstrap", cluster.bootstrap)
    admin = AdminLink(cluster, {**config, "bootstrap": direct}, folder / "logs", env)
    stack.callback(admin.stop)
    stack.callback(existing.remove_topics, plan, cluster, admin.call, say)
    problem = admin.call("problem", 30.0)
    if problem:
        raise BadInput(str(problem))
    ours = {**env, **client_versions.worker_env(plan, say)}
    crew = Crew(cluster, config, plan.concurrency, plan.clients_per_worker, folder / "logs", ours)
    stack.callback(crew.stop)
    config_of_topics = existing.topic_config(plan)
    topics = Topics(
        admin.call, plan.run, plan.partitions_per_topic, plan.replication_factor, config_of_topics
    )
    topics.ensure(plan.key_count - 1)
    existing.check_allowed(plan, admin.call)
    existing.remove_left(cluster, admin.call)
    crew.start()
    if isinstance(cluster, Viewed):
        group = client_settings(config).group_id
        roles = ViewRoles(cluster, plan.run, group, plan.concurrency, plan.replication_factor)
        return crew, topics, roles, admin
    brokers = getattr(cluster, "brokers", None) or dict(enumerate(cluster.nodes, start=1))
    return crew, topics, AdminRoles(admin.call, plan.run, brokers, plan.replication_factor), admin


def _record(
    folder: Path,
    plan: TestPlan,
    faults: tuple[Fault, ...],
    cluster: Cluster,
    spark: WarmSpark,
    stack: contextlib.ExitStack,
    say: Say,
    quiet: bool,
) -> bool:
    """Run the load and the final polls, and write the history. Whether the user interrupted it."""
    spark.start()
    crew, topics, roles, admin = _staff(folder, plan, cluster, stack, say)
    spark.get()
    live = Live(plan.time_limit_s, quiet)
    zero_ns = time.monotonic_ns()
    events = store.Events(folder, zero_ns)
    events.write("phase", "load")

    counts: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def env(fault: str = "") -> Env:
        # Counted by fault: which of two comes first must not move what they draw.
        draw = Draw.of(plan.seed, f"nemesis {fault}", next(counts[fault]))
        return Env(cluster, roles, crew, draw, admin.call)

    def invoke(op: Op) -> Op:
        return nemeses.invoke(faults, env(fault_of(op)), op)

    def listen(op: Op) -> None:
        live.event(op)
        if op.process == NEMESIS:
            log.info("nemesis %s %s", op.f, json.dumps(op.value, default=str))
            if op.f == "heal" and op.extra.get("phase") == "invoke":
                spark.start()
            elif op.f == "heal" and op.error:
                events.write("trouble", f"the cluster did not heal: {op.error}")
            elif op.f == nemeses.FINAL_POLLS_COMPLETE and op.extra.get("phase") == "complete":
                events.write("phase", "final polls complete")

    with (
        Roller(folder / "tables") as roller,
        store.HistoryLog(folder / "history", plan.run, zero_ns, on_roll=roller.add) as history,
    ):
        interpreter = Interpreter(
            crew, invoke, history.append,
            concurrency=plan.concurrency, seed=plan.seed, zero_ns=zero_ns,
            limits=Limits(plan.op_timeout_s + 2.0), before=topics.before, listener=listen,
        )  # fmt: skip

        watch = triggers.Watch(timetable.entries(plan.schedule), cluster, roles, interpreter.notice)

        def interrupted() -> None:
            events.write("interrupted", "by the user")
            interpreter.divert(nemeses.healing(faults))

        with interruptible(interrupted) as pressed:
            try:
                watch.start()
                interpreter.run(whole_run(plan, loads.make(plan), faults))
            except HarnessError as error:
                events.write("trouble", str(error))
                log.error("the run was cut short: %s", error)
            finally:
                watch.stop()
                nemeses.teardown(faults, env())
            live.end()
            return pressed()


def _put_away(folder: Path, cluster: Cluster) -> None:
    """Collect the logs, then remove the cluster."""
    if isinstance(cluster, Logs):
        try:
            cluster.collect(str(folder / "logs"))
        except OSError as error:
            log.warning("server logs were not collected: %s", error)
    cluster.down()


# --- after the run ------------------------------------------------------------------------------------


def check_run(path: Path, options: CheckOptions, session: Any, say: Say, stored: bool = True) -> Result:
    """Judge a stored run and write its results.json; or judge a history file and write nothing beside it."""
    from checker import check

    result = check.check(session, path, options, say)
    if stored:
        store.write_json(path / "results.json", to_data(result))
    return result


def _tell(folder: Path, result: Result, say: Say, seconds: float) -> None:
    from harness.report import prose

    say("")
    say(prose.summary(folder, result))
    say(f"checked in {seconds:.1f} s")


def draw(folder: Path, say: Say) -> list[Path]:
    """Draw the plots, and the pages of the keys in which something is wrong, and name them."""
    from harness.report import listing, plots
    from harness.report.order import draw as orders

    drawn = plots.draw(folder)
    for path in drawn:
        if path.suffix == ".png":
            say(f"  {path}")
    result = listing.result_of(folder)
    pages = orders.draw(folder, result) if result is not None else []
    if pages:
        say(f"  {pages[0]}: who wrote and who polled in {len(pages) - 1} keys; harness explain {folder}")
    return [*drawn, *pages]


def judged_by(plan: TestPlan) -> CheckOptions:
    """What the checker is told of a plan: its settings, less what its faults make of them, and the checks of
    its workload."""
    options = plan.check_options()
    settings = nemeses.weakened(options.settings, options.expected_faults)
    return replace(options, checks=loads.make(plan).checks, settings=settings)


def options_of(folder: Path, **changes: Any) -> CheckOptions:
    """The check options of a stored run, from its plan, with the user's changes."""
    path = folder / "plan.yaml"
    options = judged_by(plans.load(path)) if path.exists() else CheckOptions()
    return replace(options, **changes)
