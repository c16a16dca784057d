"""Reads a text or a number at a path of a JSON value, such as order.items.0.id; a path may start with "$."."""

from __future__ import annotations

import json
from collections.abc import Mapping


def text_at(value: bytes | str, path: str) -> str | None:
    """Returns what is at a path of a JSON document, as text: 5.0 becomes "5.0", and "x" becomes "x".

    Returns None if the document is not JSON, or has neither a text nor a number there.
    """
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return None
    for name in path.removeprefix("$.").split("."):
        if isinstance(content, Mapping):
            content = content.get(name)
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return str(content) if isinstance(content, str | int | float) and not isinstance(content, bool) else None
