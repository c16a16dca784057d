"""Processes of client programs: answers, deadlines, and programs that do not follow the protocol."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clients.exec.process import BROKE_PROTOCOL, DIED, SILENT, ClientProcess, remove_folders
from harness.protocol.error_codes import ClientError
from tests.conftest import absent

PROGRAM = Path(__file__).with_name("program.py")
Start = Callable[..., ClientProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process whose behaviour is a piece of Python: see `program`."""
    started: list[ClientProcess] = []

    def process(body: str, **options: Any) -> ClientProcess:
        argv = [sys.executable, str(PROGRAM), body]
        started.append(ClientProcess(argv, {"PATH": os.environ["PATH"]}, user="root", **options))
        return started[-1]

    yield process
    for one in started:
        one.kill()


def failure(process: ClientProcess, timeout_s: float = 5.0, do: str = "hello") -> ClientError:
    with pytest.raises(ClientError) as raised:
        process.request(do, {}, timeout_s)
    return raised.value


def test_a_request_is_answered(start: Start) -> None:
    process = start(
        "for request in requests: ok(request, do=request['do'], limit=request['timeout_ms'], x=request['x'])"
    )
    assert process.request("hello", {"x": [1, None, "ä"]}, 5.0) == {"do": "hello", "limit": 5000, "x": [1, None, "ä"]}
    assert process.request("flush", {"x": 2}, 1.5) == {"do": "flush", "limit": 1500, "x": 2}


def test_an_error_is_raised_under_the_name_that_the_table_has(start: Start) -> None:
    process = start(
        """
        for request in requests:
            write({"id": request["id"], "error": {"code": "NOT_LEADER_OR_FOLLOWER", "text": "x", "kind": "retriable"}})
        """
    )
    error = failure(process)
    assert (error.code, error.kind) == ("NOT_LEADER_FOR_PARTITION", "retriable")
    assert not process.ended


def test_answers_may_come_in_any_order(start: Start) -> None:
    process = start(
        """
        first, second = next(requests), next(requests)
        ok(second, offset=2)
        ok(first, offset=1)
        """
    )
    found: dict[str, Any] = {}
    for name in ("first", "second"):
        process.post("send", {}, 5.0, lambda answer, error, name=name: found.update({name: answer}))
    assert process.read_until(lambda: len(found) == 2, 5.0)
    assert found == {"first": {"offset": 1}, "second": {"offset": 2}}


def test_neither_side_blocks_the_other_when_both_write_much(start: Start) -> None:
    process = start(
        """
        for request in requests:
            ok(request, text="x" * 20_000)
        """
    )
    found: list[Any] = []
    for _ in range(300):
        process.post("send", {"value": "y" * 20_000}, 20.0, lambda answer, error: found.append(error))
    assert process.read_until(lambda: len(found) == 300, 20.0) and not any(found)


def test_a_rebalance_waits_for_what_is_done_about_it(start: Start) -> None:
    process = start(
        """
        poll = next(requests)
        write({"id": poll["id"], "event": "revoked", "partitions": [{"topic": "t", "partition": 0}]})
        commit = next(requests)
        ok(commit, did=commit["do"])
        go_on = next(requests)
        ok(poll, order=[commit["do"], go_on["do"], go_on["id"] == poll["id"]])
        """
    )
    events: list[Any] = []

    def rebalanced(message: dict[str, Any]) -> None:
        events.append((message["event"], process.request("commit_offsets", {}, 5.0)))

    answer = process.polling("poll", {}, 5.0, rebalanced)
    assert answer == {"order": ["commit_offsets", "continue", True]}
    assert events == [("revoked", {"did": "commit_offsets"})]


def test_a_program_that_ends_answers_every_open_request(start: Start) -> None:
    process = start("next(requests); next(requests); sys.exit(3)")
    found: list[ClientError | None] = []
    for _ in range(2):
        process.post("send", {}, 5.0, lambda answer, error: found.append(error))
    assert process.read_until(lambda: len(found) == 2, 10.0)
    assert [error and error.code for error in found] == [DIED, DIED]
    assert "exit code 3" in str(found[0]) and process.ended
    assert failure(process).code == DIED


def test_the_folders_of_a_run_are_removed_although_its_workers_were_killed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for run in ("r[1]", "r[1]", "r2"):
        start("pass", run=run)
    remove_folders("r[1]")
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("harness-client-r2-")


def test_a_silent_program_is_killed_with_its_descendants(start: Start, tmp_path: Path) -> None:
    process = start(
        f"""
        import subprocess
        child = subprocess.Popen(["sleep", "600"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        for request in requests:
            pass
        """
    )
    began = time.monotonic()
    assert failure(process, timeout_s=1.0).code == SILENT
    assert time.monotonic() - began < 5.0
    child = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    deadline = time.monotonic() + 5.0
    while child.exists() and ") Z " not in child.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child.exists() or ") Z " in child.read_text()


@pytest.mark.parametrize(
    "body",
    [
        "raw(b'hello\\n')",
        "raw(b'\\xff\\x00\\n')",
        "raw(b'[1]\\n')",
        "raw(b'{}\\n')",
        "raw(b'{\"id\":1}\\n')",
        'raw(b\'{"id":true,"ok":{}}\\n\')',
        'raw(b\'{"id":"1","ok":{}}\\n\')',
        'raw(b\'{"id":1,"ok":{},"error":{}}\\n\')',
        'raw(b\'{"id":1,"ok":[]}\\n\')',
        'raw(b\'{"id":77,"ok":{}}\\n\')',
        'raw(b\'{"id":1,"event":"assigned"}\\n\')',
        'raw(b\'{"id":1,"error":{}}\\n\')',
        'raw(b\'{"id":1,"error":{"code":"X","text":"","sent":"never"}}\\n\')',
    ],
)
def test_what_does_not_follow_the_protocol_ends_the_process(start: Start, body: str) -> None:
    process = start(f"request = next(requests)\n{body}\nnext(requests)")
    error = failure(process)
    assert error.code == BROKE_PROTOCOL and error.kind == "fatal" and process.ended


def test_a_second_answer_is_an_answer_to_no_request(start: Start) -> None:
    process = start("request = next(requests); ok(request); ok(request); next(requests)")
    process.request("hello", {}, 5.0)
    assert failure(process).code == BROKE_PROTOCOL


def test_half_a_line_is_no_answer(start: Start) -> None:
    process = start('request = next(requests); raw(b\'{"id":1,"ok":{\')')
    assert failure(process).code == DIED


def test_a_flood_without_a_line_ends_the_process(start: Start) -> None:
    process = start("next(requests)\nwhile True: raw(b'x' * 1_000_000)")
    error = failure(process, timeout_s=60.0)
    assert error.code == BROKE_PROTOCOL and "64 MiB" in str(error)


def test_secrets_are_not_copied_from_standard_error(tmp_path: Path) -> None:
    code = f"""
import os, sys, time
from harness.clients.exec.process import ClientProcess
body = "sys.stderr.write('password is hunter2\\\\n'); ok(next(requests)); next(requests)"
argv = [sys.executable, {str(PROGRAM)!r}, body]
process = ClientProcess(argv, {{"PATH": os.environ["PATH"]}}, ["hunter2"], user="root")
process.request("hello", {{}}, 10.0)
time.sleep(0.5)
process.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "password is ***" in done.stderr and "hunter2" not in done.stderr


def test_secrets_are_not_in_errors(start: Start) -> None:
    error = "{'code': 'LOGIN_hunter2', 'text': 'the password hunter2 is wrong'}"
    body = f"write({{'id': next(requests)['id'], 'error': {error}}}); next(requests); raw(b'hunter2, and no JSON\\n')"
    process = start(body, secrets=["hunter2"])
    refused, garbled = failure(process), failure(process)
    assert (refused.code, refused.text) == ("LOGIN_***", "the password *** is wrong")
    assert "***, and no JSON" in garbled.text


def test_the_environment_is_what_was_given_and_an_empty_home(start: Start) -> None:
    process = start("request = next(requests); ok(request, env=dict(os.environ), home=os.listdir(os.environ['HOME']))")
    answer = process.request("hello", {}, 5.0)
    assert set(answer["env"]) <= {"PATH", "HOME", "TMPDIR", "LC_CTYPE"} and answer["home"] == []
    process.kill()
    assert not Path(answer["env"]["HOME"]).exists()


def test_root_starts_a_program_as_nobody() -> None:
    if os.geteuid() != 0:
        absent("only root can become another user")
    process = ClientProcess(["/bin/sh", "-c", 'read line; echo \'{"id":1,"ok":{"uid":\'$(id -u)\'}}\'; read line'], {})
    try:
        assert process.request("hello", {}, 5.0) == {"uid": 65534}
    finally:
        process.kill()


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ClientError, match="cannot be started"):
        ClientProcess(["/no/such/program"], {}, user="root")
