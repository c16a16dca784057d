"""The interpreter with real worker processes whose clients do nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import history_writer
from harness.cluster.sim import SimCluster
from harness.generator import (
    Barrier,
    Clients,
    Fn,
    ForNemesis,
    Limit,
    Once,
    Rate,
    Then,
    TimeLimit,
    any_,
    op,
)
from harness.model import op_json
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Generator
from harness.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op
from harness.run.interpreter import Interpreter, Limits
from harness.run.worker_pool import AdminLink, Crew
from nemesis import table
from nemesis.schedule import rounds
from nemesis.schedule.entry import LOG, Entry, Trigger
from nemesis.schedule.timing import Timing
from tests.unit.partners import partners

CONCURRENCY = 4
SECOND = 1_000_000_000
SENDS = Fn(lambda ctx, n: op("send", [["send", 1, n]]))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SimCluster]:
    made = SimCluster(tmp_path / "cluster")
    made.up(lambda text: None)
    yield made
    made.down()


class Run:
    """An interpreter run of one generator, with its workers and the history that it wrote."""

    def __init__(self, cluster: SimCluster, folder: Path, per_process: int = 1, library: str = "noop") -> None:
        client = {"libraries": [library], "concurrency": CONCURRENCY, "inline": per_process > 1}
        self.crew = Crew(cluster, client, CONCURRENCY, per_process, folder, dict(os.environ))
        self.folder = folder
        self.events: list[Op] = []
        self.interpreter: Interpreter | None = None

    def __call__(
        self,
        generator: Generator,
        nemesis: Callable[[Op], Op] = lambda op: op,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> list[Op]:
        self.crew.start()
        zero_ns = time.monotonic_ns()
        try:
            with history_writer.HistoryLog(self.folder, "test", zero_ns) as log:
                self.interpreter = Interpreter(
                    self.crew,
                    nemesis,
                    log.append,
                    concurrency=CONCURRENCY,
                    seed=1,
                    zero_ns=zero_ns,
                    limits=limits,
                    listener=self.events.append,
                )
                self.interpreter.run(generator)
        finally:
            self.crew.stop()
        lines = (self.folder / "00000.jsonl").read_bytes().splitlines()[1:]
        assert [op_json.decode(line) for line in lines] == self.events
        return self.events


@pytest.fixture
def run(cluster: SimCluster, tmp_path: Path) -> Run:
    return Run(cluster, tmp_path)


def test_every_op_is_recorded_in_order_and_completed(run: Run) -> None:
    events = run(Clients(Limit(SENDS, 200)))
    assert [event.index for event in events] == list(range(400))
    times = [event.time_ns for event in events]
    assert times == sorted(times)
    assert all(done for event, done in zip(events, partners(events), strict=True) if event.type == INVOKE)
    assert {event.type for event in events} == {INVOKE, OK}
    assert {event.process for event in events} == set(range(CONCURRENCY))


def test_info_retires_the_process(run: Run) -> None:
    events = run(Clients(Then((Limit(Fn(lambda ctx, n: op("crash")), 6), Limit(SENDS, 20)))))
    retired = [int(str(event.process)) for event in events if event.type == INFO]
    assert len(set(retired)) == len(retired) == 6
    later = {int(str(event.process)) for event in events if event.f == "send"}
    of_slot = Counter(process % CONCURRENCY for process in retired)  # a fast worker may have many
    assert set(retired) == {slot + CONCURRENCY * n for slot, many in of_slot.items() for n in range(many)}
    assert later <= {slot + CONCURRENCY * of_slot[slot] for slot in range(CONCURRENCY)}


def test_a_killed_worker_is_info_and_is_replaced(run: Run) -> None:
    def kill(fault: Op) -> Op:
        assert run.crew.signal("w1", signal.SIGKILL)
        return fault

    faults = ForNemesis(Once(op("kill")))
    events = run(any_(faults, Clients(TimeLimit(Rate(SENDS, SECOND // 1000), SECOND))), kill)
    ended = [event for event in events if event.type == INFO and event.process != NEMESIS]
    assert all(event.error == "client process ended" for event in ended)
    assert any(event.type == OK and int(str(event.process)) % CONCURRENCY == 1 for event in events[-200:])


def test_a_worker_that_is_killed_while_it_waits_goes_on_under_a_new_process(run: Run) -> None:
    def kill(fault: Op) -> Op:
        """Waits until the process is seen to be dead, which may take a moment."""
        killed, deadline = run.crew.member_of(1), time.monotonic() + 10
        assert run.crew.signal("w1", signal.SIGKILL)
        while run.crew.member_of(1) is killed and time.monotonic() < deadline:
            time.sleep(0.001)
        return fault

    # Without the barriers an op could be on its way to the worker when that is killed.
    struck = Barrier(ForNemesis(Once(op("kill"))))
    rest = Barrier(Clients(TimeLimit(Rate(SENDS, SECOND // 20), SECOND)))
    events = run(Then((Clients(Limit(SENDS, 20)), struck, rest)), kill)
    killed_at = max(n for n, event in enumerate(events) if event.process == NEMESIS)
    assert not [event for event in events if event.type == INFO and event.process != NEMESIS]
    assert 1 in {event.process for event in events[:killed_at]}
    after = {event.process for event in events[killed_at:] if event.type == OK}
    assert 1 not in after and 1 + CONCURRENCY in after


def test_a_hung_client_does_not_hang_the_run(run: Run) -> None:
    def pause(fault: Op) -> Op:
        assert run.crew.signal("w2", signal.SIGSTOP)
        return fault

    generator = any_(ForNemesis(Once(op("pause"))), Clients(TimeLimit(Rate(SENDS, SECOND // 200), 8 * SECOND)))
    began = time.monotonic()
    events = run(generator, pause, Limits(op_timeout_s=4))  # the first op of a new worker takes time, too
    assert time.monotonic() - began < 30
    late = [event for event in events if event.error == "op deadline exceeded"]
    assert [int(str(event.process)) % CONCURRENCY for event in late] == [2]
    assert any(event.process == 2 + CONCURRENCY and event.type == OK for event in events)


def test_a_hung_client_among_others_in_one_process(cluster: SimCluster, tmp_path: Path) -> None:
    run = Run(cluster, tmp_path, per_process=2)

    def pause(fault: Op) -> Op:
        run.crew.signal("w0", signal.SIGSTOP)
        threading.Timer(1.0, run.crew.signal, ("w0", signal.SIGCONT)).start()
        return fault

    generator = any_(ForNemesis(Once(op("pause"))), Clients(TimeLimit(Rate(SENDS, SECOND // 200), 3 * SECOND)))
    events = run(generator, pause, Limits(op_timeout_s=0.5))
    assert any(event.error == "op deadline exceeded" for event in events)
    assert events[-1].type in (OK, INFO)


def test_a_nemesis_that_raises_is_in_the_history_and_took_no_effect(run: Run) -> None:
    def broken(fault: Op) -> Op:
        raise ClusterTrouble("nobody is home")

    events = run(ForNemesis(Once(Op(-1, -1, NEMESIS, INFO, "kill", None, None, {"fault": "kill:x"}))), broken)
    assert [event.extra["phase"] for event in events] == ["invoke", "complete"]
    assert events[1].value == {"took_effect": False}
    assert "nobody is home" in events[1].error


def test_a_nemesis_that_hangs_is_given_up(run: Run) -> None:
    def slow(fault: Op) -> Op:
        time.sleep(3.0)
        return fault

    events = run(ForNemesis(Once(op("kill"))), slow, Limits(nemesis_timeout_s=0.3))
    assert events[-1].error == "no answer within 0 s"


def fault_op(f: str, fault: str) -> Op:
    return Op(-1, -1, NEMESIS, INFO, f, {}, None, {"fault": fault})


def test_each_fault_has_its_own_thread_and_does_one_op_at_a_time(run: Run) -> None:
    both, ended = threading.Barrier(2), threading.Event()

    def invoke(fault: Op) -> Op:
        if fault.f == "begin":
            both.wait(10)  # both block if they run one after another
        if fault.extra.get("fault") == "a":
            assert ended.is_set() == (fault.f == "end")
            ended.set()
        return fault

    def of(name: str) -> Generator:
        ops = [Once(fault_op("begin", name)), Once(fault_op("end", name))]
        return ForNemesis(Then(tuple(ops)), frozenset({name}))

    events = run(Then((any_(of("a"), of("b")), ForNemesis(Once(op("heal"))))), invoke)
    phases = [(event.f, event.extra.get("fault"), event.extra["phase"]) for event in events]
    assert phases[:2] == [("begin", "a", "invoke"), ("begin", "b", "invoke")]
    assert phases[-2:] == [("heal", None, "invoke"), ("heal", None, "complete")]
    assert len(phases) == 10 and not any(event.error for event in events)


def test_a_notice_reaches_the_generator_and_not_the_history(run: Run) -> None:
    entry = Entry("kill:leader", for_s=0.1, when=Trigger(LOG, "x"))
    (fault,) = table.faults(["kill:leader"], Timing())
    trigger = entry.when
    assert trigger is not None

    def tell() -> None:
        while len(run.events) < 20:
            time.sleep(0.01)
        assert run.interpreter is not None
        run.interpreter.notice(rounds.notice(rounds.Seen(trigger, "n1 logged: x")))

    threading.Thread(target=tell, daemon=True).start()
    load = TimeLimit(any_(rounds.Rhythm(entry, fault, 0), Clients(Rate(SENDS, SECOND // 100))), 3 * SECOND)
    events = run(load)
    faults = [event for event in events if event.process == NEMESIS]
    assert [event.f for event in faults] == ["kill", "kill", "restart", "restart"]
    assert faults[0].value == {"target": "leader", "trigger": "n1 logged: x"}


def test_divert_cuts_the_load_short(run: Run) -> None:
    def divert(fault: Op) -> Op:
        assert run.interpreter is not None
        if fault.f == "stop":
            run.interpreter.divert(ForNemesis(Once(op("heal"))))
        return fault

    began = time.monotonic()
    events = run(any_(ForNemesis(Once(op("stop"))), Clients(Rate(SENDS, SECOND // 100))), divert)
    assert time.monotonic() - began < 10
    assert [event.f for event in events if event.process == NEMESIS] == ["stop", "stop", "heal", "heal"]


def test_a_client_that_cannot_be_opened_makes_fail(cluster: SimCluster, tmp_path: Path) -> None:
    run = Run(cluster, tmp_path, library="confluent")  # fails, because there is no bootstrap address
    events = run(Clients(Limit(SENDS, 4)))
    assert {event.type for event in events} == {INVOKE, FAIL}
    assert all(event.error[0] == "no-client" for event in events if event.type == FAIL)


def test_admin_calls_answer_or_fail_in_time(cluster: SimCluster, tmp_path: Path) -> None:
    link = AdminLink(cluster, {"libraries": ["noop"]}, tmp_path, dict(os.environ))
    try:
        assert link.call("create_topics", names=["a"]) == ["a"]
        with pytest.raises(ClusterTrouble, match="no_such_call"):
            link.call("no_such_call")
    finally:
        link.stop()
    with pytest.raises(ClusterTrouble, match="brokers"):
        link.call("brokers", 1.0)
