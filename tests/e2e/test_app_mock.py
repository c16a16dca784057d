"""Instances of an application as processes of their own, on librdkafka's mock cluster: good ones and bad ones."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.clients.app.process import LOG_BYTES_MAX
from harness.clients.table import admin_opener
from harness.cluster.mock import MockCluster
from harness.model import op_json
from harness.model.op import Op
from harness.plan.make_plan import make
from harness.plan.resolve import workload_of
from harness.run.start_workers import client_config
from harness.run.worker_pool import Crew
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.long
APPS = Path(__file__).parents[2] / "examples" / "apps" / "python"
PARTITIONS = 4
KEYS = 12  # the plan's
DEADLINE_S = 60.0


class Instances:
    """A writer (slot 0) and instances of an application (slots from 1), each in a worker of its own."""

    def __init__(self, crew: Crew, folder: Path, state: Path) -> None:
        self.crew, self.folder, self.state, self._index = crew, folder, state, 0

    def once(self, slot: int, f: str, value: Any = None, **extra: Any) -> Op:
        """The completion of an op."""
        self._index += 1
        self.crew.send(slot, op_json.encode(Op(self._index, 0, slot, "invoke", f, value, None, extra)))
        self.crew.flush()
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for member, line in self.crew.receive(0.1):
                if line is None:
                    self.crew.replace(member)
                    raise ChildProcessError(member.name)
                done = op_json.decode(line)
                if done.index == self._index:
                    return done
        raise TimeoutError(f)

    def until(self, slot: int, f: str, field: str, wanted: Any = True) -> dict[str, Any]:
        """The value of the first completion that has this value in a field; the op is repeated until then."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            done = self.once(slot, f)
            assert done.type == "ok", done.error
            if done.value[field] == wanted:
                value: dict[str, Any] = done.value
                return value
        raise TimeoutError(f"{f}: {done}")

    def log(self, number: int = 0) -> str:
        lines = (self.folder / "logs" / f"app-{number}.log").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("[harness, "))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Callable[..., Instances]]:
    """Function: the text of a Python program, or the path of one; fields of app.yaml -> its instances."""
    cluster = MockCluster(nodes=1, work_dir=tmp_path / "mock")
    cluster.up(lambda line: None)
    crews = []

    def made(program: str | Path, arguments: str = "", env: str = "", **fields: Any) -> Instances:
        path = tmp_path / "app.py"
        path.write_text(program.read_text() if isinstance(program, Path) else program)
        app = {
            "command": f"{sys.executable} app.py {arguments}",
            "instances": 1,
            "input": {"template": '{"order": {id}}'},
            "output": {"id": {"json": "order"}},
            "promise": "at-least-once",
            "folder": str(tmp_path),
            **fields,
        }
        options = {"workload": "app", "cluster": "mock", "partitions": PARTITIONS, "client_user": "root", "app": app}
        plan = make({**options, "client_env": env}).model_copy(update={"run": "r"})
        workload = workload_of(plan)
        for name in ("history", "events", "pipeline", "logs", "state"):
            (tmp_path / name).mkdir()
        (tmp_path / "history" / "00000.jsonl").write_bytes(op_json.header("r", 0, 0, 0))
        config = client_config(plan, cluster.bootstrap) | {
            "folder": str(tmp_path),
            "logic": "app",
            "logic_options": dict(workload.client_options),
            "app_state": str(tmp_path / "state"),
        }
        admin_opener("confluent")({**config, "library": "confluent"}).create_topics(["r-0", "r-1"], PARTITIONS, 1)
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "PASSWORD") if name in os.environ}
        crew = Crew(cluster, config, plan.concurrency, 1, tmp_path / "logs", environment, workload.hit)
        crews.append(crew)
        crew.start()
        return Instances(crew, tmp_path, tmp_path / "state")

    try:
        yield made
    finally:
        for crew in crews:
            crew.stop()
        cluster.down()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


CHILDREN = """
import os, pathlib, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
pathlib.Path(sys.argv[1], "pids").write_text(" ".join(str(each.pid) for each in children) + f" {os.getpid()}")
print("ready", flush=True)
time.sleep(float(sys.argv[2]))
"""


def pids(app: Instances) -> list[int]:
    """The processes of the instance: two children, one of them in another session, and the instance itself."""
    return [int(pid) for pid in (app.state / "1" / "pids").read_text().split()]


def test_every_record_has_its_output(application: Callable[..., Instances]) -> None:
    app = application(APPS / "doubles.py", "{bootstrap} {group} {input} {output}", ready={"log": "^subscribed"})
    assert app.crew.names() == ("w1",), "faults hit the instances, not the writers"
    app.until(1, "start", "ready")
    sent = app.once(0, "send", [["send", id % KEYS % PARTITIONS, id] for id in range(20)], keys=KEYS)
    assert sent.type == "ok", sent.error
    deadline = time.monotonic() + DEADLINE_S
    while (lag := app.once(0, "lag").value) != {"left": 0} and time.monotonic() < deadline:
        assert app.once(1, "work").value["running"]
    assert lag == {"left": 0}
    assert app.until(1, "leave", "left") == {"left": True, "exit": 0}
    for slot in (0, 1):
        app.until(slot, "read", "done")
    lines = [json.loads(line) for path in app.folder.glob("pipeline/read-*.jsonl") for line in path.open()]
    for side in ("input", "output"):
        found = sorted((line["id"], line["key"]) for line in lines if line.get("side") == side)
        assert found == [(id, id % KEYS) for id in range(20)]


def test_a_killed_worker_takes_its_instance_along(application: Callable[..., Instances]) -> None:
    app = application(CHILDREN, "{state} 600", ready={"log": "ready"})
    app.until(1, "start", "ready")
    child, _, instance = pids(app)
    app.crew.signal("w1", signal.SIGSTOP)
    assert eventually(lambda: Path(f"/proc/{instance}/stat").read_text().rpartition(")")[2].split()[0] == "T", 10)
    app.crew.signal("w1", signal.SIGKILL)
    assert eventually(lambda: not runs(child) and not runs(instance), 10)
    with pytest.raises(ChildProcessError):
        app.once(1, "work")
    assert app.once(1, "work").value == {"running": True, "started": True}
    assert pids(app)[-1] != instance, "the state folder is the same, the process another"


def test_children_are_ended_with_the_instance(application: Callable[..., Instances]) -> None:
    app = application(CHILDREN, "{state} 600", ready={"log": "ready"})
    app.until(1, "start", "ready")
    assert all(map(runs, pids(app)))
    assert app.until(1, "leave", "left") == {"left": True, "exit": -signal.SIGTERM}
    assert not any(map(runs, pids(app)))


def test_nothing_is_left_when_the_workers_end(application: Callable[..., Instances]) -> None:
    app = application(CHILDREN, "{state} 600", ready={"log": "ready"})
    app.until(1, "start", "ready")
    child, _, instance = pids(app)
    app.crew.stop()
    assert eventually(lambda: not runs(child) and not runs(instance), 10)


def test_an_instance_that_exits_is_started_again(application: Callable[..., Instances]) -> None:
    app = application(CHILDREN, "{state} 3", ready={"log": "ready"})
    app.until(1, "start", "ready")
    first = pids(app)
    assert app.until(1, "work", "running", False)["exit"] == 0
    assert not any(map(runs, first)), "its children are ended"
    assert app.once(1, "work").value["started"]
    assert pids(app) != first


def test_an_instance_that_must_not_be_started_again(application: Callable[..., Instances]) -> None:
    app = application("import time; time.sleep(5)", restart=False)
    app.until(1, "start", "ready")
    app.until(1, "work", "running", False)
    assert app.once(1, "work").value["running"] is False
    assert "started" not in app.once(1, "work").value


def ordered(app: Instances, what: str, by: str = "restart:client") -> dict[str, Any]:
    """The answer to the order of a fault. As in a run, another thread gives the order while ops are executed."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(app.crew.ask, "w1", what, by, DEADLINE_S)
        while not answer.done():
            app.once(1, "work")
        return dict(answer.result() or {})


def test_a_fault_stops_and_starts_an_instance(application: Callable[..., Instances]) -> None:
    app = application(CHILDREN, "{state} 600", ready={"log": "ready"})
    app.until(1, "start", "ready")
    first = pids(app)
    assert ordered(app, "stop")["running"]
    assert app.until(1, "work", "running", False)["stopped_by_fault"]
    assert not any(map(runs, first))
    assert ordered(app, "start", "rolling-restart:client")["refused"]
    assert app.once(1, "work").value["running"] is False
    assert not ordered(app, "start")["refused"]
    assert eventually(lambda: bool(ordered(app, "report").get("ready")), 60)  # no answer: not ready yet
    assert all(map(runs, pids(app)))
    assert pids(app) != first


def test_an_instance_that_ignores_its_signal_is_killed(application: Callable[..., Instances]) -> None:
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready'); time.sleep(600)"
    app = application(program, ready={"log": "ready"}, stop={"grace": 0.5})
    app.until(1, "start", "ready")
    assert app.until(1, "leave", "left") == {"left": True, "killed": True}


def test_a_flood_of_output_is_cut_off(application: Callable[..., Instances]) -> None:
    program = (
        "import sys, time\nprint('ready')\nfor n in range(400): sys.stdout.write('x' * 99_999 + '\\n')\ntime.sleep(600)"
    )
    app = application(program, ready={"log": "ready"})
    app.until(1, "start", "ready")
    assert eventually(lambda: "cut off" in app.log()[-100:], 60)
    assert app.once(1, "work").value["running"]
    assert len(app.log()) < LOG_BYTES_MAX + (1 << 17)


@pytest.mark.parametrize(
    ("program", "fields", "message"),
    [
        ("import time; print('hello'); time.sleep(600)", {"ready": {"log": "ready", "within": 4}},
         "instance 0 of the application was not ready within 4 s: no line of its output matched 'ready'; it printed "
         "last: hello; see logs/app-0.log of the run"),
        ("import time; time.sleep(600)", {"ready": {"port": "6111{instance}", "within": 1}},
         "nothing accepts connections on port 61110; it printed nothing"),
        ("raise SystemExit('no such option')", {}, "exited with code 1 before it was ready; it printed last: no such "),
        ("import os; os.kill(os.getpid(), 9)", {}, "was ended by signal 9 before it was ready; it printed nothing"),
        ("", {"command": "./nothing"}, "command: ./nothing is not an executable file"),
    ],
    ids=["never-ready", "no-port", "exits", "dies", "no-program"],
)  # fmt: skip
def test_an_application_that_does_not_start(
    application: Callable[..., Instances], program: str, fields: dict[str, Any], message: str
) -> None:
    app = application(program, **fields)
    deadline = time.monotonic() + DEADLINE_S
    while (done := app.once(1, "start")).type == "ok" and time.monotonic() < deadline:
        assert done.value == {"ready": False}
    assert done.type == "fail"
    assert message in str(done.error)


def test_an_instance_that_listens_is_ready(application: Callable[..., Instances]) -> None:
    program = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"
    app = application(program, "6112{instance}", ready={"port": "6112{instance}"})
    app.until(1, "start", "ready")


def test_a_group_that_does_not_get_its_members(application: Callable[..., Instances]) -> None:
    """The mock cluster does not describe groups, so this one never has a member."""
    app = application("import time; time.sleep(600)", ready={"group": True, "within": 1})
    deadline = time.monotonic() + DEADLINE_S
    while (done := app.once(1, "start")).type == "ok" and time.monotonic() < deadline:
        assert done.value == {"ready": False}
    assert "was not ready within 1 s: the group r-group has fewer than 1 members" in str(done.error)


def test_the_environment_and_its_secrets(
    application: Callable[..., Instances], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "correct horse")
    monkeypatch.setenv("OTHER", "x")
    app = application(
        "import json, os, time; print(json.dumps(dict(os.environ))); print('ready'); time.sleep(600)",
        env="PASSWORD", ready={"log": "ready"}, environment={"GROUP": "{group} {instance}"},
    )  # fmt: skip
    app.until(1, "start", "ready")
    environment = json.loads(app.log().splitlines()[0])
    assert environment["PASSWORD"] == "***"
    assert environment["GROUP"] == "r-group 0"
    assert environment["HOME"] == str(app.state / "1")
    assert "OTHER" not in environment
