"""The command line. Exit status 0: nothing found, 1: inaccurate, 2: wrong call."""

import click

from .._version import __version__
from . import _completion, _files, _local, _mending, _repair, _run, _studies
from ._app import Group

__all__ = ["main"]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Are these posterior samples accurate?

    \b
    Try it:         tarpon demo
    Test a file:    tarpon check draws.npz --report report.html
    Compare files:  tarpon check flow.npz diffusion.npz --report report.html
    In a pipeline:  tarpon check draws.npz --quiet --max-width-error 0.2
    At one x:       tarpon near draws.npz --at observation.npy
    In data space:  tarpon where draws.npz
    Regions:        tarpon cover draws.npz --level 0.9
    Mend and prove: tarpon repair draws.npz
    List a file:    tarpon inspect draws.npz
    Run one test:   tarpon tarp draws.npz --plot curve.png
    Plan a study:   tarpon plan 10 --bias 0.3
    Run a study:    tarpon run problem.py
    The paper:      tarpon reproduce all --quick

    \b
    Resume:         tarpon check draws.zarr --resume blocks
    On a cluster:   tarpon check draws.zarr --scheduler tcp://head:8786
    In a job array: tarpon check draws.zarr --resume blocks --shard 0/10
                    tarpon merge blocks

    A file (.npz, .h5, .nc, .zarr, .safetensors, .pt, .csv, .parquet, a folder of .npy) contains
    `samples` (n_draws, n_sims, n_dims) and `theta` (n_sims, n_dims), or `log_prob_samples` and
    `log_prob_theta` for hpd. The exit status is 0 if nothing was found, 1 if the posteriors are
    inaccurate, 2 if the call was wrong, and 130 after Ctrl-C.
    """


for command in (
    *_files.COMMANDS,
    *_local.COMMANDS,
    *_mending.COMMANDS,
    *_repair.COMMANDS,
    _run.run,
    *_studies.COMMANDS,
    _completion.completion,
):
    main.add_command(command)
