"""A client program whose behaviour is the body of a function, given as its first argument.

The body sees `requests`, an iterator over requests as dicts, `ok(request, **fields)`, `write(message)` and `raw(data)`.
"""

import json
import os
import sys
import textwrap


def write(message):
    raw((json.dumps(message) + "\n").encode())


def raw(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def requests():
    for line in sys.stdin:
        yield json.loads(line)


def ok(request, **fields):
    write({"id": request["id"], "ok": fields})


if __name__ == "__main__":
    names = {"requests": requests(), "write": write, "raw": raw, "ok": ok, "os": os, "sys": sys}
    exec(textwrap.dedent(sys.argv[1]), names)
