"""The settings of a pipeline client: the plan's options of the pipeline, and the client's slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Options
from harness.protocol.error_codes import TopicPartition

SESSION_S: Final = 6.0
TRANSACTION_S: Final = 6.0  # short, so that a killed instance's transaction does not block others for long


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """The settings of one process of the pipeline workload.

    settings        settings of the process's library clients
    options         options of the pipeline instance
    slot            the client's slot
    slots           number of slots
    instances       number of slots that are instances; these are the last slots
    folder          the run folder
    inputs          number of input topics, numbered from 0; the output topic has the number after the last of them
    partitions      initial number of partitions of each topic
    work_s          duration of a `work` op
    assignor        range | roundrobin | cooperative-sticky | consumer (brokers assign, KIP-848)
    """

    settings: Settings
    options: Options
    slot: int
    slots: int
    instances: int
    folder: Path
    inputs: int
    partitions: int
    work_s: float
    assignor: str
    static_members: bool
    one_poll: bool

    @property
    def incremental(self) -> bool:
        """Whether a rebalance revokes only the partitions that move to another member (KIP-429, KIP-848)."""
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
        """The initial partitions of the input topics; more may be added later."""
        return [(topic, number) for topic in self.input_topics for number in range(self.partitions)]

    @property
    def static_name(self) -> str:
        """The slot's `group.instance.id`."""
        return f"{self.settings.run}-{self.slot}"

    @property
    def transactional_id(self) -> str:
        """The slot's transactional id.

        All processes of a slot use the same id, so a new process fences the previous one, as in Kafka Streams. Two of
        the bugs that `--pipeline-mistake` can switch on use a wrong id instead.
        """
        if self.options.mistake == mistakes.SHARED_ID:
            return f"{self.settings.run}-pair-{self.slot // 2}"
        if self.options.mistake == mistakes.NOT_FENCED:
            return f"{self.settings.run}-process-{self.settings.process}"
        return f"{self.settings.run}-{self.slot}"


def parse_pipeline_config(config: Mapping[str, Any]) -> PipelineConfig:
    """Converts the client settings that a worker received, which are plain data, to a `PipelineConfig`.

    Raises BadInput if the pipeline's options are missing.
    """
    pipeline_options = config.get("logic_options")
    if not pipeline_options:
        raise BadInput("client settings: `logic_options` is missing; a pipeline client needs it")
    slots = int(config["concurrency"])
    return PipelineConfig(
        parse_settings({**config, "session_timeout_s": SESSION_S, "transaction_timeout_s": TRANSACTION_S}),
        Options(**pipeline_options["options"]),
        int(config.get("process", 0)) % slots,
        slots,
        int(pipeline_options.get("instances", 0)),
        Path(config["folder"]),
        pipeline_options["inputs"],
        pipeline_options["partitions"],
        pipeline_options["work_s"],
        pipeline_options["assignor"],
        pipeline_options["static_members"],
        pipeline_options["one_poll"],
    )
