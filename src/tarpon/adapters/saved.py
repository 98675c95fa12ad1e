"""Saved results, monitors, calibrated regions and repairs."""

from pathlib import Path

from .. import results
from .._base import arguments, disk
from ..mending import records, repair, repair_records, thresholds
from ..mending.repair import Repair
from ..mending.thresholds import Cover
from ..results import Result
from ..sequential import monitor
from ..sequential.adversaries import ADVERSARY, Adversary
from ..sequential.monitor import Monitor


def load(
    path: str | Path, *, adversary: Adversary | None = None, near: monitor.Near | None = None
) -> Result | Monitor | Cover | Repair:
    """Read a result, a monitor, a cover or a repair that was saved.

    A monitor can be continued.

    Nothing is unpickled. Damaged files raise `ValueError`.

    Arguments:
        path: Path of the file.
        adversary: Adversary of the monitor, if it had one: the file does not contain it.
        near: Function `near` of the monitor, if it had one: the file does not contain it.

    Example:
        >>> result = tarpon.sbc(tarpon.problems.gaussian("correct", n_sims=20, rng=0), rng=0)
        >>> result.save("result.npz")
        >>> tarpon.load("result.npz").p_value == result.p_value
        True
    """
    if adversary is not None:
        arguments.function("adversary", adversary, ADVERSARY, "fit")
    if near is not None:
        arguments.function("near", near, monitor.NEAR)
    record = disk.load(path)
    kind = record.about.get("kind")
    if kind not in (results.KIND, monitor.KIND, thresholds.KIND, repair.KIND):
        raise ValueError(
            f"{str(path)!r} is neither a result nor a monitor nor a cover nor a repair, but "
            f"{arguments.shown(kind)}."
        )
    monitor.same_adversary(
        kind == monitor.KIND and record.about.get("adversary") is not None, adversary
    )
    monitor.same_window(kind == monitor.KIND and record.about.get("near") is True, near)
    with disk.checking(path):
        if kind == results.KIND:
            return results.restored(record)
        if kind == thresholds.KIND:
            return records.restored(record)
        if kind == repair.KIND:
            return repair_records.restored(record)
        return monitor.restored(record, adversary, near)
