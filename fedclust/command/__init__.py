"""The command `fedclust`.

Clients who keep their rows, each on a machine of its own, in three steps (more in
docs/deployment.md):

    fedclust study new FOLDER      the server: write the one file of a study, and show its plan
    fedclust room study.json --client NAME --rows rows.csv      each client: keys, checks, the room
    fedclust run study.json        the server: run it, up to result and statement

One person who holds all rows:

    fedclust fit --config fit.toml                   centres and statement, into a folder
    fedclust fit --config fit.toml --dry-run         print the plan; nothing is sent or spent
    fedclust fit --config fit.toml --rehearse FILE   compare plans on rows that cost nothing
    fedclust predict results/model.json rows.csv     labels.csv beside the rows, where it stays

`fit` plays all clients in one process, which reads all files: its statement says what each party
would see on a machine of its own. What stands in its file: `fedclust.command.fit`. Its
file is another one than the study of a federation, which is JSON.

Exit codes: 0 done; 2 wrong arguments of the command; 3 refused, nothing was spent; 4 failed or
stopped after something may have been spent. A fit that failed counts as spent: model.json says so,
and no later one writes into that folder. A federation knows what it spent: the same command goes
on from there.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from fedclust_helpers import __version__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedclust", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)

    study = commands.add_parser(
        "study", help="write the file of a study (what is left out is asked)"
    )
    study.add_argument("what", choices=("new",))
    study.add_argument("folder", type=Path)
    study.add_argument("--run", metavar="NAME", help="the name of the study")
    study.add_argument(
        "--clients", metavar="A,B,C", help="names of the clients; A completes the file"
    )
    study.add_argument("--column", nargs=3, action="append", metavar=("NAME", "LOWER", "UPPER"),
                       help="a column, its public bounds in its unit; once for each")  # fmt: skip
    study.add_argument("--server", metavar="HOST:PORT", help="where the server will listen")
    study.add_argument("--records", metavar="N", help="public number of all rows, or a guess")
    study.add_argument("--k", metavar="K", help="number of clusters")
    study.add_argument("--epsilon", metavar="E")
    study.add_argument("--delta", metavar="D", help="far below one over the number of rows")
    study.add_argument(
        "--trust", metavar="MODEL", help="masked (default), serverless, trusted, local"
    )
    study.add_argument("--method", metavar="NAME", help="default: the one that is never much worse")
    study.add_argument("--rounds", metavar="T", help="of the method fastlloyd")
    study.add_argument("--may-miss", metavar="M", help="so many clients may be missing in a round")
    study.add_argument("--repeats", metavar="R", help="so many rounds may be asked twice")
    study.add_argument("--users", metavar="N,N,N", help="local: how many rows each client has")

    room = commands.add_parser("room", help="a client's room: keys, checks, and answers")
    room.add_argument("study", type=Path, help="study.json")
    room.add_argument("--client", required=True, metavar="NAME", help="which client of the study")
    room.add_argument("--rows", type=Path, metavar="FILE", help="the rows (first time only)")
    room.add_argument(
        "--labels", type=Path, metavar="FILE", help="the class of each row, for models"
    )
    room.add_argument("--budget", nargs=2, type=float, metavar=("EPSILON", "DELTA"),
                      help="of all studies on these rows; default: this study alone")  # fmt: skip
    room.add_argument(
        "--agreed", metavar="AGREEMENT", nargs="+", help="what the others read to you, for scripts"
    )
    room.add_argument("--no-node", action="store_true",
                      help="leave Flower's SuperNode to another account")  # fmt: skip
    room.add_argument("--plan", action="store_true", help="show plan and budget, and stop")

    run = commands.add_parser("run", help="the server of a study, from start to result")
    run.add_argument("study", type=Path, nargs="?", help="study.json")
    run.add_argument("--wait", type=float, default=600.0, help="seconds to wait for the clients")
    run.add_argument(
        "--deadline", type=float, default=120.0, help="seconds in which all must answer"
    )
    run.add_argument("--config", help=argparse.SUPPRESS)

    fit = commands.add_parser("fit", help="all clients in one process, from a TOML file")
    fit.add_argument("--config", required=True, metavar="FILE", help="what to fit")
    only = fit.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="print the plan; nothing is spent")
    only.add_argument("--rehearse", metavar="FILE", help="compare plans on public rows (CSV)")

    predict = commands.add_parser("predict", help="the cluster of each row of a file; stays local")
    predict.add_argument("model", type=Path, help="model.json of a fit, or of a client's room")
    predict.add_argument("table", type=Path, help="rows (CSV)")
    predict.add_argument(
        "--labels", type=Path, metavar="FILE", help="default: labels.csv beside the rows"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: see the top of this module."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.command == "run" and (asked.config or asked.study is None):
        parser.error(
            "run is the server of a federation: fedclust run study.json; all clients in one"
            " process are fedclust fit --config FILE"
        )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name it cannot write must not cost a run
            stream.reconfigure(errors="backslashreplace")
    if sys.stderr.isatty():  # what is imported takes seconds
        print("reading and planning ...", file=sys.stderr, flush=True)
    if asked.command not in ("fit", "predict"):
        from fedclust.command import federate

        return federate.do(asked)
    from fedclust.command import fit

    if asked.command == "predict":
        return fit.predict(asked.model, asked.table, asked.labels)
    return fit.run(asked.config, dry_run=asked.dry_run, rehearse=asked.rehearse)
