"""Logs in to a host through ssh, with a key, and only if the host's own key is known. Errors say what to do."""

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
_SILENCE_MS: Final = 15_000  # a connection with data unacknowledged for this long is considered broken

# We report errors ourselves, in one sentence; paramiko would log tracebacks.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)


class _Unknown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Rejects a host whose key is not in any known_hosts file."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        host = self._host
        file = host.known_hosts or "~/.ssh/known_hosts"
        raise Missing(
            f"{host.name} ({host.at}): its host key is not in {file}. The host presents {key.get_name()} "
            f"{fingerprint(key)}: if that is correct, `ssh-keyscan -p {host.port} {host.address} >> {file}`"
        )


def connect(host: Host) -> Any:
    """Returns a paramiko client that is connected to the host. Raises Missing, with the reason and what to do."""
    who = f"{host.name} ({host.at})"
    client = paramiko.SSHClient()
    _load_known(client, host)
    client.set_missing_host_key_policy(_Unknown(host))
    if host.key is not None:
        _check_key(host, who)
    try:
        connection = socket.create_connection((resolve(host.address), host.port), _CONNECT_S)
    except socket.gaierror as error:
        raise Missing(f"{who}: the address cannot be resolved ({error.strerror}): correct `address`") from None
    except OSError as error:
        why = error.strerror or f"no answer within {_CONNECT_S:.0f} s"
        raise Missing(
            f"{who} cannot be reached ({why}): check that it is on, that sshd listens there, "
            "and that no firewall blocks it"
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
    """Returns the IPv4 address of a host name. Raises gaierror.

    Packet filters and brokers need addresses, not names.
    """
    found = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_STREAM)
    return str(found[0][4][0])


def fingerprint(key: Any) -> str:
    """Returns a key's fingerprint, in ssh's format."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _load_known(client: Any, host: Host) -> None:
    """Loads the known host keys. Raises Missing if a known_hosts file named in the hosts file cannot be read."""
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
    """Checks that this user can read the key file, and that other users cannot. Raises Missing.

    `who`: user and host, for the message.
    """
    assert host.key is not None
    path = Path(host.key)
    try:
        mode = path.stat().st_mode
        path.read_bytes()
    except OSError as error:
        raise Missing(f"{who}: key {path}: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise Missing(f"{who}: key {path}: other users can read it: `chmod 600 {path}`")


def _refusal(host: Host, who: str, error: BaseException) -> BaseException:
    """Translates an error of the ssh library into an error that tells the user what to do. `who`: user and host."""
    if isinstance(error, paramiko.BadHostKeyException):
        file = host.known_hosts or "~/.ssh/known_hosts"
        name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
        return Missing(
            f"{who}: its host key has changed: {file} has {fingerprint(error.expected_key)}, the host presents "
            f"{fingerprint(error.key)}. If this is expected, run `ssh-keygen -f {file} -R '{name}'` and "
            "add the new key; otherwise another machine may be answering"
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return Missing(f"{who}: key {host.key} has a passphrase: `ssh-add` it to an ssh-agent, and omit `key`")
    if isinstance(error, paramiko.AuthenticationException):
        used = f"key {host.key}" if host.key else "the keys of ssh-agent and ~/.ssh"
        return Missing(
            f"{who} rejects {used}: add the public key to ~{host.user}/.ssh/authorized_keys there, or correct "
            "`user` or `key`"
        )
    if isinstance(error, paramiko.SSHException) and "No authentication methods" in str(error):
        return Missing(f"{who}: no private key was found: name one with `key`, or start an ssh-agent that has one")
    if isinstance(error, paramiko.SSHException) and host.key and "key" in str(error).lower():
        return Missing(f"{who}: key {host.key} is not a usable private key ({error})")
    if isinstance(error, paramiko.SSHException | OSError | EOFError | ValueError):
        return Missing(f"{who}: the ssh handshake failed ({error or type(error).__name__})")
    return error
