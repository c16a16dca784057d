"""A connection to one host by ssh: commands, and streams of bytes, each with a time limit.

Keys only, and only to a host whose own key is known. A connection that broke is made again, once for each
command; so commands must bear to be repeated. Errors name the host. Safe to use from many threads.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import paramiko

from harness.cluster.ssh_hosts import Host
from harness.model.errors import ClusterTrouble, Missing
from harness.model.protocols import CommandResult

Sink = Callable[[bytes], None]
Source = Callable[[Sink], None]  # hands everything to a sink, piece by piece

_CONNECT_S: Final = 10.0
_SYSTEM_KNOWN: Final = Path("/etc/ssh/ssh_known_hosts")
_OUTPUT_BYTES: Final = 1 << 20
_KEEPALIVE_S: Final = 5
_SILENCE_MS: Final = 15_000  # unacknowledged for so long, a connection is broken

# What goes wrong is told by us, in a sentence; paramiko would print traceback after traceback.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)


class _Unknown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Refuses a host whose key is not in any file."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        host = self._host
        file = host.known_hosts or "~/.ssh/known_hosts"
        raise Missing(
            f"{host.name} ({host.at}): its host key is not in {file}. It shows {key.get_name()} "
            f"{fingerprint(key)}: if that is right, `ssh-keyscan -p {host.port} {host.address} >> {file}`"
        )


class Link:
    """Connects when it is first used."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._client: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def connect(self) -> None:
        """Be connected. Raises Missing, which says what to do."""
        self._transport()

    def close(self) -> None:
        """Safe to repeat; nothing can be asked any more."""
        with self._lock:
            self._closed = True
            self._drop()

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
        """Run a command to its end. Raises ClusterTrouble when it cannot run or end in time."""
        out = bytearray()

        def keep(chunk: bytes) -> None:
            out.extend(chunk[: _OUTPUT_BYTES - len(out)])

        def give(sink: Sink) -> None:
            sink(stdin)

        code, err = self.stream(command, timeout_s, give, keep, out.clear)
        return CommandResult(code, out.decode(errors="replace"), err)

    def stream(
        self, command: str, timeout_s: float, give: Source, take: Sink, again: Callable[[], None]
    ) -> tuple[int, str]:
        """Run a command that reads from `give` and writes to `take`; its exit code, and what it complains of.

        `again` is called when the connection broke and all begins anew. Raises ClusterTrouble.
        """
        deadline = time.monotonic() + timeout_s
        for last in (False, True):
            try:
                return self._once(command, deadline, give, take)
            except TimeoutError:
                raise self._trouble(f"no end in {timeout_s:.0f} s: {command[:60]}") from None
            except (paramiko.SSHException, OSError, EOFError) as error:
                with self._lock:
                    self._drop()
                if last or self._closed:
                    raise self._trouble(f"the connection broke ({error or 'closed'})") from None
                again()
            except Missing as error:  # it cannot be reached again
                raise ClusterTrouble(str(error)) from None
        raise AssertionError

    def _once(self, command: str, deadline: float, give: Source, take: Sink) -> tuple[int, str]:
        with contextlib.closing(self._transport().open_session(timeout=_left(deadline))) as channel:
            channel.settimeout(_left(deadline))
            channel.exec_command(command)
            complaints = bytearray()
            reader = threading.Thread(target=_drain, args=(channel, complaints), daemon=True)
            reader.start()
            feeding = threading.Thread(target=_feed, args=(channel, deadline, give), daemon=True)
            feeding.start()
            while True:
                channel.settimeout(_left(deadline))
                chunk = channel.recv(1 << 16)
                if not chunk:
                    break
                take(chunk)
            if not channel.status_event.wait(_left(deadline)):
                raise TimeoutError
            code = channel.recv_exit_status()
            if code == -1:
                raise paramiko.SSHException("closed")
            reader.join(_left(deadline))
            feeding.join(_left(deadline))
            return code, complaints.decode(errors="replace").strip()

    def _transport(self) -> Any:
        with self._lock:
            if self._closed:
                raise self._trouble("the connection was closed")
            if self._client is not None and self._client.get_transport().is_active():
                return self._client.get_transport()
            self._drop()
            self._client = connect(self.host)
            return self._client.get_transport()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _trouble(self, text: str) -> ClusterTrouble:
        return ClusterTrouble(f"{self.host.name} ({self.host.at}): {text}")


def connect(host: Host) -> Any:
    """A connected paramiko client. Raises Missing, which says what is wrong and what to do."""
    who = f"{host.name} ({host.at})"
    client = paramiko.SSHClient()
    _load_known(client, host)
    client.set_missing_host_key_policy(_Unknown(host))
    if host.key is not None:
        _check_key(host, who)
    try:
        connection = socket.create_connection((resolve(host.address), host.port), _CONNECT_S)
    except socket.gaierror as error:
        raise Missing(f"{who}: there is no such address ({error.strerror}): mend `address`") from None
    except OSError as error:
        why = error.strerror or f"no answer in {_CONNECT_S:.0f} s"
        raise Missing(
            f"{who} cannot be reached ({why}): is it on, does its sshd listen there, does a firewall let you?"
        ) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    try:
        client.connect(
            host.address, host.port, host.user, key_filename=host.key, sock=connection,
            allow_agent=host.key is None, look_for_keys=host.key is None,
            timeout=_CONNECT_S, banner_timeout=_CONNECT_S, auth_timeout=_CONNECT_S,
        )  # fmt: skip
    except BaseException as error:
        client.close()
        connection.close()
        raise _refusal(host, who, error) from None
    client.get_transport().set_keepalive(_KEEPALIVE_S)
    return client


def resolve(address: str) -> str:
    """The IPv4 address that a name has here: packet filters and brokers are told numbers. Raises gaierror."""
    found = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_STREAM)
    return str(found[0][4][0])


def fingerprint(key: Any) -> str:
    """As ssh shows it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _load_known(client: Any, host: Host) -> None:
    """The known host keys. Raises Missing for a file that was named and cannot be read."""
    if host.known_hosts is None:
        for path in (Path("~/.ssh/known_hosts").expanduser(), _SYSTEM_KNOWN):
            with contextlib.suppress(OSError):
                client.load_system_host_keys(str(path))
        return
    try:
        client.load_host_keys(host.known_hosts)
    except OSError as error:
        raise Missing(f"{host.name}: known_hosts {host.known_hosts}: {error.strerror}") from None


def _check_key(host: Host, who: str) -> None:
    """The key file can be read, and by nobody else. Raises Missing."""
    assert host.key is not None
    path = Path(host.key)
    try:
        mode = path.stat().st_mode
        path.read_bytes()
    except OSError as error:
        raise Missing(f"{who}: key {path}: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise Missing(f"{who}: key {path}: others may read it: `chmod 600 {path}`")


def _refusal(host: Host, who: str, error: BaseException) -> BaseException:
    """The error as one that a user can do something about."""
    if isinstance(error, paramiko.BadHostKeyException):
        file = host.known_hosts or "~/.ssh/known_hosts"
        name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
        return Missing(
            f"{who}: its host key has changed: {file} has {fingerprint(error.expected_key)}, it shows "
            f"{fingerprint(error.key)}. If you know why, `ssh-keygen -f {file} -R '{name}'` and "
            "add the new one; otherwise somebody else may be answering"
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return Missing(
            f"{who}: key {host.key} has a passphrase: `ssh-add` it to an ssh-agent, and leave `key` out"
        )
    if isinstance(error, paramiko.AuthenticationException):
        used = f"key {host.key}" if host.key else "the keys of ssh-agent and ~/.ssh"
        return Missing(
            f"{who} refuses {used}: add the public key to ~{host.user}/.ssh/authorized_keys there, or mend "
            "`user` or `key`"
        )
    if isinstance(error, paramiko.SSHException) and "No authentication methods" in str(error):
        return Missing(
            f"{who}: there is no key to show: name one with `key`, or start an ssh-agent that has one"
        )
    if isinstance(error, paramiko.SSHException) and host.key and "key" in str(error).lower():
        return Missing(f"{who}: key {host.key} is no private key that can be used ({error})")
    if isinstance(error, paramiko.SSHException | OSError | EOFError | ValueError):
        return Missing(f"{who} does not speak ssh as it should ({error or type(error).__name__})")
    return error


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _drain(channel: Any, into: bytearray) -> None:
    """Read what a command complains of; the connection's errors are its reader's to meet."""
    with contextlib.suppress(OSError, EOFError):
        while chunk := channel.recv_stderr(1 << 14):
            into.extend(chunk[: _OUTPUT_BYTES - len(into)])


def _feed(channel: Any, deadline: float, give: Source) -> None:
    """Write a command's input; it may end before it has read everything."""

    def sink(data: bytes) -> None:
        channel.settimeout(_left(deadline))
        channel.sendall(data)

    try:
        with contextlib.suppress(OSError, EOFError):
            give(sink)
    finally:
        with contextlib.suppress(OSError, EOFError):
            channel.shutdown_write()
