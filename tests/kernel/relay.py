# SPDX-License-Identifier: MIT
"""Stands for linewright-kernel where the module is in a test's machine: passes lines to a socket
and back. relay.py SOCKET"""

from __future__ import annotations

import socket
import sys
import threading


def pass_on(source, sink) -> None:
    for line in source:
        sink.write(line)
        sink.flush()


with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    stream = connection.makefile("rwb")
    threading.Thread(target=pass_on, args=(stream, sys.stdout.buffer), daemon=True).start()
    pass_on(sys.stdin.buffer, stream)
    connection.shutdown(socket.SHUT_WR)
