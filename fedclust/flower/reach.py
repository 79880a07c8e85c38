"""Why a server cannot be reached, in one line; nothing where it can.

A script of the standard library alone, for ``python -IS reach.py NAME:PORT``, which reads the
study's certificate: a room has no network of its own. It goes the way that Flower's program goes,
through a proxy if one is set.
"""

import os
import socket
import ssl
import sys
from urllib.parse import urlsplit

SECONDS = 10.0


def proxy_for(host: str) -> str:
    """The proxy that the variables of the environment name for this host, "" for none."""
    names = ("grpc_proxy", "https_proxy", "http_proxy")
    proxy = next(filter(None, map(os.environ.get, names)), "")
    direct = os.environ.get("no_grpc_proxy") or os.environ.get("no_proxy") or ""
    around = [name.strip().lstrip("*") for name in direct.split(",") if name.strip()]
    return "" if any(host.endswith(name) for name in around) else proxy


def why_not(host: str, port: int, certificate: str) -> str:
    """What is wrong on the way to a server with this certificate (PEM); "" if nothing is."""
    proxy = proxy_for(host)
    way = urlsplit(proxy if "//" in proxy else f"//{proxy}") if proxy else None
    to = (str(way.hostname), way.port or 80) if way else (host, port)
    whom = f"the proxy {to[0]}:{to[1]}, which a variable such as http_proxy names," if way else "it"
    try:
        with socket.create_connection(to, SECONDS) as line:
            if way:
                at = f"{host}:{port}"
                line.sendall(f"CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
                said = line.recv(4096).decode("latin-1").partition("\r\n")[0]
                if " 200" not in said:
                    return f"{whom} does not let it through ({said[:60] or 'no answer'})"
            context = ssl.create_default_context(cadata=certificate)
            with context.wrap_socket(line, server_hostname=host):
                return ""
    except socket.gaierror:
        return f"the name of {whom} is not known on this machine"
    except ConnectionRefusedError:
        return f"{whom} refuses: not started yet, another port, or a firewall"
    except TimeoutError:
        return f"{whom} does not answer: a firewall, or no way there"
    except ssl.SSLCertVerificationError as error:
        return (
            f"another certificate than the study's ({error.verify_message}): another server, an old"
            " study file, or a clock that is wrong"
        )
    except ssl.SSLError as error:
        return f"no TLS at that port ({error.reason})"
    except OSError as error:
        return f"{whom}: {error.strerror}"


if __name__ == "__main__":
    name, _, number = sys.argv[1].rpartition(":")
    print(why_not(name.strip("[]"), int(number), sys.stdin.read()))
