"""How to connect to a cluster that others run: a file of librdkafka's properties, with its secrets.

    security.protocol=SASL_SSL
    sasl.mechanisms=PLAIN
    sasl.username=me
    sasl.password=${KAFKA_PASSWORD}
    ssl.ca.location=/etc/ssl/certs/ca.pem

One `key=value` a line; a line that begins with # is a comment; `${NAME}` is a variable of the environment.
Values go to the clients over their sockets, and nowhere else: to no file, no log and no command line.
Names of properties: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.model.errors import BadInput

BYTES_MAX: Final = 1 << 20
# What says how to connect and who one is; by --producer-config it would be written into plan.yaml.
PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.")
_BESIDE: Final = frozenset(
    {"broker.address.family", "client.dns.lookup", "client.rack", "socket.keepalive.enable"}
)
_COMMON: Final = (
    "security.protocol",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
_JAVAS: Final = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location, PEM files",
}
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


def about_connecting(name: str) -> bool:
    """Whether a property says how to connect, and so may be a secret."""
    return name.startswith(PREFIXES)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The properties in a file, variables filled in. Raises BadInput with file and line, and no value."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(f"--client-config {path}: cannot be read ({error.strerror})") from None
    if len(raw) > BYTES_MAX:
        raise BadInput(f"--client-config {path}: {len(raw)} bytes; at most {BYTES_MAX}")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"--client-config {path}: not UTF-8 text: write key=value, one a line") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"--client-config {path}:{number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise BadInput(f"{where}: write it as key=value")
        if name in found:
            raise BadInput(f"{where}: {name} stands twice")
        _check(name, where)
        found[name] = _filled(value, where, environment)
    return found


def _check(name: str, where: str) -> None:
    if name in _JAVAS:
        raise BadInput(f"{where}: {name} is for Java clients; these are librdkafka's: {_JAVAS[name]}")
    if name in ("bootstrap.servers", "metadata.broker.list"):
        raise BadInput(f"{where}: give the brokers as --bootstrap, and leave {name} out")
    if not about_connecting(name) and name not in _BESIDE:
        close = difflib.get_close_matches(name, [*_COMMON, *sorted(_BESIDE)], n=1)
        hint = f"did you mean {close[0]}?" if close else "use --producer-config and --consumer-config"
        raise BadInput(f"{where}: {name} does not say how to connect: {hint}")


def _filled(value: str, where: str, environment: Mapping[str, str]) -> str:
    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise BadInput(f"{where}: the environment has no {match[1]}: set it, and try again")
        return environment[match[1]]

    return _VARIABLE.sub(variable, value)


def hidden(text: str, connection: Mapping[str, str]) -> str:
    """A library's words without the values of properties that may be secrets."""
    for name, value in connection.items():
        if value and name not in ("security.protocol", "sasl.mechanisms", "sasl.mechanism"):
            text = text.replace(value, f"<{name}>")
    return text
