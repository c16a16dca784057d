"""Runs the log model against real brokers: carries out random actions, and looks for divergences from the model.

One client executes one action after another, and the outcome of each action decides whether another action follows.
Therefore these runs do not use the interpreter, but they write the same files as other runs. In the history an action
is an op; restarts and elections are nemesis ops. Divergences are written to events/harness.jsonl, which the check
`log-model` reads. For each divergence, the shortest program found that shows it is written into programs/, for
`harness model replay`.

After a divergence the search continues in a fresh topic, and ignores the divergences found so far.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import history_writer
from harness.cluster.distribution.versions import parse_version
from harness.model import op_json
from harness.model.capabilities import Cluster, Hosts, Network, Processes, offers
from harness.model.errors_and_exit_codes import HarnessError
from harness.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op
from harness.plan import derived
from harness.plan.test_plan import TestPlan
from harness.run import start_workers
from harness.run.log_model_brokers import BrokerLog
from harness.run.progress_display import Live
from harness.run.worker_pool import AdminLink
from harness.sim.log_model.action_types import Action
from harness.sim.log_model.actions_as_text import program
from harness.sim.log_model.records import LogSettings
from workloads.log_model.against_brokers import BrokerSession
from workloads.log_model.against_brokers import run as run_comparison
from workloads.log_model.draw_actions import Topic
from workloads.log_model.draw_broker_actions import BROKERS, KINDS, MOCK, TIERED_KINDS, Target, parse_weights, topics
from workloads.log_model.session import Divergence
from workloads.log_model.shrink import shrink

DIVERGENCES_MAX: Final = 8
SHRINK_S: Final = 60.0  # for each divergence
NEMESIS_FS: Final = frozenset({"restart", "elect", "hold", "advance"})
_SPANS: Final = {"hold": "start", "advance": "stop"}
PROGRAMS: Final = "programs"
WORKLOAD: Final = "log-model"
log = logging.getLogger("harness")


def brokers_of(plan: TestPlan, cluster: Cluster, logs: Path, stack: contextlib.ExitStack) -> BrokerLog:
    """Returns an object that applies actions of the log model to topics on the cluster. Raises ClusterTrouble.

    It uses two worker processes, which end when `stack` is closed.
    """
    assert isinstance(cluster, Hosts)
    config = start_workers.client_config(plan, cluster.bootstrap)
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    requests, admin = (AdminLink(cluster, config, logs, env, role) for role in ("log", "admin"))
    stack.callback(requests.stop)
    stack.callback(admin.stop)
    version = "" if plan.cluster == "mock" else plan.kafka_version
    return BrokerLog(cluster, requests.call, admin.call, plan.run, version, derived.replication_factor(plan))


def target(plan: TestPlan, cluster: Cluster) -> Target:
    """Returns a description of the cluster as the log under test, with the actions that it supports."""
    if plan.cluster == "mock":
        return MOCK
    lacking = set() if offers(cluster, Processes) else {"restart", "power"}
    lacking |= set() if offers(cluster, Network) and plan.controllers else {"hold"}
    if parse_version(plan.kafka_version) < (3, 6, 0):
        lacking |= {"zombie"}  # before KIP-890, partitions not yet written to with the new epoch accept it
    # With one replica it is unknown which records a power loss takes.
    lacking |= {"elect", "hold", "power"} if derived.replication_factor(plan) == 1 else set()
    alone = derived.replication_factor(plan) == 1
    kinds = TIERED_KINDS if plan.tiered else KINDS
    old = parse_version(plan.kafka_version) < (4, 0, 0)  # KIP-896
    return dataclasses.replace(BROKERS, actions=BROKERS.actions - lacking, kinds=kinds, alone=alone, old=old)


@dataclass(slots=True)
class Recorder:
    """Writes ops to the history as they happen."""

    append: Callable[[bytes], None]
    live: Live
    zero_ns: int
    index: int = 0

    def write(self, op: Op) -> None:
        stamped = op.with_(index=self.index, time_ns=time.monotonic_ns() - self.zero_ns)
        self.index += 1
        self.append(op_json.encode(stamped))
        self.live.event(stamped)

    def begin(self, action: Action) -> Op:
        """Writes the invocation of an action, and returns it.

        For an action that is a fault, the invocation is a nemesis op.
        """
        args = dict(action.args)
        op = Op(-1, -1, 0, INVOKE, f"log-{action.f}", args)
        if action.f in NEMESIS_FS:
            name = {"restart": "{how}:{who}", "elect": "elect:leader"}.get(action.f, "hold:followers")
            fault = name.format(how=args.get("how"), who=args.get("who", "leader"))
            extra = {"fault": fault, "span": _SPANS.get(action.f, ""), "phase": "invoke"}
            op = Op(-1, -1, NEMESIS, INFO, action.f, args, None, extra)
        self.write(op)
        return op

    def fail(self, op: Op, error: str) -> None:
        """Records that the outcome of an action is unknown."""
        extra = {**op.extra, "phase": "complete"} if op.process == NEMESIS else op.extra
        value = {"took_effect": False} if op.process == NEMESIS else op.value
        self.write(op.with_(type=INFO, value=value, error=error, extra=extra))

    def end(self, op: Op, comparison: BrokerSession, effect: dict[str, Any]) -> None:
        """Records the outcome of an action. In the recorded arguments, offsets replace relative positions."""
        if op.process == NEMESIS:
            self.write(op.with_(value=effect, extra={**op.extra, "phase": "complete"}))
            return
        done, got = comparison.done, comparison.got
        value = {"args": dict(done.args) if done is not None else {}, "value": got.value}
        self.write(op.with_(type=FAIL if got.error else OK, value=value, error=got.error or None))


class Search:
    """Carries out actions, topic by topic, and collects the divergences.

    found     kind of divergence -> the divergence
    steps     number of actions carried out
    left_out  number of actions skipped
    """

    def __init__(
        self,
        folder: Path,
        plan: TestPlan,
        brokers: BrokerLog,
        target: Target,
        events: history_writer.Events,
        say: Callable[[str], None],
    ) -> None:
        self._folder, self._plan, self._brokers, self._target = folder, plan, brokers, target
        self._events, self._say = events, say
        self.found: dict[str, Divergence] = {}
        self.steps = self.left_out = 0

    def topic(self, topic: Topic, recorder: Recorder, ended: Callable[[], bool]) -> None:
        """Carries out the actions of `topic`. After a divergence, the remaining ones are carried out in a fresh topic.

        Raises HarnessError.
        """
        passed_over = frozenset(self.found)
        comparison = self._comparison(topic.settings, passed_over)
        done: list[Action] = []  # in the current topic
        for action in topic.actions:
            if ended() or len(self.found) >= DIVERGENCES_MAX:
                return
            if comparison.skips(action):
                self.left_out += 1
                continue
            op = recorder.begin(action)
            try:
                divergence = comparison.step(action)
            except HarnessError as error:
                recorder.fail(op, str(error))
                raise
            recorder.end(op, comparison, self._brokers.effect)
            self.steps += 1
            done.append(action)
            if divergence is not None:
                self._record_divergence(Topic(topic.settings, tuple(done)), divergence, passed_over)
                passed_over, done = frozenset(self.found), []
                comparison = self._comparison(topic.settings, passed_over)

    def _comparison(self, settings: LogSettings, passed_over: frozenset[str]) -> BrokerSession:
        brokers = self._brokers.open(settings)
        return BrokerSession(settings, brokers, self._target, passed_over)

    def _again(
        self, settings: LogSettings, actions: Sequence[Action], passed_over: frozenset[str]
    ) -> Divergence | None:
        patient = dataclasses.replace(self._target, deadline_s=self._target.again_s)
        return run_comparison(settings, actions, self._brokers.open(settings), passed_over, patient)

    def _record_divergence(self, topic: Topic, divergence: Divergence, passed_over: frozenset[str]) -> None:
        """Records the divergence that the topic's last action showed, and looks for a shorter program that shows it.

        `passed_over`: the kinds of divergence already found, which were ignored.
        """
        self.found[divergence.what] = divergence
        self._say(
            f"divergence at step {self.steps}: {divergence.what}: {divergence.seen}; looking for a shorter program"
        )
        actions: Sequence[Action] = topic.actions
        settings, deadline, outcome = topic.settings, time.monotonic() + SHRINK_S, "not reproduced in a replay"

        def replay(settings: LogSettings, actions: Sequence[Action]) -> Divergence | None:
            if time.monotonic() > deadline:
                return None
            try:
                return self._again(settings, actions, passed_over)
            except HarnessError as error:
                log.warning("a replay failed: %s", error)
                return None

        shrunk = shrink(replay, settings, actions)
        if shrunk is not None and shrunk.found.what == divergence.what:
            settings, actions, divergence = shrunk.settings, shrunk.actions, shrunk.found
            outcome = f"shrunk in {shrunk.replays} replays"
        lines = [f"# seed {self._plan.seed}, step {self.steps}: {divergence.what}", f"# {divergence.seen}"]
        lines += [f"# {outcome}", *(f"# passed over: {what}" for what in sorted(passed_over))]
        text = "\n".join([*lines, program(settings, actions)])
        path = self._folder / PROGRAMS / f"{len(self.found)}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self._events.write(
            "divergence",
            divergence.what,
            seen=divergence.seen,
            step=self.steps,
            actions=len(actions),
            program=f"{PROGRAMS}/{path.name}",
            said=outcome,
        )
        self._say(f"\n{text}")


def record(
    folder: Path,
    plan: TestPlan,
    cluster: Cluster,
    stack: contextlib.ExitStack,
    say: Callable[[str], None],
    quiet: bool,
    interrupted: Callable[[], bool],
) -> None:
    """Runs the plan's steps, and writes the history, the events and the programs."""
    brokers = brokers_of(plan, cluster, folder / "logs", stack)
    zero_ns = time.monotonic_ns()
    live = Live(plan.time_limit_s, zero_ns, folder.name)
    events = history_writer.Events(folder, zero_ns)
    events.write("phase", "load")
    possible = target(plan, cluster)
    search = Search(folder, plan, brokers, possible, events, say)

    def ended() -> bool:
        return interrupted() or time.monotonic_ns() - zero_ns > plan.time_limit_s * 1e9

    drawn = topics(plan.seed, plan.steps, possible, parse_weights(plan.weights))
    with history_writer.HistoryLog(folder / "history", plan.run, zero_ns) as history, live.showing(quiet):
        recorder = Recorder(history.append, live, zero_ns)
        try:
            for topic in drawn:
                if ended() or len(search.found) >= DIVERGENCES_MAX:
                    break
                search.topic(topic, recorder, ended)
        except HarnessError as error:
            events.write("trouble", str(error))
            log.error("the run was cut short: %s", error)
    if interrupted():
        events.write("interrupted", "by the user")
    seconds = (time.monotonic_ns() - zero_ns) / 1e9
    done = search.steps + search.left_out
    detail = f"{done} of {plan.steps}, {search.left_out} of them skipped"
    tier = {"copied": len(brokers.copied)} if plan.tiered else {}
    events.write("steps", detail, done=done, left_out=search.left_out, asked=plan.steps, seconds=seconds, **tier)
    copied = f", {len(brokers.copied)} segments copied to the remote tier" if plan.tiered else ""
    say(f"steps: {detail}, in {seconds:.0f} s{copied}")


def replay(
    plan: TestPlan,
    cluster: Cluster,
    settings: LogSettings,
    actions: Sequence[Action],
    passed_over: frozenset[str],
    logs: Path,
    say: Callable[[str], None],
) -> Divergence | None:
    """Starts the cluster, runs a program and stops the cluster.

    Returns the first divergence, or None if there is none. Ignores the kinds of divergence in `passed_over`. Raises
    HarnessError.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.down)
        cluster.up(say)
        brokers = brokers_of(plan, cluster, logs, stack)
        as_written = dataclasses.replace(target(plan, cluster), known=True)  # run every action of the program
        return run_comparison(settings, actions, brokers.open(settings), passed_over, as_written)
