"""The transformations of the pipeline, from an input record to its output records.

They are pure functions, used by both the pipeline's instances and the checks.

identity   one output
fan-out    one to three outputs, by a hash of the record's id
filter     one output, or none for about a third of the ids, by the same hash as fan-out
aggregate  one output: the number of records with this key so far
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Transform = Literal["identity", "fan-out", "filter", "aggregate"]
TRANSFORMS: Final[tuple[str, ...]] = get_args(Transform)

# Knuth, The Art of Computer Programming, volume 3, 6.4: multiplicative hashing.
_GOLDEN: Final = 2654435761
_MASK: Final = 0xFFFFFFFF


def third(id: int) -> int:
    """Returns 0, 1 or 2, depending on a hash of the id. Each result is equally frequent."""
    return (((id & _MASK) * _GOLDEN & _MASK) >> 16) % 3


def expected_count(transform: str, id: int, key: int) -> int:
    """Returns how many output records a transformation (one of TRANSFORMS) makes from the input record with this id."""
    if transform == "fan-out":
        return 1 + third(id)
    if transform == "filter":
        return 0 if third(id) == 0 else 1
    return 1


def outputs(transform: str, id: int, key: int, value: int = 0) -> list[tuple[int, int, int]]:
    """Returns (n, key, value) of each output of a record, in order. `n` distinguishes outputs of the same record.

    value  for `aggregate`, how many earlier records have the key; n and value of the output are this number plus one.
           For the other transforms, the value that each output gets.
    """
    if transform == "aggregate":
        return [(value + 1, key, value + 1)]
    return [(n, key, value) for n in range(expected_count(transform, id, key))]
