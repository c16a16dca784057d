"""Reads the connection properties of an external cluster: a file of librdkafka's properties, including secrets.

    security.protocol=SASL_SSL
    sasl.mechanisms=PLAIN
    sasl.username=me
    sasl.password=${KAFKA_PASSWORD}
    ssl.ca.location=/etc/ssl/certs/ca.pem

The values are sent to the clients over their sockets only. The values are never written to a file, a log or a command
line. Names of properties: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.clients import properties_file
from harness.model.errors_and_exit_codes import BadInput

SHORT: Final = 3  # length of the longest secret that is replaced only as a whole word
# Properties for connection and authentication; passed by --producer-config, they would be written into plan.yaml.
PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.")
_NOT_SECRET: Final = frozenset({"broker.address.family", "client.dns.lookup", "client.rack", "socket.keepalive.enable"})
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
_FILES: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
)
_JAVAS: Final = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location, PEM files",
}


def about_connecting(name: str) -> bool:
    """Returns whether a property configures the connection. The values of such properties may be secret."""
    return name.startswith(PREFIXES)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns property -> value, as read from a file by `properties_file.load`.

    Raises BadInput, also if a property names a file that does not exist.
    """
    found = properties_file.load(path, environment, _check)
    for name in _FILES:
        value = found.get(name, "")
        if value and value != "probe" and not os.access(value, os.R_OK):
            wrong = "cannot be read" if Path(value).exists() else "does not exist"
            raise BadInput(f"--client-config {path}: the file of {name} {wrong}; give the path of an existing file")
    return found


def _check(name: str, where: str) -> None:
    if name in _JAVAS:
        raise BadInput(f"{where}: {name} is a property of Java clients; use librdkafka's: {_JAVAS[name]}")
    if name in ("bootstrap.servers", "metadata.broker.list"):
        raise BadInput(f"{where}: remove {name}, and give the brokers with --bootstrap")
    if not about_connecting(name) and name not in _NOT_SECRET:
        close = difflib.get_close_matches(name, [*_COMMON, *sorted(_NOT_SECRET)], n=1)
        hint = f"did you mean {close[0]}?" if close else "use --producer-config and --consumer-config"
        raise BadInput(f"{where}: {name} is not a connection property: {hint}")


def hidden(text: str, connection: Mapping[str, str]) -> str:
    """Returns a text without secrets: the value of each connection property is replaced with the property's name.

    text  such as the message of an error that a library raised
    """
    public = ("security.protocol", "sasl.mechanisms", "sasl.mechanism")
    return redacted(text, {value: f"<{name}>" for name, value in connection.items() if name not in public})


def redacted(text: str, replacements: Mapping[str, str]) -> str:
    """Returns a text in which each secret is replaced.

    A short secret is replaced only where it is a whole word, because replacing a single letter, for example, everywhere
    would garble the text.

    replacements  secret -> what replaces it
    """
    secrets = sorted(filter(None, replacements), key=len, reverse=True)
    if not secrets:
        return text
    patterns = (re.escape(one) if len(one) > SHORT else rf"(?<!\w){re.escape(one)}(?!\w)" for one in secrets)
    return re.sub("|".join(patterns), lambda match: replacements[match[0]], text)
