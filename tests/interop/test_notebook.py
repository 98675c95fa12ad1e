"""Progress in a notebook: an output that changes, and is empty in the end."""

import pytest
from jupyter_client.manager import run_kernel

pytestmark = pytest.mark.interop

CELL = """
import time
import numpy as np, tarpon

def sampler(x, n_draws, rng):
    time.sleep({pause})
    return x / 2 + 0.5**0.5 * rng.normal(size=(n_draws, 1))

theta = np.random.default_rng(0).normal(size=(20, 1))
print(tarpon.from_sampler(sampler, theta, theta, 20, rng=0, n_workers=2).n_sims)
"""


def outputs(pause):
    """Return what a cell prints, and what it shows one after the other."""
    shown, printed = [], []

    def hook(message):
        content = message["content"]
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown.append((content["transient"]["display_id"], content["data"]))
        elif message["msg_type"] == "stream":
            printed.append((content["name"], content["text"]))

    with run_kernel(kernel_name="python3") as client:
        reply = client.execute_interactive(CELL.format(pause=pause), output_hook=hook, timeout=120)
    assert reply["content"]["status"] == "ok"
    return printed, shown


def test_one_output_is_updated_and_then_cleared():
    printed, shown = outputs(0.3)
    assert printed == [("stdout", "20\n")]
    assert len({name for name, _ in shown}) == 1
    data = [one for _, one in shown]
    assert data[0] == data[-1] == {"text/plain": ""}
    assert len(data) > 5
    assert "/20  " in data[1]["text/plain"]
    assert data[1]["text/plain"].endswith("draws")
    assert data[1]["text/html"].startswith('<progress value="')


def test_what_is_quick_shows_nothing():
    assert outputs(0.0) == ([("stdout", "20\n")], [])
