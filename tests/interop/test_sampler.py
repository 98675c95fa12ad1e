"""Any function, here one that draws with torch."""

import pytest
import torch

pytestmark = pytest.mark.interop


def sampler(width):
    def draw(x, n_draws, rng):
        generator = torch.Generator().manual_seed(int(rng.integers(2**60)))
        noise = torch.randn(n_draws, 2, generator=generator)
        return x / 2 + width * 0.5**0.5 * noise

    return draw


def test_an_exact_sampler_passes_and_one_of_half_the_width_does_not(study, shown):
    theta, x = (torch.as_tensor(array) for array in study(200))
    # The posterior is exact, so p is uniform; seeds are fixed.
    assert shown("Any function", sampler=sampler(1.0), theta=theta, x=x)["check"].p_value > 0.01
    assert shown("Any function", sampler=sampler(0.5), theta=theta, x=x)["check"].p_value == 0.001
