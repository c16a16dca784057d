"""The state that is committed as the metadata of an offset, as different client libraries return it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.clients.confluent.pipeline_source import marked
from harness.pipeline_app.instance_state import END, counts_of, state_of
from harness.pipeline_app.ports import Mark

COUNTS = {3: 1, 17: 240}


@pytest.mark.parametrize("counts", [{}, COUNTS])
@pytest.mark.parametrize("returned", [str, lambda state: state.removesuffix(END), lambda state: state + END])
def test_counts_are_the_same_with_and_without_its_end(counts: dict[int, int], returned: Callable[[str], str]) -> None:
    assert counts_of(returned(state_of(counts))) == counts


def test_confluent_kafka_takes_the_state_without_its_end() -> None:
    at = ("in", 0)
    (partition,) = marked({at: Mark(5, state_of(COUNTS))})
    assert (partition.offset, partition.metadata) == (5, '{"3":1,"17":240}')
    assert marked({at: Mark(5)})[0].metadata == ""
