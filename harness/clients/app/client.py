"""The client of one process of the app workload: a writer, or the keeper of one instance of the application.

    start  start the instance, and return whether it is ready; the workload repeats this op until it is
    work   watch the instance for a second; start it again if it has exited and app.yaml allows this
    leave  send the instance the signal that asks it to end, and return whether it has ended; repeated until it has
    send, lag, read   as in `harness.clients.pipeline.client`

The application reports nothing to the harness. Its assignments, commits and transactions are therefore unknown. Only
the offsets that its group has committed at the end are known.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from harness.clients.app.process import AppProcess, argv
from harness.clients.app.records import InputRecords, OutputIds, States
from harness.clients.app.spec import App, filled
from harness.clients.confluent.pipeline import ConfluentPipeline
from harness.clients.confluent.pipeline_group import members
from harness.clients.exec.adapter import ENVIRONMENT
from harness.clients.exec.open_fields import secrets
from harness.clients.exec.process import NOBODY, account
from harness.clients.pipeline.client import PipelineClient
from harness.clients.pipeline.config import PipelineConfig, parse_pipeline_config
from harness.clients.pipeline.library import Row
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import FAIL, OK, Op
from harness.protocol.error_codes import ClientError

TICKS: Final = 10  # of an op that watches the instance
TICK_S: Final = 0.1
AGAIN_S: Final = 1.0  # from one start of an instance to the next
SETTLED_S: Final = 1.0  # without a condition, an instance that has run for this long is ready
SECRET_CHARACTERS: Final = 6  # shorter values of environment variables are not replaced in logs
_PR_SET_CHILD_SUBREAPER: Final = 36


class AppClient(PipelineClient):
    """The client of one process. Not thread-safe.

    state        folder of the slot, which the instance may write to; it is kept when the instance is replaced
    environment  names of further environment variables that the instance receives
    user         name of the user that the instance runs as, if this process runs as root
    """

    def __init__(
        self, pipeline: PipelineConfig, app: App, keys: int, state: Path, environment: tuple[str, ...], user: str
    ) -> None:
        super().__init__(pipeline, ConfluentPipeline())
        self._app, self._keys, self._state, self._user = app, keys, state, user
        self._inputs, self._outputs = InputRecords(app.input), OutputIds(app.output.id)
        self._states = None if app.state is None else States(app.state)
        self._running: AppProcess | None = None
        self._started_s: float | None = None  # of the first start that is not ready yet
        self._asked_s: float | None = None  # when the instance was asked to end
        self._last_start_s = -AGAIN_S
        self._held = ""  # the fault that has stopped the instance
        self._killed = False  # the instance did not end in time when a fault stopped it
        self._passed_on = {name: os.environ[name] for name in environment if name in os.environ}
        hidden = [value for value in self._passed_on.values() if len(value) >= SECRET_CHARACTERS]
        self._secrets = [*secrets(pipeline.settings), *hidden]

    def _handlers(self) -> Mapping[str, Callable[[Op], Op]]:
        return {**super()._handlers(), "start": self._start, "work": self._work, "leave": self._leave}

    # --- records ---

    def _record(self, id: int, key: int) -> tuple[bytes, bytes]:
        return self._inputs.make(id, key)

    def _rows(self, side: str, row: Row) -> list[Mapping[str, Any]]:
        """Returns one row: the id of the input record, its key (which follows from the id), the output's number, and,
        if the application shows one, the state.
        """
        _, _, value, key, headers = row
        id = self._inputs.id_of(value) if side == "input" else self._outputs.id_of(key, headers, value)
        number = 0 if side == "output" else None
        found: dict[str, Any] = {"id": id, "key": None if id is None else id % self._keys, "n": number}
        if self._states is not None:
            states = self._states
            found["state"] = states.of_input(value) if side == "input" else states.of_output(key, headers, value)
        return [found]

    # --- the instance ---

    def _start(self, op: Op) -> Op:
        ready, now = self._app.ready, time.monotonic()
        if self._started_s is None:
            self._started_s = now
        within_s = SETTLED_S if ready is None else ready.within
        until = now + TICKS * TICK_S
        try:
            if self._running is None:
                self._launch()
            while True:
                process = self._running
                assert process is not None
                if (code := process.exit_code()) is not None:
                    return op.with_(type=FAIL, error=f"{self._name()} {_ended(code)} before it was ready{self._said()}")
                waited = time.monotonic() - self._started_s
                if self._is_ready(process) if ready is not None else waited >= SETTLED_S:
                    self._started_s = None
                    return op.with_(type=OK, value={"ready": True})
                if ready is not None and waited > within_s:
                    text = f"{self._name()} was not ready within {within_s:g} s: {self._lacking()}{self._said()}"
                    return op.with_(type=FAIL, error=text)
                if time.monotonic() >= until:
                    return op.with_(type=OK, value={"ready": False})
                time.sleep(TICK_S)
        except (BadInput, ClientError) as error:
            return op.with_(type=FAIL, error=f"{self._name()}: {getattr(error, 'text', error)}")

    def answer(self, what: str, by: str) -> Mapping[str, Any]:
        """Notes the order of a fault, and returns the state of the instance. The next `work` executes the order.

        what  "stop": end the instance with its signal, and leave it stopped; "start": start it again; "report": nothing
        by    the fault that gives the order; it is refused while another fault has stopped the instance

        Returns {"refused", "running", "ready" (whether it is ready), "killed" (whether it did
        not end in time when it was last stopped), "members" (of its group; absent if the brokers do not answer)}.
        """
        refused = what != "report" and self._held not in ("", by)
        if what != "report" and not refused:
            self._held = by if what == "stop" else ""
            self._killed = False
        process = self._running
        running = process is not None and process.exit_code() is None
        settled = time.monotonic() - self._last_start_s >= SETTLED_S
        ready = running and process is not None and (settled if self._app.ready is None else self._is_ready(process))
        state: dict[str, Any] = {"refused": refused, "running": running, "ready": ready, "killed": self._killed}
        with contextlib.suppress(ClientError):
            state["members"] = members(self._pipeline.settings)
        return state

    def _work(self, op: Op) -> Op:
        if self._held:
            return self._hold(op)
        self._asked_s = None
        value: dict[str, Any] = {"running": True}
        try:
            if self._running is None:
                self._launch()
                value["started"] = True
        except (BadInput, ClientError) as error:
            time.sleep(AGAIN_S)
            return op.with_(type=FAIL, error=f"{self._name()}: {getattr(error, 'text', error)}")
        assert self._running is not None
        # Counted in steps: a process that was paused with this one gets time to act when both continue.
        for _ in range(TICKS):
            time.sleep(TICK_S)
            code = self._running.exit_code()
            if code is not None and value["running"]:
                self._running.note(_ended(code))
                self._running.kill()  # its children
                value |= {"running": False, "exit": code}
        if not value["running"] and self._app.restart and time.monotonic() - self._last_start_s >= AGAIN_S:
            self._running = None
        return op.with_(type=OK, value=value)

    def _hold(self, op: Op) -> Op:
        """Ends the instance with its signal, and does not start it again."""
        if self._running is None:
            time.sleep(TICKS * TICK_S)
        value = self._end()
        self._killed = self._killed or "killed" in value
        return op.with_(type=OK, value={"running": not value.pop("left"), "stopped_by_fault": True, **value})

    def _leave(self, op: Op) -> Op:
        return op.with_(type=OK, value=self._end())

    def _end(self) -> dict[str, Any]:
        """Asks the instance to end, and waits a second for it; kills it when its grace is over.

        Returns {"left": whether it has ended}, with "exit", its exit code, or "killed".
        """
        process, stop = self._running, self._app.stop
        if process is None:
            return {"left": True}
        if self._asked_s is None:
            self._asked_s = time.monotonic()
            process.note(f"sent {stop.signal}")
            process.terminate(stop.signal)
        for _ in range(TICKS):
            code = process.exit_code()
            late = code is None and time.monotonic() - self._asked_s > stop.grace
            if code is not None or late:
                process.note(f"was killed {stop.grace:g} s later" if code is None else _ended(code))
                process.kill()
                self._running, self._asked_s = None, None
                return {"left": True, "killed": True} if late else {"left": True, "exit": code}
            time.sleep(TICK_S)
        return {"left": False}

    def _launch(self) -> None:
        """Starts the instance. Raises BadInput or ClientError."""
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the instance's orphans become children of this
        app, values, folder = self._app, self._values(), Path(self._app.folder or ".")
        self._own_folder()
        environ = {
            **{name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            "HOME": str(self._state),
            "TMPDIR": str(self._state),
            "PYTHONUNBUFFERED": "1",
            **self._passed_on,
            **{name: filled(text, values) for name, text in app.environment.items()},
        }
        words = argv([filled(word, values) for word in shlex.split(app.command)], folder)
        log = self._pipeline.folder / "logs" / f"app-{values['instance']}.log"
        pattern = app.ready.log if app.ready is not None else None
        self._last_start_s = time.monotonic()
        self._running = AppProcess(words, environ, folder, self._user, log, self._secrets, pattern)

    def _own_folder(self) -> None:
        """Creates the instance's state folder, which belongs to the user that the instance runs as."""
        self._state.mkdir(mode=0o700, exist_ok=True)
        runs_as = account(self._user)
        if runs_as is not None:
            os.chown(self._state, runs_as.pw_uid, runs_as.pw_gid)

    def _values(self) -> dict[str, Any]:
        pipeline = self._pipeline
        return {
            "bootstrap": pipeline.settings.bootstrap,
            "input": ",".join(pipeline.input_topics),
            "output": pipeline.output_topic,
            "group": pipeline.settings.group_id,
            "instance": self._number(),
            "state": self._state,
            "run": pipeline.settings.run,
        }

    def _number(self) -> int:
        """Returns the instance's number. The slots of the instances follow those of the writers."""
        return self._pipeline.slot - (self._pipeline.slots - self._pipeline.instances)

    def _name(self) -> str:
        return f"instance {self._number()} of the application"

    def _is_ready(self, process: AppProcess) -> bool:
        ready = self._app.ready
        assert ready is not None
        if ready.log is not None:
            return process.matched.is_set()
        if ready.port is not None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port()), TICK_S):
                return True
            return False
        with contextlib.suppress(ClientError):
            return members(self._pipeline.settings) >= self._pipeline.instances
        return False

    def _port(self) -> int:
        assert self._app.ready is not None
        return int(filled(str(self._app.ready.port), self._values()))

    def _lacking(self) -> str:
        ready = self._app.ready
        assert ready is not None
        if ready.log is not None:
            return f"no line of its output matched {ready.log!r}"
        if ready.port is not None:
            return f"nothing accepts connections on port {self._port()}"
        return f"the group {self._pipeline.settings.group_id} has fewer than {self._pipeline.instances} members"

    def _said(self) -> str:
        """Returns the end of a message: the last lines that the instance printed, and where to find all of them."""
        lines = [] if self._running is None else [line[:200] for line in self._running.last_lines]
        where = f"see logs/app-{self._number()}.log of the run"
        return f"; it printed nothing; {where}" if not lines else f"; it printed last: {' | '.join(lines)}; {where}"

    def close(self) -> None:
        """Kills the instance and its children."""
        process, self._running = self._running, None
        try:
            if process is not None:
                process.kill()
        finally:
            super().close()


def _ended(code: int) -> str:
    return f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"


def open_client(config: Mapping[str, Any]) -> AppClient:
    """Opens the client of one process."""
    options = config["logic_options"]
    app = App.model_validate(options["app"])
    pipeline = parse_pipeline_config({**config, "group": filled(app.group, {"run": config["run"]})})
    state = Path(config["app_state"]) / str(pipeline.slot)
    return AppClient(
        pipeline, app, options["keys"], state, tuple(config.get("client_env", ())), config.get("client_user", NOBODY)
    )
