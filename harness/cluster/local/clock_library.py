"""A shared library, written byte by byte, that gives a process a wall clock of its own (LD_PRELOAD).

It stands in for `clock_gettime` and `gettimeofday` of the C library: it asks the kernel, and adds a number of
nanoseconds that stands in the library's own file. The file is mapped into the process, so writing the number
there changes the clock of the running process at once. Clocks other than the wall clock are left alone, as
are absolute deadlines that the process gives to the kernel.

libfaketime, which does the same, opens a file at each reading, or once a second: six threads of a JVM pay
50 us for it, or 5 us and clocks that change a second late, where the plain clock takes 0.05 us and this one
0.2 us. Nothing has to be installed or compiled. x86-64 only.

Source: System V ABI, ELF-64 object file format; AMD64 supplement.
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_PAGE: Final = 4096
_OFFSET_AT: Final = 2 * _PAGE
_PROBE_S: Final = 1_000_000
_PROBE_TIMEOUT_S: Final = 20.0

# Offsets to `_OFFSET_AT` are relative to the end of their instruction, and filled in by `_text`.
_CLOCK_GETTIME: Final = (
    b"\xb8\xe4\x00\x00\x00"  # mov eax, 228          clock_gettime(rdi clock, rsi time)
    b"\x0f\x05"  # syscall
    b"\x85\xc0"  # test eax, eax
    b"\x75\x30"  # jnz failed
    b"\x85\xff"  # test edi, edi             CLOCK_REALTIME
    b"\x74\x06"  # jz shift
    b"\x83\xff\x05"  # cmp edi, 5                CLOCK_REALTIME_COARSE
    b"\x74\x01"  # je shift
    b"\xc3"  # ret
    b"\x48\x69\x06\x00\xca\x9a\x3b"  # shift: imul rax, [rsi], 1000000000
    b"\x48\x03\x46\x08"  # add rax, [rsi+8]
    b"\x48\x03\x05OFFS"  # add rax, [rip+offset]
    b"\x48\x99"  # cqo
    b"\xb9\x00\xca\x9a\x3b"  # mov ecx, 1000000000
    b"\x48\xf7\xf9"  # idiv rcx
    b"\x48\x89\x06"  # mov [rsi], rax
    b"\x48\x89\x56\x08"  # mov [rsi+8], rdx
    b"\x31\xc0"  # xor eax, eax
    b"\xc3"  # ret
    b"\x83\xc8\xff"  # failed: or eax, -1
    b"\xc3"  # ret
)
_GETTIMEOFDAY: Final = (
    b"\xb8\x60\x00\x00\x00"  # mov eax, 96           gettimeofday(rdi time, rsi zone)
    b"\x0f\x05"  # syscall
    b"\x85\xc0"  # test eax, eax
    b"\x75\x38"  # jnz failed
    b"\x48\x85\xff"  # test rdi, rdi
    b"\x74\x30"  # jz done
    b"\x48\x8b\x05OFFS"  # mov rax, [rip+offset]
    b"\x48\x99"  # cqo
    b"\xb9\xe8\x03\x00\x00"  # mov ecx, 1000
    b"\x48\xf7\xf9"  # idiv rcx
    b"\x48\x69\x0f\x40\x42\x0f\x00"  # imul rcx, [rdi], 1000000
    b"\x48\x01\xc8"  # add rax, rcx
    b"\x48\x03\x47\x08"  # add rax, [rdi+8]
    b"\x48\x99"  # cqo
    b"\xb9\x40\x42\x0f\x00"  # mov ecx, 1000000
    b"\x48\xf7\xf9"  # idiv rcx
    b"\x48\x89\x07"  # mov [rdi], rax
    b"\x48\x89\x57\x08"  # mov [rdi+8], rdx
    b"\x31\xc0"  # done: xor eax, eax
    b"\xc3"  # ret
    b"\x83\xc8\xff"  # failed: or eax, -1
    b"\xc3"  # ret
)
_NAMES: Final = (b"clock_gettime", b"gettimeofday")
_CODES: Final = (_CLOCK_GETTIME, _GETTIMEOFDAY)


def library() -> bytes:
    """The library, with a clock that is right.

    Three pages: what the loader reads, with the code; what it writes to; the offset.
    """
    names = b"\0" + b"".join(name + b"\0" for name in _NAMES)
    symbols_at = 64 + 5 * 56
    names_at = symbols_at + 24 * (1 + len(_NAMES))
    hash_at = -(-(names_at + len(names)) // 8) * 8
    # One bucket, through which every symbol is found: 1, 2, ... until 0.
    chain = [*range(2, len(_NAMES) + 1), 0]
    table = struct.pack(f"<{5 + len(_NAMES) - 1}I", 1, 1 + len(_NAMES), 1, 0, *chain)
    code_at = -(-(hash_at + len(table)) // 16) * 16
    places, code = _text(code_at)
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", names.index(b"\0" + name) + 1, 0x12, 0, 1, at, len(body))
        for name, at, body in zip(_NAMES, places, _CODES, strict=True)
    )
    # DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    rows = ((4, hash_at), (5, names_at), (6, symbols_at), (10, len(names)), (11, 24), (0, 0))
    dynamic = b"".join(struct.pack("<QQ", *row) for row in rows)
    end = code_at + len(code)
    headers = (
        _segment(1, 0x5, 0, end, _PAGE)
        + _segment(1, 0x6, _PAGE, len(dynamic), _PAGE)
        + _segment(1, 0x4, _OFFSET_AT, 8, _PAGE)
        + _segment(2, 0x6, _PAGE, len(dynamic), 8)
        + _segment(0x6474E551, 0x6, 0, 0, 16)  # PT_GNU_STACK: without it the stack would be executable
    )
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 5, 64, 0, 0
    )
    file = bytearray(_OFFSET_AT + 8)
    for at, part in ((0, header), (64, headers), (symbols_at, symbols), (names_at, names),
                     (hash_at, table), (code_at, code), (_PAGE, dynamic)):  # fmt: skip
        file[at : at + len(part)] = part
    return bytes(file)


def set_ahead(path: Path, ahead_s: float) -> None:
    """Set the clocks of all processes that run with the library at `path`, in one write."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(file, struct.pack("<q", round(ahead_s * 1e9)), _OFFSET_AT)
    finally:
        os.close(file)


def why_not() -> str:
    """Why processes here cannot have clocks of their own, with what to do; empty when they can. Tries it."""
    if platform.machine() != "x86_64":
        return f"the clock library is for x86-64 and this machine is {platform.machine()}: use one of those"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clock.so"
        path.write_bytes(library())
        set_ahead(path, _PROBE_S)
        before = time.time()
        try:
            done = subprocess.run(
                [sys.executable, "-c", "import time; print(time.time())"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_TIMEOUT_S,
                env={**os.environ, "LD_PRELOAD": str(path)},
                check=True,
            )
            ahead_s = float(done.stdout) - before
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"a process with a clock of its own does not run: {error}"
    if not _PROBE_S <= ahead_s < _PROBE_S + _PROBE_TIMEOUT_S:
        said = done.stderr.strip() or "the C library does not let itself be stood in for (LD_PRELOAD)"
        return f"a process does not take its own clock: {said}; use a system with glibc"
    return ""


def _text(start: int) -> tuple[list[int], bytes]:
    """Where each function is, and the code of all, for a place in the file."""
    places, code = [], b""
    for body in _CODES:
        code += bytes(-len(code) % 16)
        places.append(start + len(code))
        at = body.index(b"OFFS")
        distance = _OFFSET_AT - (start + len(code) + at + 4)
        code += body.replace(b"OFFS", struct.pack("<i", distance))
    return places, code


def _segment(kind: int, flags: int, at: int, size: int, align: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)
