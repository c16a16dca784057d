"""Fences producers: takes over their transactional ids, with requests of its own.

A producer that initialises a transactional id makes the coordinator raise the producer epoch and abort the open
transaction. All later requests of the older producer are refused (KIP-98, zombie fencing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.protocol import admin_requests, error_codes, list_transactions, requests
from harness.protocol.connections_and_retries import Link
from harness.protocol.error_codes import ClientError

PATIENCE_S: Final = 5.0


def transactional_ids(brokers: Mapping[int, str], prefix: str, timeout_s: float) -> dict[str, str]:
    """Returns transactional id -> state of its transaction, for the ids with a prefix, from all brokers that answer.

    Raises ClientError if no broker answers.
    """
    found: dict[str, str] = {}
    failed: list[str] = []
    for address in brokers.values():
        try:
            error, states = list_transactions.answer(
                admin_requests.ask(address, list_transactions.request(), timeout_s)
            )
        except (OSError, ValueError) as problem:
            failed.append(f"{address}: {problem}")
            continue
        failed += [f"{address}: {error_codes.name(error)}"] if error else []
        found.update({name: state for name, state in states.items() if name.startswith(prefix)})
    if brokers and len(failed) == len(brokers):
        raise ClientError("_TRANSPORT", f"no broker lists its transactions: {failed[0]}")
    return found


def fence(bootstrap: str, topic: str, names: Sequence[str], timeout_s: float) -> dict[str, int]:
    """Initialises transactional ids. Returns transactional id -> new producer epoch, for those that were taken over.

    topic      any topic; its metadata names the brokers
    timeout_s  transaction timeout of the new producers
    """
    epochs = {}
    link = Link(bootstrap, PATIENCE_S)
    try:
        for name in names:
            request = requests.init_producer_id(name, int(timeout_s * 1000))
            try:
                error, _, epoch = link.at_coordinator(
                    name, topic, requests.INIT_PRODUCER_ID, request, requests.initialised, lambda answer: answer[0]
                )
            except ClientError:
                continue
            if not error:
                epochs[name] = epoch
    finally:
        link.close()
    return epochs
