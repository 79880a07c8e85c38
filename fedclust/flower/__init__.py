"""A real federation: clients as separate processes that hold their own files, on Flower.

The same plans and runs as in one process, behind the same protocol. Three parts, of which only the
last one needs Flower (the extra ``federation``, in an environment of its own):

* `Study`: what all parties agree on before the first message, one file at each of them;
* `ClientRoom` (bytes in, bytes out; trusts nobody) and `ServerRoom` (over any `Transport`);
* `engine`: Flower's ClientApp and ServerApp, which carry bytes and see no data.

What runs, for the methods in `METHODS`: masked sums, unmasked by the clients or read by the server
("masked"); sums without a server, through a relay that reads nothing ("serverless"); one round of
local reports ("local"); and sums of a trusted server ("trusted"). Not offered: ``collect``,
``reports``, cohorts.

How to run it: docs/deployment.md.
"""

from fedclust.flower.client import ClientRoom
from fedclust.flower.exchange import RoundFailedError, Transport
from fedclust.flower.journal import JournalError
from fedclust.flower.messages import MessageError
from fedclust.flower.server import ServerRoom
from fedclust.flower.study import METHODS, Study
