"""Shell completion of commands and options."""

import click
from click.shell_completion import get_completion_class

from ._app import Command, say


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a SHELL.

    \b
    bash:  tarpon completion bash >> ~/.bashrc
    zsh:   tarpon completion zsh >> ~/.zshrc
    fish:  tarpon completion fish > ~/.config/fish/completions/tarpon.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "tarpon", "_TARPON_COMPLETE")
    say(script.source_template % script.source_vars())
