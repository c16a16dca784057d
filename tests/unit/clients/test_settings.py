"""Settings of clients, and what becomes of them in the library's properties."""

from __future__ import annotations

from typing import Any

import pytest

from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput


def made(**given: Any) -> Settings:
    return parse_settings({"bootstrap": "b:1", "run": "r", **given})


def test_keys_and_partitions_are_one_to_one() -> None:
    found = made(run="20250101-run", partitions_per_topic=3)
    assert found.partition(7) == ("20250101-run-2", 1)
    assert all(found.key(*found.partition(key)) == key for key in range(100))


@pytest.mark.parametrize("topic", ["other-1", "r", "r-", "r-x", "r-1-2", "rr-1", "-1", "__consumer_offsets"])
def test_foreign_topics_have_no_key(topic: str) -> None:
    assert made().key(topic, 0) is None


def test_settings_of_other_roles_are_left_out() -> None:
    assert made(concurrency=10, bugs=["x"]).run == "r"


def test_patience_is_less_than_the_deadline() -> None:
    assert made(op_timeout_s=10).patience_s == 9.5
    assert made(op_timeout_s=1).patience_s == 0.8


def test_retries_off() -> None:
    assert made(retries=0).retries_off
    assert not made().retries_off and not made(retries=5).retries_off
    assert made(retries=5, producer_config={"retries": "0"}).retries_off
    assert not made(retries=0, producer_config={"message.send.max.retries": 2}).retries_off


def test_nulls_mean_defaults() -> None:
    found = made(retries=None, producer_config=None, consumer_config=None, delivery_timeout_s=None)
    assert found.producer_config == {} and found.delivery_timeout_s is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": ""},
        {"bootstrap": None},
        {"partitions_per_topic": 0},
        {"op_timeout_s": 0},
        {"poll_ms": -1},
        {"records_max": 0},
        {"isolation_level": "serializable"},
    ],
)
def test_nonsense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        made(**wrong)


def test_partitions_that_were_added_hold_no_key() -> None:
    found = made(run="r", partitions_per_topic=4)
    assert [found.key("r-1", number) for number in (0, 3, 4, 9)] == [4, 7, None, None]
