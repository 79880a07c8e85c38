"""Refuse sockets to other hosts in every Python process that has this folder in PYTHONPATH.

`make test` sets it: a test that needs a network fails here as on a machine without one.
"""

import errno
import socket
import sys
from typing import Any

_HERE = ("", "localhost", "0.0.0.0", "::", "::1", socket.gethostname())


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        host = arguments[1][0] if isinstance(arguments[1], tuple) else ""  # else a path: AF_UNIX
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0] or ""
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in _HERE and not host.startswith("127."):
        raise OSError(errno.ENETUNREACH, f"tests use no network; refused: {host}")


sys.addaudithook(_refuse)
