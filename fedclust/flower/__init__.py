"""A real federation: clients as separate processes that hold their own files, on Flower.

The same plans and runs as in one process, behind the same protocol. One conversation, in which the
server asks and each client's room answers; bytes travel over any `Transport`::

    before        each party makes the plan from its own copy of one `Study` (module `keys`: who
                  holds which keys). A room is *opened* on its rows and its journal
    hello         server: digests of study and plan; client, if they are its own: a nonce. *agreed*
    session       server: all nonces; each client derives the session, of pads too. *answering*
    roll          only where clients may miss: who is there? It also brings missed totals
    release       server: what a trusted or reading server broadcasts, and the set that is asked;
    or total      or the total before. client: its answer, charged and on disk before it leaves
    finish        server: the last total; client: done. *done*: it repeats answers, makes no more
    refused       a client's only other word, at any time: one sentence, no numbers of its rows

The states are those of `room`; each follows from the `journal`, so that whoever was killed goes on.
In the order of reading: `study`, `messages`, `keys`, `journal`, `parties` (what a trust model does
to a release on its way), `room` (trusts nobody), `server`; then `process` (a room with its files
and its socket) and `link` (Flower's processes, and the only reason to install the extra
``federation``, in an environment of its own).

What runs, for the methods in `METHODS`: masked sums, unmasked by the clients or read by the server
("masked"); sums without a server, through a relay that reads nothing ("serverless"); one round of
local reports ("local"); and sums of a trusted server ("trusted"). Not offered: ``collect``,
``reports``, cohorts.

How to run it: docs/deployment.md.

>>> from tempfile import TemporaryDirectory
>>> import numpy as np
>>> from fedclust_helpers.accounting import Budget
>>> class Direct:  # a Transport between rooms of one process
...     def __init__(self, rooms):
...         self.rooms, self.addresses, self.answers = rooms, range(len(rooms)), []
...     def send(self, address, message):
...         self.answers.append((address, self.rooms[address].answer(message)))
...     def receive(self, timeout):
...         return self.answers.pop(0) if self.answers else None
>>> study = Study(
...     run="a first run", method="fastlloyd", n_clients=3, n_records=3000, n_features=2, seed=0,
...     options={"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6},
... )
>>> own = {"secret": bytes(32), "budget": Budget(1.0, 1e-6), "bound": 1.0}
>>> rows = np.zeros((1000, 2))
>>> with TemporaryDirectory() as folder:
...     rooms = [
...         ClientRoom(study, rows, number=i, journal=f"{folder}/{i}.json", **own)
...         for i in range(3)
...     ]
...     ServerRoom(study, Direct(rooms), journal=f"{folder}/server.json").run()
...     rooms[0].result.centers.shape  # the server has none: clients unmask what it adds up
(3, 2)
"""

from fedclust.flower.journal import JournalError
from fedclust.flower.messages import MessageError, RoundFailedError, Transport
from fedclust.flower.room import ClientRoom
from fedclust.flower.server import ServerRoom
from fedclust.flower.study import METHODS, Study
