"""What the adapter knows of librdkafka's metadata of a group's member."""

from __future__ import annotations

import confluent_kafka as ck

from harness.clients.confluent_source import anonymous


def test_nobody_s_metadata_is_as_the_library_writes_it() -> None:
    stranger = ck.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    assert anonymous("g") == stranger.consumer_group_metadata()
