"""Reads a file of connection properties for Kafka's Java client, including secrets.

Names of properties: https://kafka.apache.org/documentation/#consumerconfigs
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.clients import properties_file
from harness.model.errors_and_exit_codes import BadInput

# Properties that Spark's Kafka source sets itself; it rejects them, or they would break it.
OWNED: Final = frozenset(
    [
        "bootstrap.servers",
        "group.id",
        "auto.offset.reset",
        "enable.auto.commit",
        "isolation.level",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
    ]
)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns property -> value, as read from a file by `properties_file.load`."""
    return properties_file.load(path, environment, _check)


def _check(name: str, where: str) -> None:
    if name in OWNED:
        raise BadInput(f"{where}: {name} is set by the harness; omit it")
