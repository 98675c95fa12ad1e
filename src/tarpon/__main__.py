"""`python -m tarpon` is `tarpon`."""

from .cli import main

main(prog_name="tarpon")
