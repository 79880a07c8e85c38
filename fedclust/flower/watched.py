"""Run a program that ends when this one's input is closed: when whoever started it is killed, too.

A script of the standard library alone, for ``python -IS watched.py PROGRAM ARGUMENTS``: it exits as
the program does, with 128 and the number of a signal that ended it.
"""

import os
import subprocess
import sys
import threading


def main(line: list[str]) -> int:
    """Run the program of this command line until it ends, or until nobody waits for it any more."""
    program = subprocess.Popen(line, stdin=subprocess.DEVNULL)

    def watch() -> None:
        while os.read(0, 1):  # nothing is ever written: it returns when the other end is closed
            pass
        program.terminate()

    threading.Thread(target=watch, daemon=True).start()
    code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
