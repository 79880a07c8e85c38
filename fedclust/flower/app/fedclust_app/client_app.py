"""Carries a message to the client's room on this machine, and its answer back. It sees no data.

A new process runs this for each message, so it imports nothing that takes time.
"""

from multiprocessing.connection import Client

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

SECONDS = 120  # a room that takes longer is stuck; the server will ask again
app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """One message; the socket of the room is in the configuration of this node."""
    with Client(str(context.node_config["room"]), family="AF_UNIX") as room:
        room.send_bytes(message.content["fedclust"]["message"])
        if not room.poll(SECONDS):
            raise TimeoutError("the room does not answer")
        answer = room.recv_bytes()
    content = RecordDict({"fedclust": ConfigRecord({"message": answer})})
    return Message(content=content, reply_to=message)
