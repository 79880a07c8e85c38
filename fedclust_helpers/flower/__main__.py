"""What an operator types: ``python -m fedclust_helpers.flower room|plan|secret|key FILE``."""

from __future__ import annotations

import argparse
import logging
import secrets
from pathlib import Path

from fedclust_helpers._private import private
from fedclust_helpers.flower.journal import JournalError
from fedclust_helpers.flower.room import open_room, read_config, serve
from fedclust_helpers.secure_aggregation import SECRET_BYTES, public_key


def main(arguments: list[str] | None = None) -> None:
    """Open a client's room, look at what it would do, or draw a group secret or a private key."""
    parser = argparse.ArgumentParser(prog="python -m fedclust_helpers.flower", description=__doc__)
    parser.add_argument("what", choices=("room", "plan", "secret", "key"))
    parser.add_argument("file", type=Path, help="room.toml, or the file of the new secret or key")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if given.what in ("secret", "key"):
        drawn = secrets.token_bytes(SECRET_BYTES)
        with open(given.file, "xb", opener=private) as file:
            file.write(drawn)
        if given.what == "key":
            print(f"public key {public_key(drawn).hex()}")
        return
    config = read_config(given.file)
    if given.what == "room":
        try:
            serve(config)
        except JournalError as error:
            raise SystemExit(f"room: {error}") from None
    room = open_room(config)
    print(f"{room.plan}\n{room.said()}")
    print(f"budget     {room.ledger().remaining:.1%} is left before this run")


if __name__ == "__main__":
    main()
