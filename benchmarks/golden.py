"""Every answer over many seeds and shapes, as JSON, to compare two versions of the code.

    python benchmarks/golden.py --write before.json
    python benchmarks/golden.py --compare before.json

Numbers are compared bit by bit; words are compared unless `--numbers` is given. Answers of torch
on a CUDA device are added if there is one.
"""

import argparse
import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tarpon
from tarpon import Simulations, metrics, references

SHAPES = [(50, 40, 1), (120, 80, 2), (64, 200, 3), (200, 50, 10), (99, 30, 30)]
FLAWS = ["exact", "narrow", "shift", "correlation_missed", "local_width"]


def digest(array: Any) -> str:
    return hashlib.sha256(
        np.ascontiguousarray(np.asarray(array, dtype=float)).tobytes()
    ).hexdigest()[:16]


def studies(seed: int) -> Iterator[tuple[str, Simulations]]:
    """Yield simulations of every kind, with their names."""
    rng = np.random.default_rng(seed)
    n_draws, n_sims, n_dims = SHAPES[seed % len(SHAPES)]
    theta = rng.normal(size=(n_sims, n_dims))
    x = theta + 0.5 * rng.normal(size=(n_sims, n_dims))
    width = (1.0, 0.7, 1.0, 1.3)[seed % 4]
    draws = 0.8 * x + np.sqrt(0.2) * width * rng.normal(size=(n_draws, n_sims, n_dims))
    draws[..., 0] += (0.0, 0.0, 0.3, 0.0)[seed % 4]
    yield "plain", Simulations(draws, theta)
    yield "observed", Simulations(draws, theta, x=x)
    yield "single", Simulations(draws.astype(np.float32), theta.astype(np.float32), x=x)
    log_prob = lambda z: -2.5 * np.square(z - 0.8 * x).sum(axis=-1)  # noqa: E731
    yield (
        "density",
        Simulations(
            draws, theta, x=x, log_prob_samples=log_prob(draws), log_prob_theta=log_prob(theta)
        ),
    )
    weight = lambda z: -0.1 * np.square(z).sum(axis=-1)  # noqa: E731
    yield (
        "weighted",
        Simulations(draws, theta, x=x, log_weights=weight(draws), log_weights_theta=weight(theta)),
    )
    yield "resampled", Simulations(draws, theta, x=x, log_weights=weight(draws))
    number = rng.integers(n_draws // 2, n_draws, size=n_sims)
    yield "ragged", Simulations([draws[:n, i] for i, n in enumerate(number)], theta, x=x)
    yield "rounded", Simulations(np.round(draws, 1), np.round(theta, 1), x=x)
    broken = draws.copy()
    broken[0, 3] = np.nan
    yield "dropped", Simulations(broken, theta, x=x, on_invalid="drop")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.npy"
        np.save(path, draws)
        yield "stored", Simulations(np.load(path, mmap_mode="r"), theta, x=x)


def result(test: tarpon.Result) -> dict[str, Any]:
    answer = test.to_dict() | {"ranks": digest(test.ranks.values), "repr": repr(test)}
    del answer["versions"]
    return answer


def answers(sims: Simulations, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield the answer of every test."""
    yield "tarp", result(tarpon.tarp(sims, rng=seed))
    yield (
        "tarp posterior",
        result(tarpon.tarp(sims, reference=references.Posterior(), metric=metrics.L1(), rng=seed)),
    )
    yield "sbc", result(tarpon.sbc(sims, rng=seed))
    if sims.log_prob_theta is not None:
        yield "hpd", result(tarpon.hpd(sims, rng=seed))
    check = tarpon.check(sims, scores={"sum": lambda theta, x: theta.sum(axis=-1)}, rng=seed)
    yield "check", check.to_dict() | {"print": str(check), "repr": repr(check)}
    monitor = tarpon.Monitor(rng=seed).add(sims)
    yield "monitor", [repr(monitor), digest(monitor.history.log_e), digest(monitor.history.within)]


def every(n_seeds: int) -> dict[str, Any]:
    golden: dict[str, Any] = {}
    for seed in range(n_seeds):
        for name, sims in studies(seed):
            for test, answer in answers(sims, seed):
                golden[f"{seed} {name} {test}"] = answer
        flaw = FLAWS[seed % len(FLAWS)]
        sims = tarpon.problems.zoo(flaw, n_dims=2 + seed % 3, n_sims=60, rng=seed)
        for test, answer in answers(sims, seed):
            golden[f"{seed} zoo {flaw} {test}"] = answer
    golden["plan"] = repr(tarpon.plan(2, bias=0.5, rng=0))
    golden["device"] = on_device()
    return json.loads(json.dumps(golden, default=str))


def on_device() -> Any:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    sims = tarpon.problems.zoo("narrow", n_dims=5, rng=0)
    moved = Simulations(torch.tensor(sims.samples).cuda(), sims.theta, x=sims.x)
    return dict(answers(moved, 0))


def differences(before: Any, after: Any, place: str, words: bool) -> Iterator[str]:
    """Yield the differences of two answers, with their place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            yield from differences(before.get(key), after.get(key), f"{place} / {key}", words)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for k, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{place} / {k}", words)
    elif before != after and (words or not (isinstance(before, str) and isinstance(after, str))):
        yield f"{place}: {before!r} → {after!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--numbers", action="store_true", help="ignore words")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    golden = every(options.seeds)
    if options.write:
        options.write.write_text(json.dumps(golden))
    if options.compare:
        before = json.loads(options.compare.read_text())
        changed = list(differences(before, golden, "", not options.numbers))
        print("\n".join(changed[:200]))
        print(f"{len(golden)} answers, {len(changed)} differences")


if __name__ == "__main__":
    main()
