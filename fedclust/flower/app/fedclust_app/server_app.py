"""The server of a study, inside Flower."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the study that the configuration names."""
    from fedclust.flower.server import serve

    serve(grid, context.run_config)
