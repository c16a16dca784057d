"""Entering a host by ssh: with a key, and only if the host's own key is known. Refusals say what to do."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import socket
import stat
from pathlib import Path
from typing import Any, Final

import paramiko

from harness.cluster.ssh.hosts import Host
from harness.model.errors_and_exit_codes import Missing

_CONNECT_S: Final = 10.0
_SYSTEM_KNOWN: Final = Path("/etc/ssh/ssh_known_hosts")
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
            host.address,
            host.port,
            host.user,
            key_filename=host.key,
            sock=connection,
            allow_agent=host.key is None,
            look_for_keys=host.key is None,
            timeout=_CONNECT_S,
            banner_timeout=_CONNECT_S,
            auth_timeout=_CONNECT_S,
        )
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
        return Missing(f"{who}: key {host.key} has a passphrase: `ssh-add` it to an ssh-agent, and leave `key` out")
    if isinstance(error, paramiko.AuthenticationException):
        used = f"key {host.key}" if host.key else "the keys of ssh-agent and ~/.ssh"
        return Missing(
            f"{who} refuses {used}: add the public key to ~{host.user}/.ssh/authorized_keys there, or mend "
            "`user` or `key`"
        )
    if isinstance(error, paramiko.SSHException) and "No authentication methods" in str(error):
        return Missing(f"{who}: there is no key to show: name one with `key`, or start an ssh-agent that has one")
    if isinstance(error, paramiko.SSHException) and host.key and "key" in str(error).lower():
        return Missing(f"{who}: key {host.key} is no private key that can be used ({error})")
    if isinstance(error, paramiko.SSHException | OSError | EOFError | ValueError):
        return Missing(f"{who} does not speak ssh as it should ({error or type(error).__name__})")
    return error
