"""The command ``posenc``: studies are set up, checked, looked into and recorded by it."""

from posenc.cli import parameters, results, studies
from posenc.cli.common import app, run_checkout

__all__ = ["app", "main", "parameters", "results", "studies"]


def main() -> None:
    """Run the command with the code of the checkout that it is called in."""
    run_checkout()
    app()
