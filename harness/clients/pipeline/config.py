"""A pipeline client's settings: what the plan says of the pipeline, and whose client this is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.clients.settings import Settings, settings
from harness.model.errors_and_exit_codes import BadInput
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Options
from harness.protocol.error_codes import TopicPartition

SESSION_S: Final = 6.0
TRANSACTION_S: Final = 6.0  # so that a killed instance's transaction does not hold others up for long


@dataclass(frozen=True, slots=True)
class Made:
    """One process of the pipeline.

    settings      of its library's clients
    options       of its instance
    slot, slots   which of the run's clients it is
    folder        the run folder
    inputs        how many input topics; the output topic is the next one
    partitions    of each topic, in the beginning
    work_s        how long a `work` op takes
    assignor      range | roundrobin | cooperative-sticky | consumer (the broker's, KIP-848)
    """

    settings: Settings
    options: Options
    slot: int
    slots: int
    folder: Path
    inputs: int
    partitions: int
    work_s: float
    assignor: str
    static_members: bool
    one_poll: bool

    @property
    def incremental(self) -> bool:
        """Whether rebalances move some partitions only (KIP-429, KIP-848)."""
        return self.assignor in ("cooperative-sticky", "consumer")

    def topic(self, number: int) -> str:
        return f"{self.settings.run}-{number}"

    @property
    def input_topics(self) -> list[str]:
        return [self.topic(number) for number in range(self.inputs)]

    @property
    def output_topic(self) -> str:
        return self.topic(self.inputs)

    @property
    def inputs_first(self) -> list[TopicPartition]:
        """The partitions of the input topics before they grow."""
        return [(topic, number) for topic in self.input_topics for number in range(self.partitions)]

    @property
    def static_name(self) -> str:
        """The slot's `group.instance.id`."""
        return f"{self.settings.run}-{self.slot}"

    @property
    def transactional_id(self) -> str:
        """Of the slot, so that a successor fences whoever was there before, as Kafka's own streams do."""
        if self.options.mistake == mistakes.SHARED_ID:
            return f"{self.settings.run}-pair-{self.slot // 2}"
        if self.options.mistake == mistakes.NOT_FENCED:
            return f"{self.settings.run}-process-{self.settings.process}"
        return f"{self.settings.run}-{self.slot}"


def made(config: Mapping[str, Any]) -> Made:
    """From the plain data that a worker has. Raises BadInput when the pipeline's part is missing."""
    given = config.get("logic_options")
    if not given:
        raise BadInput("client settings: `logic_options` is missing; a pipeline client needs it")
    slots = int(config["concurrency"])
    return Made(
        settings({**config, "session_timeout_s": SESSION_S, "transaction_timeout_s": TRANSACTION_S}),
        Options(**given["options"]),
        int(config.get("process", 0)) % slots,
        slots,
        Path(config["folder"]),
        given["inputs"],
        given["partitions"],
        given["work_s"],
        given["assignor"],
        given["static_members"],
        given["one_poll"],
    )
