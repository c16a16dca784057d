"""The page reference/anomalies.md, from the checker's tables of anomalies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.counts_against_verdict import jepsen_allows_with_subscribe
from checker.anomalies.guarantees import Condition, Guarantee
from checker.anomalies.pipeline_modes import MODES
from checker.anomalies.pipeline_offsets import OFFSETS
from checker.anomalies.pipeline_outputs import OUTPUTS
from checker.cycles.dependency_edges import KINDS, RW
from checker.cycles.types_and_levels import EXISTS, LEVELS, SPECS
from docs.generate.markdown import NOTE
from harness.model.check_options import CheckOptions, Settings

# How each condition of checker.anomalies.guarantees reads in the catalogue.
CONDITIONS: Final[Mapping[str, str]] = {
    "acks_all": "`acks=all` (or `acks=1` with one replica)",
    "copies_kept": "no fault destroyed enough copies of the log",
    "clean_election": "no unclean leader election",
    "group_log_kept": "no fault destroyed the committed offsets",
    "transaction_log_kept": "no fault destroyed the transaction log, if transactions are used",
    "place_kept": "partitions assigned manually, or no fault destroyed the committed offsets",
    "not_damaged": "no fault destroyed a server's data",
    "damage_noticed": "no damaged files, or `check.crcs=true`",
    "exactly_once_log": "an idempotent or transactional producer",
    "in_order": "an idempotent or transactional producer, or one request in flight",
    "share_state_kept": "no fault destroyed the state of share groups",
    "share_read_committed": "`share.isolation.level=read_committed`, or no transactions",
    "nothing_removed": "no record is deleted or compacted",
    "transactions": "transactions",
    "one_reader": "partitions assigned manually, or by a group that uses the classic or the consumer protocol",
    "not_compacted": "no compaction",
    "read_committed": "`isolation.level=read_committed`, or no transactions",
}

# Kind of anomaly -> title and introduction of its section.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "share": (
        "Share groups",
        "The check `share` judges what share groups (KIP-932) delivered. Each of these anomalies makes a run invalid.",
        "Some rules hold only while a member has the lock on a record, or while a share partition keeps its leader.",
        "They are applied only where this is certain.",
    ),
    "upgrade": (
        "Upgrades",
        "The check `upgrade` judges runs with `--upgrade-to`; see [Upgrades](../use/upgrades.md). Each of these",
        "anomalies makes a run invalid.",
    ),
    "metadata": (
        "The metadata log",
        "The check `metadata` judges [KRaft's metadata log](../use/runs.md#the-metadata-log). Each of these anomalies",
        "makes a run invalid.",
    ),
    "stuck": (
        "Liveness",
        "The check `liveness` judges what stays stuck after all faults are healed and all brokers are registered:",
        "what every look at the cluster within 30 s found in the same state. The witness says what was waited for, and",
        "quotes what the brokers logged about the partition.",
    ),
}


def _counted(anomaly: Anomaly) -> str:
    """When an anomaly makes a run invalid, found by calling its rule."""
    uncommitted = CheckOptions(settings=Settings(isolation_level="read_uncommitted"))
    read, unread = [{"complete": True}], [{"complete": False}]
    if not anomaly.bad(read, CheckOptions()):
        return "never"
    if not anomaly.bad(unread, CheckOptions()):
        return "if the final polls read the log to its end"
    if not anomaly.bad(read, uncommitted):
        return "always, except with `--isolation-level read_uncommitted`"
    return "always"


def _condition(condition: Condition) -> str:
    return CONDITIONS[condition.__name__]


def _forbidden(guarantee: Guarantee | None) -> list[str]:
    """The settings that forbid an anomaly, the guarantee, and its source."""
    if guarantee is None:
        return ["- Forbidden by: no setting."]
    needed = "; ".join(_condition(each) for each in guarantee.conditions)
    return [
        f"- Forbidden by: {needed or 'all settings'}.",
        f"- Reason: {guarantee.says} ({guarantee.source}).",
    ]


def _anomaly(anomaly: Anomaly) -> list[str]:
    module = anomaly.name.replace("-", "_").lower()
    lines = [
        f"## {anomaly.name}",
        "",
        anomaly.summary,
        "",
        f"- Makes a run invalid: {_counted(anomaly)}.",
        *_forbidden(anomaly.guarantee),
        f"- Rule: {anomaly.source}; `checker/anomalies/{module}.py`.",
    ]
    if anomaly.jepsen_allows is jepsen_allows_with_subscribe:
        lines.append("- With `--jepsen-compatible`: does not count if consumers subscribe.")
    return [*lines, ""]


def _edges(kinds: int) -> str:
    return ", ".join(f"`{name}`" for bit, name in enumerate(KINDS) if kinds & (1 << bit))


def _cycles() -> list[str]:
    """The types of cycles, as tables."""
    lines = [
        "## Cycles",
        "",
        "A cycle consists of operations each of which must come before the next. The edges are:",
        "",
        "- `ww`: the second operation's record directly follows the first one's in the log.",
        "- `wr`: the second operation polled a record that the first one sent.",
        "- `rw`: the second operation sent the record directly after the last one that the first polled.",
        "- `process`, `realtime`: the first operation completed before the second was invoked, by the same",
        "  process or by any.",
        "",
        "A cycle is named after its edges (Adya 1999; Elle). `--edges` selects the kinds of edges. The default is",
        "`ww,wr,realtime`; `--no-ww-deps` leaves `ww` out. For each strongly connected component only the most",
        "severe types are reported, not those that they imply.",
        "",
        "Kafka interleaves the writes of transactions, so most cycles are legal and do not make a run invalid. A",
        "cycle that no order of events can explain does: for example a record that was polled before it was sent,",
        "or two transactions that read each other's records, although `read_committed` shows records only after",
        "the commit. The witness of such a cycle has `forbidden: true` (`checker/cycles/event_cycles.py`). With",
        "`--jepsen-compatible`, Jepsen's list decides.",
        "",
        "For forbidden cycles:",
        "",
        *(f"{line} (`{name}`)" for name in ("G1c", "G1c-realtime") for line in _forbidden(CATALOGUE[name].guarantee)),
        "",
        "| type | edges | meaning |",
        "| --- | --- | --- |",
    ]
    for spec in SPECS:
        kinds = spec.kinds if spec.rw == "none" else spec.kinds | 1 << RW
        lines.append(f"| {spec.name} | {_edges(kinds)} | {spec.summary} |")
    lines += [
        "",
        "The checker also reports each isolation level that the cycles rule out, with the smallest component that",
        "shows it:",
        "",
        "| type | edges | level |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {level.name}{EXISTS} | {_edges(level.kinds)} | {level.friendly} |" for level in LEVELS]
    return [*lines, ""]


def _modes(modes: frozenset[str]) -> str:
    return "all" if modes == MODES else ", ".join(f"`{mode}`" for mode in sorted(modes))


def _pipelines() -> list[str]:
    """The anomalies of pipelines, as tables."""
    lines = [
        "## Pipelines",
        "",
        "The checks of [pipelines](../use/pipelines.md) compare outputs with inputs, and follow the offsets of the",
        "instances. The mode of the pipeline decides what is promised, provided that the brokers keep the logs of the",
        "input, the output, the committed offsets and the transactions; `work-unowned` and `work-unassigned` do not",
        "depend on these logs. An anomaly makes a run invalid in every mode. Those marked * do so only in modes that",
        "promise that they do not happen.",
        "",
    ]
    for what, rows in (("outputs", OUTPUTS), ("offsets", OFFSETS)):
        lines += [f"| {what} | meaning | forbidden in modes | source |", "| --- | --- | --- | --- |"]
        for name, row in rows.items():
            assert row.modes is not None
            mark = "" if row.modes.always_bad else " *"
            lines.append(f"| {name}{mark} | {row.summary} | {_modes(row.modes.promising)} | {row.source} |")
        lines.append("")
    return lines


def _of_kind(kind: str, title: str, *about: str) -> list[str]:
    """The section about the anomalies of a kind, with a table of them."""
    lines = [
        f"## {title}",
        "",
        *about,
        "",
        "| anomaly | meaning | forbidden by | source |",
        "| --- | --- | --- | --- |",
    ]
    for name, row in CATALOGUE.items():
        if row.kind == kind:
            assert row.guarantee is not None
            needed = "; ".join(_condition(each) for each in row.guarantee.conditions)
            lines.append(f"| {name} | {row.summary} | {needed or 'all settings'} | {row.source} |")
    return [*lines, ""]


def page() -> str:
    """The page reference/anomalies.md."""
    lines = [
        "# Anomalies",
        "",
        NOTE,
        "",
        "Everything that the checker looks for: when it makes a run invalid, and which settings forbid it. An anomaly",
        "makes a run invalid even if the settings do not forbid it; the verdict says which is the case.",
        "[Anomalies by example](../understand/anomalies.md) explains them one by one,",
        "[Promises](../understand/promises.md) the conditions, and [Formats](formats.md#witnesses) the fields of the",
        "witnesses.",
        "",
    ]
    for anomaly in CATALOGUE.values():
        if anomaly.kind == "records":
            lines += _anomaly(anomaly)
    lines += _cycles() + _pipelines()
    for kind, (title, *about) in SECTIONS.items():
        lines += _of_kind(kind, title, *about)
    return "\n".join(lines).rstrip() + "\n"
