"""Files that tarpon itself has saved: results and monitors."""

from pathlib import Path

from .._base import arguments, disk
from .._base.arguments import shown
from ..results import KIND as RESULT
from ..results import Result
from ..sequential.adversaries import ADVERSARY, Adversary
from ..sequential.monitor import KIND as MONITOR
from ..sequential.monitor import Monitor, same_adversary


def load(path: str | Path, *, adversary: Adversary | None = None) -> Result | Monitor:
    """Read what `Result.save` or `Monitor.save` has written; a monitor goes on from there.

    Nothing is unpickled, and a file that is damaged or was changed is refused.

    Arguments:
        path: The file.
        adversary: The adversary of a monitor that had one, since files do not hold it.

    Example:
        >>> result = tarpon.sbc(tarpon.problems.gaussian("correct", n_sims=20, rng=0), rng=0)
        >>> result.save("result.npz")
        >>> tarpon.load("result.npz").p_value == result.p_value
        True
    """
    if adversary is not None:
        arguments.function("adversary", adversary, ADVERSARY, "fit")
    record = disk.load(path)
    kind = record.about.get("kind")
    if kind not in (RESULT, MONITOR):
        raise ValueError(f"{str(path)!r} is neither a result nor a monitor, but {shown(kind)}.")
    same_adversary(kind == MONITOR and record.about.get("adversary") is not None, adversary)
    with disk.checking(path):
        if kind == RESULT:
            return Result.of_record(record)
        return Monitor.of_record(record, adversary)
