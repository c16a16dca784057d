"""Queries a consumer group with librdkafka."""

from __future__ import annotations

from typing import Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from harness.clients.confluent.settings_and_errors import converted
from harness.clients.settings import Settings

GROUP_S: Final = 2.0


def members(settings: Settings) -> int:
    """Returns the number of members of the settings' group. Raises ClientError."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap, **settings.connection})
    try:
        asked = admin.describe_consumer_groups([settings.group_id], request_timeout=GROUP_S)
        return len(asked[settings.group_id].result(GROUP_S + 1.0).members)
    except ck.KafkaException as error:
        raise converted(error) from None
