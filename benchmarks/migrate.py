"""How numbers change for users of other packages: see docs/migrate.md.

    make peers                                  # sets up the other packages
    .venv-peers/bin/python benchmarks/migrate.py

The page quotes every line. An "alarm" is a curve farther from the diagonal than the curves of
uniform ranks in 95 % of studies (Kolmogorov and Smirnov), or a p-value of 5 % or less.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import tarp
import torch
from lampe.diagnostics import expected_coverage_mc
from sbi.diagnostics.sbc import check_uniformity_frequentist
from sbi.diagnostics.tarp import _run_tarp, check_tarp, get_tarp_references
from scipy.stats import kstwo
from torch.distributions import Independent, Normal, Uniform

import tarpon
from tarpon.compat import get_tarp_coverage

N_STUDIES = 200


def study(
    seed: int,
    *,
    shift: float = 0.0,
    width: float = 1.0,
    n_sims: int = 100,
    n_draws: int = 100,
    n_dims: int = 2,
) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors N(x/2, 1/2), their mean off by `shift` sd and their sd by `width`."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, n_dims))
    mean = (theta + rng.normal(size=theta.shape)) / 2
    noise = shift + width * rng.normal(size=(n_draws, *theta.shape))
    return mean + np.sqrt(0.5) * noise, theta


def quietly(function: Callable[..., object], *args: object, **more: object) -> object:
    """Call a function without its progress bar and warnings."""
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **more)


def alarms(curve: Callable[[int], tuple[np.ndarray, np.ndarray]], n_sims: int) -> float:
    """Return the share of studies whose curve is too far from the diagonal."""
    most = kstwo.ppf(0.95, n_sims)
    curves = (curve(seed) for seed in range(N_STUDIES))
    return float(np.mean([abs(ecp - alpha).max() > most for ecp, alpha in curves]))


def bootstrap() -> Iterator[tuple[str, object, object]]:
    """Yield how curves of a seeded bootstrap differ, of the reference package and ours."""
    data = study(0, n_sims=300)
    call = {"bootstrap": True, "seed": 0, "num_alpha_bins": 30}
    spreads = []
    for function in (tarp.get_tarp_coverage, get_tarp_coverage):
        ecp, _ = quietly(function, *(numbers.copy() for numbers in data), **call)
        spreads.append((len(np.unique(ecp, axis=0)), f"{ecp.std(axis=0).max():.4f}"))
    yield "tarp: different curves of 100", spreads[0][0], spreads[1][0]
    yield f"tarp: largest sd, expected {np.sqrt(0.25 / 300):.4f}", spreads[0][1], spreads[1][1]


def boxes() -> Iterator[tuple[str, object, object]]:
    """Yield how often exact posteriors of lognormal parameters give an alarm."""

    def exact(seed: int) -> tuple[np.ndarray, np.ndarray]:
        samples, theta = study(seed, n_dims=100)
        return np.exp(samples), np.exp(theta)

    yield (
        "tarp: alarms of exact lognormal posteriors, norm=True",
        alarms(lambda s: tarp.get_tarp_coverage(*exact(s), norm=True, seed=s), 100),
        alarms(lambda s: get_tarp_coverage(*exact(s), norm=True, seed=s), 100),
    )


def own_references() -> Iterator[tuple[str, object, object]]:
    """Yield how often the bias of one parameter is found, with the user's references."""
    units = np.array([1000.0, 1.0])

    def curve(function: Callable[..., tuple[np.ndarray, np.ndarray]], seed: int) -> tuple:
        samples, theta = study(seed)
        samples[..., 1] += 0.7
        references = np.full_like(theta, -3.0)
        return function(
            units * samples, units * theta, references=units * references, norm=True, seed=seed
        )

    yield (
        "tarp: bias of 1 sd found, own references, norm=True",
        alarms(lambda seed: curve(tarp.get_tarp_coverage, seed), 100),
        alarms(lambda seed: curve(get_tarp_coverage, seed), 100),
    )


def sbi_tarp() -> Iterator[tuple[str, object, object]]:
    """Yield how often sbi's p-value of TARP and ours find gross errors."""
    for what, wrong in {
        "2x overconfident": {"width": 0.5},
        "bias of 1 sd": {"shift": 1.0},
    }.items():
        theirs = ours = 0
        for seed in range(N_STUDIES):
            torch.manual_seed(seed)
            samples, theta = study(seed, n_sims=500, **wrong)
            truths = torch.as_tensor(theta)
            curve = _run_tarp(
                torch.as_tensor(samples), truths, get_tarp_references(truths), z_score_theta=True
            )
            theirs += check_tarp(*curve)[1] <= 0.05
            ours += tarpon.tarp(samples, theta, rng=seed).p_value <= 0.05
        yield f"sbi: check_tarp finds {what}", theirs / N_STUDIES, ours / N_STUDIES


def sbi_sbc() -> Iterator[tuple[str, object, object]]:
    """Yield how often exact ranks alarm by sbi's p-value of SBC and by ours."""
    for n_draws, n_sims in [(100, 5000), (1000, 1000)]:
        theirs = ours = 0
        for seed in range(N_STUDIES):
            samples, theta = study(seed, n_sims=n_sims, n_draws=n_draws, n_dims=1)
            result = tarpon.sbc(samples, theta, rng=seed)
            ranks = torch.as_tensor(result.ranks.values)
            theirs += float(check_uniformity_frequentist(ranks, n_draws)[0]) <= 0.05
            ours += result.p_value <= 0.05
        what = f"sbi: check_sbc rejects exact posteriors, {n_sims} sims x {n_draws} draws"
        yield what, theirs / N_STUDIES, ours / N_STUDIES


def lampe() -> Iterator[tuple[str, object, object]]:
    """Yield how far LAMPE's curve and ours deviate for exact posteriors."""
    torch.manual_seed(0)
    theta = torch.randn(1000, 2)
    x = theta + torch.randn(1000, 2)

    def normal(x: torch.Tensor) -> Independent:
        return Independent(Normal(x / 2, 0.5**0.5), 1)

    def flat(x: torch.Tensor) -> Independent:
        return Independent(Uniform(-torch.ones_like(x), torch.ones_like(x)), 1)

    inside = 2 * torch.rand(1000, 2) - 1
    cases = {
        "exact posterior, pair by pair": (normal, theta, 1),
        "exact posterior, batches of 50": (normal, theta, 50),
        "flat exact posterior": (flat, inside, 1),
    }
    for what, (posterior, truths, n) in cases.items():
        batches = (truths, x) if n == 1 else (truths.split(n), x.split(n))
        pairs = zip(*batches, strict=True)
        level, ecp = quietly(expected_coverage_mc, posterior, pairs)
        samples = posterior(x).sample((1024,))
        densities = posterior(x).log_prob(samples), posterior(x).log_prob(truths)
        ours = tarpon.hpd(*densities, rng=0).curve
        off = float(abs(level - ecp).max()), abs(ours.ecp - ours.level).max()
        yield f"LAMPE: deviation, {what}", f"{off[0]:.3f}", f"{off[1]:.3f}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"{N_STUDIES} studies per rate; theirs, tarpon's")
    for part in (bootstrap, boxes, own_references, sbi_tarp, sbi_sbc, lampe):
        for what, theirs, ours in part():
            print(f"{what}: {theirs}, {ours}", flush=True)
