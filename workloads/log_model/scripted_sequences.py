"""Short runs of actions whose meeting is rare by chance: what others found, and what transactions need.

Each is a list of (f, arguments) that is given as it is, but for the partition and the records, which are
drawn. `age` stands for how old the records are, in ms.
"""

from __future__ import annotations

from typing import Any, Final

HOUR_MS: Final = 3_600_000
_OLD: Final = 10_000
_TXN: Final[dict[str, Any]] = {"producer": 3, "txn": True}
_END: Final[tuple[str, dict[str, Any]]] = ("advance", {"at": "end"})

TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (  # a segment that is not due stands before those that are, until DeleteRecords takes it
        ("append", {"age": -20_000}),
        ("roll", {}),
        ("append", {"age": _OLD}),
        ("roll", {}),
        _END,
        ("delete-records", {"at": "second"}),
        ("check", {}),
        ("check", {}),
    ),
    (  # everything is due, the active segment too
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
    (  # a transaction that aborts, all of it below the high watermark
        ("commit", {"producer": 2}),
        ("append", {"age": 0, **_TXN}),
        ("abort", {"producer": 3}),
        _END,
        ("read-all", {"isolation": "read_committed"}),
    ),
    (  # a copy that is not committed when retention looks
        ("append", {"age": _OLD}),
        ("roll", {}),
        _END,
        ("upload", {}),
        ("check", {}),
        ("read-all", {}),
    ),
    (  # a segment that is complete, but above the high watermark
        ("append", {"age": 0}),
        ("roll", {}),
        ("append", {"age": 0}),
        ("upload", {}),
        ("commit-tier", {}),
        _END,
    ),
    (  # an answer that is lost
        ("append", {"age": 0, "producer": 1}),
        ("retry", {"producer": 1}),
        _END,
        ("read-all", {}),
    ),
    (  # the same keys again, and a cleaner
        ("append", {"age": 0}),
        ("roll", {}),
        ("append", {"age": 0}),
        ("roll", {}),
        _END,
        ("clean", {}),
        ("read-all", {}),
    ),
)

# The same for tiered topics of real brokers; `age` in hours.
TIERED_TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (  # segments that are copied leave the local log, and are read from the remote tier
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
    (  # an aborted transaction that is known in the remote tier alone
        ("set", {"name": "local_retention_bytes", "value": 0}),
        ("append", {"age": 0, **_TXN}),
        ("append", {"age": 0, **_TXN}),
        ("abort", {"producer": 3}),
        ("append", {"age": 0}),
        ("append", {"age": 0}),
        ("read-all", {"isolation": "read_committed"}),
    ),
    (  # the remote tier after the leader has changed
        ("set", {"name": "local_retention_bytes", "value": 0}),
        ("append", {"age": 0}),
        ("append", {"age": 0}),
        ("elect", {"at": "end"}),
        ("append", {"age": 0}),
        ("append", {"age": 0}),
        ("read-all", {}),
    ),
)

# The same for real brokers.
BROKER_TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (  # an aborted transaction beside others' records, all of it below the high watermark
        ("append", {"age": 0, **_TXN}),
        ("append", {"age": 0}),
        ("abort", {"producer": 3}),
        ("read-all", {"isolation": "read_committed"}),
        ("append", {"age": 0, **_TXN}),
        ("commit", {"producer": 3}),
        ("read-all", {"isolation": "read_committed"}),
    ),
    (  # a segment that is not due stands before those that are, until DeleteRecords takes it (KAFKA-12177)
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
    (  # an answer that is lost, before and after another broker has to remember
        ("append", {"age": 0, "producer": 1}),
        ("retry", {"producer": 1}),
        ("elect", {"at": "end"}),
        ("retry", {"producer": 1}),
        ("read-all", {}),
    ),
)
