"""Calls between processes: values, descriptors, errors, long paths; and whose process is whose."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.local import process_owner
from harness.cluster.persistent import rpc
from harness.model.errors import BadInput, ClusterTrouble


def answering(listener: socket.socket, answer: Callable[[Any, list[int]], tuple[str, Any]]) -> None:
    """One connection, in a thread."""

    def serve() -> None:
        end, _ = listener.accept()
        with end:
            assert rpc.same_user(end)
            request, fds = rpc.receive(end)
            rpc.send(end, answer(request, fds))
            for fd in fds:
                os.close(fd)

    threading.Thread(target=serve, daemon=True).start()


def test_values_and_descriptors_by_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    here, there = os.pipe()
    with rpc.listen(folder / "socket") as listener:
        answering(listener, lambda request, fds: ("value", (request, os.write(fds[0], b"hi"))))
        request = {"set": frozenset({1}), "text": "x" * (3 << 20)}
        answer = rpc.call(folder / "socket", request, [there])
    assert answer == (request, 2)
    assert os.read(here, 9) == b"hi"
    os.close(here)
    os.close(there)


def test_errors_come_back(tmp_path: Path) -> None:
    with rpc.listen(tmp_path / "socket") as listener:
        answering(listener, lambda request, fds: ("raise", BadInput("not so")))
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
