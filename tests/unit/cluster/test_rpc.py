"""Calls between processes: values, descriptors, errors, long paths; and whose process is whose."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import json_messages
from harness.cluster.local import process_owner
from harness.cluster.persistent import rpc, values
from harness.model.capabilities import CommandResult, LinkCounts, LinkQuality
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.model.wire_rules import Rule, RuleCounts, Traffic
from harness.protocol.brokers_metadata_views import PartitionView, View


def answering(listener: socket.socket, answer: Callable[[Any, list[int]], Any]) -> None:
    """One connection, in a thread."""

    def serve() -> None:
        end, _ = listener.accept()
        with end:
            assert rpc.same_user(end)
            request, fds = rpc.receive(end)
            json_messages.send(end, rpc.answered(lambda: answer(request, fds)))
            for fd in fds:
                os.close(fd)

    threading.Thread(target=serve, daemon=True).start()


def test_values_and_descriptors_by_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    read_end, write_end = os.pipe()
    with rpc.listen(folder / "socket") as listener:
        answering(listener, lambda request, fds: (request, os.write(fds[0], b"hi")))
        request = {"set": frozenset({1}), "text": "x" * (3 << 20)}
        answer = rpc.call(folder / "socket", request, [write_end])
    assert answer == (request, 2)
    assert os.read(read_end, 9) == b"hi"
    os.close(read_end)
    os.close(write_end)


def refuse(request: Any, fds: list[int]) -> Any:
    raise BadInput("not so")


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1.5, "text", b"\0\xff", (1, ("a", None)), [frozenset({1, 2})], {"is": "no type"}, {("t", 0): [1]},
        CommandResult(1, "out", "err"), LinkQuality(delay_ms=2.0), LinkCounts(packets=3), RuleCounts(lost=1), Traffic(),
        Rule("hold", api=("Fetch",), commit=True),
        View(frozenset({1}), {("t", 0): PartitionView(None, 3, frozenset({1}), 2)}, None),
    ],
)  # fmt: skip
def test_values_are_the_same_on_the_other_side(value: Any) -> None:
    assert values.decode(json.loads(json.dumps(values.encode(value)))) == value


def test_values_of_other_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="values of type PosixPath cannot be encoded"):
        values.encode([tmp_path])
    with pytest.raises(ValueError, match="values of type Path cannot be decoded"):
        values.decode({"is": "Path", "of": {}})
    with rpc.listen(tmp_path / "socket") as listener:
        answering(listener, lambda request, fds: tmp_path)
        with pytest.raises(ClusterTrouble, match="cannot be encoded"):
            rpc.call(tmp_path / "socket", {})


def test_errors_come_back(tmp_path: Path) -> None:
    with rpc.listen(tmp_path / "socket") as listener:
        answering(listener, refuse)
        with pytest.raises(BadInput, match="not so"):
            rpc.call(tmp_path / "socket", {})
    with pytest.raises(ClusterTrouble, match="no answer"):
        rpc.call(tmp_path / "socket", {})
    with pytest.raises(ClusterTrouble, match="no answer"):
        rpc.call(tmp_path / "nowhere" / "socket", {})


def test_a_silent_other_side_is_not_waited_for(tmp_path: Path) -> None:
    with rpc.listen(tmp_path / "socket"), pytest.raises(ClusterTrouble, match="no answer"):
        rpc.call(tmp_path / "socket", {}, timeout_s=0.2)


def test_owners_are_told_from_others_with_their_number() -> None:
    mine = process_owner.owner(os.getpid())
    assert process_owner.in_use(mine) and process_owner.pid_of(mine) == os.getpid()
    boot, pid, started = mine.split("/")
    assert not process_owner.in_use(f"{boot}/{pid}/{int(started) - 1}")
    assert not process_owner.in_use("") and not process_owner.in_use("what/is/this")
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        theirs = process_owner.owner(child.pid)
        child.wait()
    assert not process_owner.in_use(theirs)
