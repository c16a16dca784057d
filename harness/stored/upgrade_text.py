"""Describes the steps of an upgrade in words: versions of the servers, and levels of the features."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any


def of_value(data: Mapping[str, Any]) -> list[str]:
    """Returns what a completed op of an upgrade says; [] for other ops."""
    return [*_versions(data), *_levels(data), *_migration(data)]


def _versions(data: Mapping[str, Any]) -> Iterator[str]:
    before, after = data.get("from"), data.get("version")
    if isinstance(before, str) and isinstance(after, str):
        yield f"Kafka {before} to {after}"
    if isinstance(data.get("ended"), str):
        yield f"the server ended at its start: {data['ended']}"
    yield from _grouped(data.get("versions"))
    pinned = data.get("pinned")
    if isinstance(pinned, list):
        yield f"protocol pinned on {', '.join(map(str, pinned))}"


def _grouped(by_server: Any) -> Iterator[str]:
    """Yields which servers have which value, for a mapping from servers to values."""
    if isinstance(by_server, dict):
        servers = defaultdict(list)
        for server, value in by_server.items():
            servers[str(value)].append(str(server))
        yield "now " + ", ".join(f"{', '.join(names)}: {value}" for value, names in servers.items())


def _migration(data: Mapping[str, Any]) -> Iterator[str]:
    before, after = data.get("mode_before"), data.get("mode")
    if isinstance(before, str) and isinstance(after, str):
        yield f"mode {before} to {after}"
    for name, text in (("provisioned", "controllers started"), ("retired", "stopped for good")):
        if isinstance(data.get(name), list):
            yield text
    if data.get("dual_write"):
        yield f"dual write: {data['dual_write']}"
    if isinstance(data.get("deleted_in_zookeeper"), list):
        yield f"controllers removed; deleted in ZooKeeper: {', '.join(map(str, data['deleted_in_zookeeper']))}"
    if isinstance(data.get("why"), str) and isinstance(data.get("modes"), dict):
        yield str(data["why"])
    yield from _grouped(data.get("modes"))


def _levels(data: Mapping[str, Any]) -> Iterator[str]:
    asked, before = data.get("asked"), data.get("levels_before")
    if isinstance(asked, dict) and isinstance(before, dict):
        yield ", ".join(f"{name} {before.get(name, 0)} to {level}" for name, level in asked.items())
    if isinstance(data.get("refused"), str):
        yield f"refused: {data['refused']}"
    if isinstance(data.get("why"), str) and isinstance(data.get("versions"), dict):
        yield str(data["why"])
