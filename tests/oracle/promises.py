"""What Kafka promises not to happen, by settings and faults; each row with its source.

True: forbidden. False: not forbidden. Absent: the documentation can be read both ways, or does not say.
"""

from __future__ import annotations

from tests.oracle.case import Case

# Where the rows below are from.
SOURCES = {
    "committed": "Kafka documentation, Design, Replication: a committed message is not lost while one in-sync replica "
    "that has it lives; acks=all waits for all in-sync replicas",
    "unclean": "Kafka documentation, Design, Unclean leader election; topic setting unclean.leader.election.enable",
    "elr": "KIP-966: before it, the last in-sync replica may lose its data and lead; with it, min.insync.replicas - 1 "
    "unclean shutdowns are borne",
    "flush": "Kafka documentation, Application vs. OS flush management; log.flush.interval.messages",
    "idempotence": "KIP-98, KIP-679: exactly one copy, in order, of each send of one producer; needs acks=all",
    "isolation": "KIP-98: read_committed returns records of committed transactions only",
    "crc": "Kafka documentation, consumer setting check.crcs",
    "order": "Kafka documentation, Introduction: records of a partition are read in the order in which they are in it",
}


def copies_kept(case: Case) -> bool | None:
    """Whether what was committed lives on in a copy that may lead, whatever acks says."""
    if case.unclean_enabled or "elect-unclean:leader" in case.faults:
        return False
    least = 1 if "config-change:min-isr-down" in case.faults else case.min_isr
    flushed = case.broker.get("log.flush.interval.messages") == "1"
    hit = 0
    for fault in case.faults:
        if fault == "power-loss:all" and not flushed:
            hit = max(hit, case.replication)
        elif fault == "truncate-tail:leader" or (fault == "power-loss:leader" and not flushed):
            hit = max(hit, 1)
    if hit == 0:
        return True
    return False if hit >= least else None


def promises(case: Case) -> dict[str, bool]:
    """By anomaly: whether it was promised not to happen."""
    if case.plain:
        return {}
    found: dict[str, bool] = {}
    kept = copies_kept(case)
    acks = case.true_acks
    if acks == "0" or kept is False:
        durable: bool | None = False
    elif acks == "1":
        durable = False if case.replication > 1 else None
    else:
        durable = kept
    for name in ("lost-write", "unseen", "torn-transaction"):
        if durable is not None and (name != "torn-transaction" or case.txn):
            found[name] = durable
    if durable is not None and acks != "0":
        found["inconsistent-offsets"] = durable
    if case.idempotent and kept is not None:
        found["duplicate"] = kept
    elif not case.idempotent and case.retries != 0 and acks != "0":
        found["duplicate"] = False
    if case.txn and case.isolation == "read_committed" and kept is not None:
        found["G1a"] = kept
        if kept:
            found["precommitted-read"] = True
    if kept is False or (kept and case.idempotent):  # a doubled record looks like a poll that went back
        for name in ("poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"):
            if "subscribe" not in case.sub_via or name.startswith("int-"):
                found[name] = kept
    if kept:
        found["phantom-read"] = True
    for name in ("nonmonotonic-send", "stale-send", "int-nonmonotonic-send"):
        if kept is False:
            found[name] = False
        elif case.idempotent and durable:
            found[name] = True
    if not case.idempotent and case.retries != 0 and acks != "0":
        found["int-nonmonotonic-send"] = False
    return found
