"""Adapter for client programs: any library, in any language, as a process that reads and writes lines.

The protocol is described in docs/use/your-own-client.md. Each client of a run has a process of its own
(`process.ClientProcess`), with at most one producer and one consumer. The program reports what its library says. What
an error proves is decided here, by `harness.clients.error_outcomes` and `never_sent`. Admin and metadata requests go
through librdkafka, whichever client is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from harness.clients.exec import command, open_fields
from harness.clients.exec.consumer import ExecConsumer
from harness.clients.exec.process import BROKE_PROTOCOL, NOBODY, ClientProcess
from harness.clients.exec.producer import ExecProducer
from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.pipeline_app import ports
from harness.protocol.error_codes import ClientError

PROTOCOL: Final = 1
HELLO_S: Final = 30.0  # a JVM or an interpreter takes seconds to start on a busy machine
CAPABILITIES: Final = (
    "produce",
    "consume",
    "idempotence",
    "transactions",
    "groups",
    "groups-consumer",
    "send-offsets",
)
ENVIRONMENT: Final = ("PATH", "LANG")


class Exec:
    """`client_protocols.Library` that uses a client program.

    The first producer or consumer starts the process. If the process has ended, the next producer or
    consumer starts a new one.

    environment  names of environment variables that the program receives in addition to the usual ones
    user         name of the user as which the program runs, if this process runs as root
    """

    def __init__(
        self, argv: Sequence[str], made: Settings, environment: Sequence[str] = (), user: str = NOBODY
    ) -> None:
        self._argv, self._settings, self._user = argv, made, user
        self._environ = {name: os.environ[name] for name in (*ENVIRONMENT, *environment) if name in os.environ}
        self._process: ClientProcess | None = None
        self.facts: dict[str, Any] = {}

    def running(self) -> ClientProcess:
        """Returns the running process. Starts it, and sends it `hello`, if it does not run. Raises ClientError."""
        if self._process is None or self._process.ended:
            secrets = open_fields.secrets(self._settings)
            process = ClientProcess(self._argv, self._environ, secrets, self._user, self._settings.run)
            try:
                self.facts = _facts(process.request("hello", {"protocol": PROTOCOL}, HELLO_S))
            except ClientError:
                process.kill()
                raise
            process.library = self.facts["library"]
            self._process = process
        return self._process

    def producer(self, made: Settings) -> ExecProducer:
        return ExecProducer(self.running(), made)

    def consumer(self, made: Settings) -> ExecConsumer:
        return ExecConsumer(self.running(), made)

    def admin(self, made: Settings) -> Any:
        from harness.clients.confluent.adapter import Confluent

        return Confluent().admin(made)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()


def _facts(ok: Mapping[str, Any]) -> dict[str, Any]:
    """Returns library, version and capabilities from an answer to `hello`. Raises ClientError if it is invalid."""
    protocol, capabilities = ok.get("protocol"), ok.get("capabilities")
    if protocol != PROTOCOL:
        raise ClientError(BROKE_PROTOCOL, f"the program speaks protocol {protocol!r}, not {PROTOCOL}", "fatal")
    texts = isinstance(capabilities, list) and all(isinstance(each, str) for each in capabilities)
    if not texts or not all(isinstance(ok.get(name), str) for name in ("library", "version")):
        raise ClientError(BROKE_PROTOCOL, "the answer to `hello` needs library, version and capabilities", "fatal")
    return {name: ok[name] for name in ("library", "version", "capabilities")}


def needed(config: Mapping[str, Any]) -> list[str]:
    """Returns the names of the capabilities that a run needs from a client program, such as "transactions".

    config  the fields idempotence, txn, sub_via, consumer_config and, for the pipeline workload, logic_options of the
            clients' configuration
    """
    protocol = str(config["consumer_config"].get(open_fields.GROUP_PROTOCOL, "classic")).lower()
    pipeline = config.get("logic_options", {}).get("options", {})
    txn = config["txn"] or pipeline.get("mode") in ports.TRANSACTIONAL
    found = ["produce", "consume"]
    found += ["idempotence"] if config["idempotence"] or pipeline else []
    found += ["transactions"] if txn else []
    if "subscribe" in config["sub_via"]:
        found += ["groups-consumer" if protocol == "consumer" else "groups"]
        found += ["send-offsets"] if txn else []
    return found


def refuse_incapable(client: str, facts: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raises BadInput if a client program lacks a capability that a run needs.

    client  "exec:" and the program's command
    facts   the program's answer to `hello`
    config  see `needed`
    """
    missing = [each for each in needed(config) if each not in facts["capabilities"]]
    if missing:
        raise BadInput(f"--client {client}: {facts['library']} {facts['version']} has no {', '.join(missing)}")


@lru_cache  # an experiment starts the same program in each of its runs
def greet(client: str, environment: Sequence[str] = (), user: str = NOBODY) -> dict[str, Any]:
    """Returns {"library", "version", "capabilities"} of the client program that `client` ("exec:COMMAND") names.

    Starts the program, greets it with `hello`, and stops it again. Raises BadInput if the program cannot be started or
    does not answer `hello`.
    """
    library = Exec(command.argv(client), Settings(bootstrap="", run=""), environment, user)
    try:
        library.running()
    except ClientError as error:
        raise BadInput(f"--client {client}: {error.text}") from None
    finally:
        library.close()
    return library.facts


def problem(config: Mapping[str, Any]) -> str:
    """Returns why a client program cannot be used with the settings, or "" if it can.

    Starts the program, greets it with `hello`, and lets it open a producer and a consumer.
    """
    try:
        library = program_of(config)
    except BadInput as error:
        return str(error)
    made = parse_settings(config)
    try:
        library.running()
        library.producer(made).close()
        library.consumer(made).close(leave=False)
    except (BadInput, ClientError) as error:
        return f"--client {config['library']}: {error}"
    finally:
        library.close()
    return ""


def program_of(config: Mapping[str, Any]) -> Exec:
    """Returns the client program that a worker's configuration names, not started yet. Raises BadInput."""
    argv = command.argv(str(config["library"]))
    return Exec(argv, parse_settings(config), config.get("client_env", ()), config.get("client_user", NOBODY))


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `queue.QueueClient`."""
    from harness.clients.queue import QueueClient

    library = program_of(config)
    return QueueClient(parse_settings(config), library, library.close)
