"""What the pipeline makes of an input record: a pure function, which the instances and the checks share.

identity   one output
fan-out    one to three, by a hash of the record's id
filter     one, or none for a third of the ids, by the same hash
aggregate  one, numbered with how many records of its key there have been
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Transform = Literal["identity", "fan-out", "filter", "aggregate"]
TRANSFORMS: Final[tuple[str, ...]] = get_args(Transform)

# Knuth, The Art of Computer Programming, volume 3, 6.4: multiplicative hashing.
_GOLDEN: Final = 2654435761
_MASK: Final = 0xFFFFFFFF


def third(id: int) -> int:
    """0, 1 or 2: which third of all ids this one is in."""
    return (((id & _MASK) * _GOLDEN & _MASK) >> 16) % 3


def expected_count(transform: str, id: int, key: int) -> int:
    """How many outputs a record has."""
    if transform == "fan-out":
        return 1 + third(id)
    if transform == "filter":
        return 0 if third(id) == 0 else 1
    return 1


def outputs(transform: str, id: int, key: int, value: int = 0) -> list[tuple[int, int, int]]:
    """(n, key, value) of each output of a record, in order.

    value  for `aggregate`: how many records of the key came before; the output's n and value are one more.
           Elsewhere it is passed on.
    """
    if transform == "aggregate":
        return [(value + 1, key, value + 1)]
    return [(n, key, value) for n in range(expected_count(transform, id, key))]
