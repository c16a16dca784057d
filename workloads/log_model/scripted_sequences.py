"""Short scripted sequences of actions that rarely occur by chance. Some come from known bugs, others exercise
transactions.

Each sequence is a list of (f, arguments). It is used as it is written here, except for the partition and the records,
which are drawn from the seed. `age` is the age of the records, in ms unless stated otherwise.
"""

from __future__ import annotations

from typing import Any, Final

HOUR_MS: Final = 3_600_000
_OLD: Final = 10_000
_TXN: Final[dict[str, Any]] = {"producer": 3, "txn": True}
_END: Final[tuple[str, dict[str, Any]]] = ("advance", {"at": "end"})

TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (  # a segment that has not expired precedes expired ones, until DeleteRecords removes it
        ("append", {"age": -20_000}),
        ("roll", {}),
        ("append", {"age": _OLD}),
        ("roll", {}),
        _END,
        ("delete-records", {"at": "second"}),
        ("check", {}),
        ("check", {}),
    ),
    (  # everything has expired, including the active segment
        ("append", {"age": _OLD}),
        _END,
        ("delete-records", {"at": "hw"}),
        ("append", {"age": _OLD}),
        _END,
        ("check", {}),
        ("append", {"age": 0}),
        ("read-all", {}),
    ),
    (  # log start in the middle of a segment, and a restart
        ("append", {"age": 0}),
        _END,
        ("delete-records", {"at": "hw-1"}),
        ("restart", {"how": "clean"}),
        ("read-all", {}),
    ),
    (  # the high watermark in the middle of a batch
        ("append", {"age": 0}),
        ("advance", {"at": "end-1"}),
        ("read-all", {}),
    ),
    (  # an aborted transaction entirely below the high watermark
        ("commit", {"producer": 2}),
        ("append", {"age": 0, **_TXN}),
        ("abort", {"producer": 3}),
        _END,
        ("read-all", {"isolation": "read_committed"}),
    ),
    (  # a copied segment that is not yet committed during a retention pass
        ("append", {"age": _OLD}),
        ("roll", {}),
        _END,
        ("upload", {}),
        ("check", {}),
        ("read-all", {}),
    ),
    (  # a rolled segment above the high watermark
        ("append", {"age": 0}),
        ("roll", {}),
        ("append", {"age": 0}),
        ("upload", {}),
        ("commit-tier", {}),
        _END,
    ),
    (  # a lost acknowledgement
        ("append", {"age": 0, "producer": 1}),
        ("retry", {"producer": 1}),
        _END,
        ("read-all", {}),
    ),
    (  # the same keys twice, and a pass of the cleaner
        ("append", {"age": 0}),
        ("roll", {}),
        ("append", {"age": 0}),
        ("roll", {}),
        _END,
        ("clean", {}),
        ("read-all", {}),
    ),
)

# Sequences for tiered topics on real brokers; `age` in hours.
TIERED_TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (  # copied segments are deleted locally and read from the remote tier
        ("set", {"name": "local_retention_bytes", "value": 0}),
        ("append", {"age": 4}),
        ("append", {"age": 2}),
        ("append", {"age": 0}),
        ("read-all", {}),
        ("read", {"at": "start", "max_bytes": 1}),
        ("list", {"what": "earliest-local"}),
        ("delete-records", {"at": "local"}),
        ("read-all", {}),
    ),
    (  # an aborted transaction that is in the remote tier only
        ("set", {"name": "local_retention_bytes", "value": 0}),
        ("append", {"age": 0, **_TXN}),
        ("append", {"age": 0, **_TXN}),
        ("abort", {"producer": 3}),
        ("append", {"age": 0}),
        ("append", {"age": 0}),
        ("read-all", {"isolation": "read_committed"}),
    ),
    (  # the remote tier after a leader change
        ("set", {"name": "local_retention_bytes", "value": 0}),
        ("append", {"age": 0}),
        ("append", {"age": 0}),
        ("elect", {"at": "end"}),
        ("append", {"age": 0}),
        ("append", {"age": 0}),
        ("read-all", {}),
    ),
)

# Sequences for real brokers; `age` in hours.
BROKER_TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (  # an aborted transaction interleaved with other records, entirely below the high watermark
        ("append", {"age": 0, **_TXN}),
        ("append", {"age": 0}),
        ("abort", {"producer": 3}),
        ("read-all", {"isolation": "read_committed"}),
        ("append", {"age": 0, **_TXN}),
        ("commit", {"producer": 3}),
        ("read-all", {"isolation": "read_committed"}),
    ),
    (  # a segment that has not expired precedes expired ones, until DeleteRecords removes it (KAFKA-12177)
        ("set", {"name": "retention_ms", "value": 3 * HOUR_MS + HOUR_MS // 2}),
        ("set", {"name": "segment_ms", "value": HOUR_MS + HOUR_MS // 2}),
        ("append", {"age": -20}),
        ("append", {"age": -22}),
        ("append", {"age": 4}),
        ("append", {"age": 2}),
        ("delete-records", {"at": "second"}),
        ("read-all", {}),
    ),
    (  # records that followers do not have
        ("append", {"age": 0}),
        ("hold", {}),
        ("append", {"age": 0}),
        ("append", {"age": 4}),
        ("read-all", {}),
        ("list", {"what": "latest"}),
        ("read", {"at": "end-1", "max_bytes": 1000}),
        ("delete-records", {"at": "hw+1"}),
        ("advance", {"at": "end"}),
        ("read-all", {}),
    ),
    (  # a lost acknowledgement, retried before and after a leader change
        ("append", {"age": 0, "producer": 1}),
        ("retry", {"producer": 1}),
        ("elect", {"at": "end"}),
        ("retry", {"producer": 1}),
        ("read-all", {}),
    ),
)
