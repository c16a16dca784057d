"""Parses what a server's log says about log recovery at startup. Written for Kafka 3.9 to 4.3.

The lines are those of LogManager and LogLoader. Their wording has not changed since KAFKA-615. Segments of topics that
do not belong to the run are only counted (`others`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

MESSAGES_MAX: Final = 5
LINE_MAX: Final = 400
STARTED: Final = "Kafka Server started"
_SKIPPED: Final = re.compile(r"Skipping recovery of (\d+) logs from (\S+) since clean shutdown file was found")
_UNCLEAN: Final = re.compile(r"Recovering (\d+) logs from (\S+) since no clean shutdown file was found")
_SEGMENT: Final = re.compile(r"Recovering unflushed segment (\d+)\. \d\S* recovered for (\S+?)\.(?: |$)")
_LOADED: Final = re.compile(r"Completed load of .*[(/]dir=\S*/([^/,]+),.* in (\d+)ms \(")
_ALL: Final = re.compile(r"Loaded (\d+) logs in (\d+)ms")
# Messages about damage, by the names that a scenario's expectations use.
DAMAGE_MESSAGES: Final = {
    "corrupt": "Corruption found in segment",
    "truncated-invalid": "invalid bytes at the end of segment",
    "invalid-messages": "Found invalid messages in log segment",
    "index-rebuilt": "recovering segment and rebuilding index files",
    "point-unread": "Error occurred while reading recovery-point-offset-checkpoint file",
    "malformed": "Malformed line in checkpoint file",
    "snapshot-refused": "Failed to load producer snapshot",
    "truncating": "Truncating to offset",
    "fetched-bad": "Found invalid messages during fetch for partition",
    "directory-failed": "Stopping serving logs in dir",
    "directory-refused": "Failed to create or validate data directory",
    "no-directory": "Shutdown broker because all log dirs",
    "no-metadata": "Shutdown broker because the metadata log dir",
    "no-features": "No FeatureLevelRecord for metadata.version was found",
    "no-room": "No space left on device",
    # No space left for a page of a memory-mapped file, such as an index.
    "no-page": "a fault occurred in a recent unsafe memory access operation",
}


def read(lines: Iterable[str], prefix: str) -> dict[str, Any]:
    """Returns what the lines say about recovery. The names of the run's topics begin with `prefix`.

    clean     number of logs in log directories with the clean shutdown file
    unclean   number of logs in log directories without this file
    segments  partition -> base offsets of its recovered segments
    others    number of recovered segments of all other topics, such as internal ones
    load_ms   partition -> time in ms to load its log
    all_ms    time in ms to load all logs
    said      name in DAMAGE_MESSAGES -> the first lines that contain the message; names without such lines are omitted
    started   whether the server logged that it has started
    """
    findings: dict[str, Any] = {
        "clean": 0,
        "unclean": 0,
        "segments": {},
        "others": 0,
        "load_ms": {},
        "all_ms": None,
        "said": {},
        "started": False,
    }
    for line in lines:
        if match := _SEGMENT.search(line):
            base, name = int(match[1]), match[2]
            if name.startswith(prefix):
                findings["segments"].setdefault(name, []).append(base)
            else:
                findings["others"] += 1
        elif match := _LOADED.search(line):
            if match[1].startswith(prefix):
                findings["load_ms"][match[1]] = int(match[2])
        elif match := _ALL.search(line):
            findings["all_ms"] = (findings["all_ms"] or 0) + int(match[2])
        elif match := _SKIPPED.search(line):
            findings["clean"] += int(match[1])
        elif match := _UNCLEAN.search(line):
            findings["unclean"] += int(match[1])
        elif STARTED in line:
            findings["started"] = True
        for name, text in DAMAGE_MESSAGES.items():
            if text in line and len(findings["said"].setdefault(name, [])) < MESSAGES_MAX:
                findings["said"][name].append(line[:LINE_MAX])
    return findings
