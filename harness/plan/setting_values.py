"""Parses values of settings as the program that uses them does: a Kafka broker, Kafka's Java client, or librdkafka.

Each function returns None for a value that this program refuses. Sources: Kafka's ConfigDef (trims values; accepts true
and false in upper or lower case) and ProducerConfig (acks is one of four strings, case-sensitive); librdkafka's
CONFIGURATION.md and rdkafka_conf.c (true, t and 1 in upper or lower case; acks is a number, or all in upper or lower
case).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

JAVA_ACKS: Final = ("all", "-1", "0", "1")
_KAFKA: Final = {"true": True, "false": False}
_LIBRDKAFKA: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_WEAKEST_FIRST: Final = ("0", "1", "all")


def boolean(text: str) -> bool | None:
    """Returns the boolean value of a text, as Kafka's brokers and its Java client read it."""
    return _KAFKA.get(text.strip().lower())


def whole(text: str) -> int | None:
    """Returns the integer value of a text. Returns None if the text is not an integer."""
    try:
        return int(text)
    except ValueError:
        return None


def client_boolean(text: str, library: str) -> bool | None:
    """Returns the boolean value of a text, as a client library reads it."""
    return _LIBRDKAFKA.get(text.lower()) if library == "confluent" else boolean(text)


def client_acks(text: str, library: str) -> str | None:
    """Returns the value of acks ("all", "1" or "0"), as a client library reads the text.

    Returns None also for numbers above 1, which brokers refuse.
    """
    if library == "confluent":
        text = text.lower()
    elif text.strip() not in JAVA_ACKS:
        return None
    text = text.strip()
    if text in ("all", "-1"):
        return "all"
    return text if text in ("0", "1") else None


def weakest_acks(values: Iterable[str | None]) -> str | None:
    """Returns the weakest acks that several clients use.

    values  acks of each client: "0", "1", "all", or None if unknown

    Returns "0" or "1" if any client uses it. Otherwise returns None if any value is unknown, else "all".
    """
    found = {*values}
    return next((acks for acks in _WEAKEST_FIRST if acks in found and (acks != "all" or None not in found)), None)


def given(config: Mapping[str, str], *names: str) -> str | None:
    """Returns the value that `config` gives for a setting; None if it gives none.

    names  the names of the setting; each is also recognized with underscores, as aiokafka spells it

    If `config` contains several of the names, the last one counts.
    """
    spelt = {*names, *(name.replace(".", "_") for name in names)}
    values = [str(value) for name, value in config.items() if name in spelt]
    return values[-1] if values else None
