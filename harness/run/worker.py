"""A worker process: the clients of some slots, the admin role, or the log role.

Started as `python -m harness.run.worker`, with a stream socket as file descriptor 3 that carries JSON lines.

    to a worker      {"do":"setup","role":"ops","client":{...}}   once, first
                     an op line (an invocation)                   for a process; its slot is process % slots
                     {"do":"drop","process":p}                    abandon a client that hangs
                     {"do":"instance","what":"stop","by":"..."}   to the client of a worker with one slot
                     {"do":"exit"}
    from a worker    {"did":"ready"}                              after setup
                     an op line (a completion)                    with the index of its invocation
                     {"did":"instance","value":{...}}             the state of the client's instance, or null

    admin, log       {"do":"call","id":n,"name":"leaders","args":{...}}
                     answered by {"did":"call","id":n,"value":...}, or with "error" instead of "value"

A client is opened at the first op of its process. If an op has a new process number, the slot's previous process is
retired: its client is closed first, or reopened for the new process (`Reusable`). If a client cannot be opened, the op
is `fail`, because nothing was sent. End-of-file on the socket ends the worker immediately.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import orjson

from harness.clients import call_timeout
from harness.clients.table import admin_opener, library_of, opener
from harness.model import op_json
from harness.model.op import FAIL, INFO, Op

CONTROL_FD: Final = 3
# Python allocates a buffer of this size for each call; above 128 KiB the C library would map and unmap memory.
RECEIVE_BYTES: Final = 64 << 10


class SlotClient(Protocol):
    """What a worker needs from the client of a process."""

    def invoke(self, op: Op) -> Op: ...
    def close(self) -> None: ...


@runtime_checkable
class HasInstance(Protocol):
    """A client that keeps an instance of an application running."""

    def answer(self, what: str, by: str) -> Mapping[str, Any]: ...


@runtime_checkable
class Reusable(Protocol):
    """A client that can become the client of the slot's next process."""

    def reopen(self, config: Mapping[str, Any]) -> bool: ...


Open = Callable[[Mapping[str, Any]], SlotClient]


def lines(sock: socket.socket) -> Iterator[bytes]:
    """Yields complete lines from a socket until end-of-file."""
    rest = b""
    while True:
        try:
            chunk = sock.recv(RECEIVE_BYTES)
        except ConnectionError:
            return
        if not chunk:
            return
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


class Slot:
    """One slot of the worker. Its client is opened when first needed, and replaced when the slot's process changes,
    unless it can be reopened.
    """

    def __init__(self, open_client: Open, config: Mapping[str, Any]) -> None:
        self._open, self._config = open_client, config
        self._client: SlotClient | None = None
        self._process: Any = None

    def apply(self, op: Op) -> Op:
        """Returns the completion of `op`. If the client raises an unexpected exception, the completion is `info`."""
        try:
            client = self._client_of(op.process)
        except Exception as error:
            return op.with_(type=FAIL, error=["no-client", f"{type(error).__name__}: {error}"])
        try:
            return client.invoke(op)
        except Exception as error:
            return op.with_(type=INFO, error=["client-crashed", f"{type(error).__name__}: {error}"])

    def _client_of(self, process: Any) -> SlotClient:
        """Returns the client of a process of this slot. Opens it, or reopens that of the process before, if needed."""
        if process == self._process and self._client is not None:
            return self._client
        config = of_process(self._config, process)
        if not (isinstance(self._client, Reusable) and self._client.reopen(config)):
            self.close()
            self._client = self._open(config)
        self._process = process
        assert self._client is not None
        return self._client

    def answer(self, what: str, by: str) -> Any:
        """Returns what the client answers to a question about its instance (see `AppClient.answer`); None if it has no
        instance.
        """
        return self._client.answer(what, by) if isinstance(self._client, HasInstance) else None

    def close(self) -> None:
        """Closes the client in a background thread, because closing may take seconds."""
        client, self._client = self._client, None
        if client is not None:
            threading.Thread(target=_close, args=(client, self._process), daemon=True).start()


def of_process(config: Mapping[str, Any], process: Any) -> Mapping[str, Any]:
    """Returns the configuration of a process's client.

    The slots of each library use the group protocols in turn, and a slot's next process uses the next protocol. All
    processes of a slot are the same static member, if members are static.
    """
    protocols, consumer = config.get("group_protocols"), config.get("consumer_config", {})
    static = config.get("static_members", False)
    if not protocols and not static:
        return {**config, "process": process}
    incarnation, slot = divmod(int(process), int(config["concurrency"]))
    turn = slot // len(config["libraries"]) + incarnation
    own = protocols[turn % len(protocols)] if protocols else {}
    own = {"group.instance.id": f"slot-{slot}", **own} if static else own
    return {**config, "process": process, "consumer_config": {**own, **consumer}}


def _close(client: SlotClient, process: Any) -> None:
    try:
        client.close()
    except Exception as error:
        print(f"closing the client of process {process}: {error!r}", file=sys.stderr)


class OpsWorker:
    """Executes op lines.

    With a single slot, or with clients that do not block, the calling thread executes them. Otherwise each slot has a
    thread.
    """

    def __init__(self, sock: socket.socket, client: Mapping[str, Any]) -> None:
        self._sock, self._lock = sock, threading.Lock()
        self._config = client
        self._slots = int(client["concurrency"])
        self._inline = bool(client.get("inline"))
        self._served: dict[int, Slot] = {}
        self._queues: dict[int, queue.SimpleQueue[bytes | None]] = {}

    def take(self, line: bytes, batch: list[bytes]) -> None:
        """Executes one op line, or passes it to the slot's thread.

        If it executes the op itself, it adds the completion to `batch`, which the caller then sends.
        """
        op = op_json.decode(line, "op from the harness")
        number = int(op.process) % self._slots
        if self._inline:
            batch.append(op_json.encode(self._slot(number).apply(op)))
            return
        if number not in self._queues:
            self._queues[number] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(number, self._queues[number]), daemon=True).start()
        self._queues[number].put(line)

    def drop(self, process: int) -> None:
        """Abandons the thread of a process's slot. The next op of the slot gets a new thread."""
        abandoned = self._queues.pop(process % self._slots, None)
        self._served.pop(process % self._slots, None)
        if abandoned is not None:
            abandoned.put(None)

    def answer(self, what: str, by: str) -> bytes:
        """Returns the answer of the client of a worker with one slot, as a line."""
        values = [slot.answer(what, by) for slot in self._served.values()]
        line = {"did": "instance", "value": values[0] if len(values) == 1 else None}
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def _slot(self, number: int) -> Slot:
        if number not in self._served:
            library = library_of(number, self._slots, self._config["libraries"])
            self._served[number] = Slot(
                opener(library, self._config.get("logic", "queue")), {**self._config, "library": library}
            )
        return self._served[number]

    def _serve(self, number: int, inbox: queue.SimpleQueue[bytes | None]) -> None:
        slot = self._slot(number)
        while (line := inbox.get()) is not None:
            done = op_json.encode(slot.apply(op_json.decode(line, "op from the harness")))
            with self._lock:
                self._sock.sendall(done)
        slot.close()


def serve_ops(sock: socket.socket, inbox: Iterator[bytes], setup: Mapping[str, Any]) -> None:
    client = dict(setup["client"])
    client["inline"] = bool(client.get("inline")) or bool(setup.get("single"))
    worker = OpsWorker(sock, client)
    sock.sendall(b'{"did":"ready"}\n')
    for line in inbox:
        if line.startswith(b'{"do"'):
            order = orjson.loads(line)
            if order["do"] == "exit":
                return
            if order["do"] == "instance":
                sock.sendall(worker.answer(order["what"], order["by"]))
            else:
                worker.drop(int(order["process"]))
            continue
        batch: list[bytes] = []
        worker.take(line, batch)
        if batch:
            sock.sendall(b"".join(batch))
        if client["inline"] and call_timeout.stuck():
            return  # a library call hangs and blocks its threads: the run starts a new worker for the slots


def serve_admin(sock: socket.socket, inbox: Iterator[bytes], setup: Mapping[str, Any]) -> None:
    _serve_calls(sock, inbox, admin_opener(setup["client"]["libraries"][0])(setup["client"]))


def serve_log(sock: socket.socket, inbox: Iterator[bytes], setup: Mapping[str, Any]) -> None:
    from harness.clients.log_model.actions_to_requests import LogRole

    _serve_calls(sock, inbox, LogRole(setup["client"]))


def _serve_calls(sock: socket.socket, inbox: Iterator[bytes], role: Any) -> None:
    sock.sendall(b'{"did":"ready"}\n')
    for line in inbox:
        order = orjson.loads(line)
        if order["do"] == "exit":
            return
        answer: dict[str, Any] = {"did": "call", "id": order["id"]}
        try:
            answer["value"] = getattr(role, order["name"])(**order["args"])
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        sock.sendall(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))


def main() -> None:
    # Ctrl-C in the terminal is for the harness, which decides what happens to the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=CONTROL_FD)
    inbox = lines(sock)
    first = next(inbox, None)
    if first is not None:
        setup = orjson.loads(first)
        {"ops": serve_ops, "admin": serve_admin, "log": serve_log}[setup["role"]](sock, inbox, setup)
    # Closing clients may hang, and all their completions have been sent.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
