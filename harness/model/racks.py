"""The racks of brokers and clients, between which the harness spreads them in turn (KIP-36, KIP-392)."""

from __future__ import annotations


def rack(number: int, racks: int) -> str:
    """Returns the name of the rack of the broker or client with this number."""
    return f"rack{number % racks}"
