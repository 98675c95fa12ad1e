"""The pages of proofs name tests that exist; and what they prove that no other test measures."""

import ast
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations
from tarpon.checks import swaps
from tarpon.checks.evidence import marginal_p_values
from tarpon.checks.features import features
from tarpon.checks.labellings import Part
from tarpon.regions import HalfLines
from tarpon.sequential.bets import log_softmax_bet

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "math").glob("*.md"))
STATEMENT = re.compile(r"^\(s(\d+)\)=\n## (\d+)\. ", re.MULTILINE)
FALSE_ALARM = 1e-6


def names_in(path):
    """Return the names of a file's tests, as pytest has them."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        inside = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {inside + member.name for member in members if hasattr(member, "name")}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_named_test_exists(page):
    named = re.findall(r"`tests/(\w+\.py)::([\w:]+)`", page.read_text())
    assert named
    for file, name in named:
        assert name in names_in(ROOT / "tests" / file), f"{page.name} names {file}::{name}"


def test_every_statement_has_a_number_a_proof_and_a_test():
    numbers = []
    for page in PAGES:
        _, *parts = STATEMENT.split(page.read_text())
        for label, number, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            assert label == number
            assert "*Proof.*" in text or "*Sketch.*" in text or number == "10", number
            assert "*Measured by*" in text, number
            numbers.append(int(number))
    assert sorted(numbers) == list(range(1, 26))
    listed = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "math.md").read_text(), re.MULTILINE)
    assert [int(number) for number in listed] == sorted(numbers)


def cells(page, start):
    """Return the cells of the rows of a page's tables that start with some words."""
    rows = [line for line in page.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_words_say_what_the_tables_have():
    docs = ROOT / "docs"
    (mean,) = cells((docs / "power.md").read_text(), "**mean over the first flaws**")
    questions = " ".join((docs / "faq.md").read_text().split())
    assert f"`check` {float(mean[2]):.0%}".replace("%", " %") in questions
    page = (docs / "draws.md").read_text()
    naive = [float(row[-1].split()[0]) for row in cells(page, "20 ") + cells(page, "50 ")]
    assert f"from {100 * min(naive):.0f} to {100 * max(naive):.0f} %" in " ".join(page.split())
    resampled = [float(row[k]) for row in cells(page, "50,") + cells(page, "500,") for k in (2, 4)]
    assert 0.045 <= min(resampled) <= max(resampled) <= 0.055


def adjusted(samples, theta, seed):
    """Return the adjusted p-value of each parameter, as `check` has it."""
    rng, sims = np.random.default_rng(seed), Simulations(samples, theta)
    found = features(None, sims.centres(), 1, rng)
    parts = {"marginals": Part(HalfLines())}
    sums = swaps.swap(sims, parts, found, np.arange(1), n_swaps=39, rng=rng)
    return marginal_p_values(sums)


@pytest.mark.slow
def test_right_parameters_are_not_named_along_with_a_wrong_one():
    n_studies, named, seen = 400, 0, 0
    for seed in range(n_studies):
        points = np.random.default_rng(seed).normal(size=(21, 30, 4))
        points[..., 1:] += points[..., :1]  # they depend on each other
        points[0, :, 0] += 1.5
        p = adjusted(points[1:], points[0], seed)
        seen += p[0] <= 0.05
        named += (p[1:] <= 0.05).any()
    assert seen == n_studies
    assert named <= binom.isf(FALSE_ALARM, n_studies, 0.05)


def test_truths_from_another_prior_need_weights():
    """Truths of N(1, 0.3), posteriors for the prior N(0, 1): 2000 ranks, in their outer tenth."""
    rng = np.random.default_rng(0)
    theta = 1 + 0.3 * rng.normal(size=(2000, 1))
    x = theta + 0.5 * rng.normal(size=theta.shape)
    samples = 0.8 * x + np.sqrt(0.2) * rng.normal(size=(50, 2000, 1))

    def log_weights(points):
        return (-0.5 * ((points - 1) / 0.3) ** 2 + 0.5 * points**2)[..., 0]

    weighted = Simulations(
        samples, theta, log_weights=log_weights(samples), log_weights_theta=log_weights(theta)
    )
    assert tarpon.sbc(weighted, rng=0).p_value > FALSE_ALARM
    assert tarpon.sbc(samples, theta, rng=0).p_value < FALSE_ALARM
    ranks = tarpon.sbc(weighted, rng=0).ranks.values[:, 0]
    outer = int(((ranks < 50) | (ranks > 949)).sum())
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 2000, 0.1)
    assert low <= outer <= high


def test_nobody_wins_more_than_the_divergence():
    """Every study of a truth and three draws with three values, each with its probability."""
    exact, estimated = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    ratio, shares = np.log(exact / estimated), (0.0, 0.5, 0.9, 1.0, 1.1, 3.0)
    won = np.zeros(len(shares))
    for truth, *draws in product(range(3), repeat=4):
        sims = Simulations(np.reshape(draws, (3, 1, 1)), np.reshape(truth, (1, 1)))
        block = next(sims.blocks()).hidden(np.random.default_rng(0))
        scores = ratio[block.points[:, 0, 0].astype(int)]
        paid = [log_softmax_bet(share * scores, block) for share in shares]
        won += exact[truth] * estimated[draws].prod() * np.array(paid)
    assert (won < (exact * ratio).sum()).all()
    assert won.argmax() == 3  # who knows the ratio itself wins most
    assert won[0] == pytest.approx(0, abs=1e-12)
