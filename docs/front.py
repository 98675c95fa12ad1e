"""Write the first picture of the README for phones: the top of the report of its example.

    python docs/front.py      # writes docs/images/report-front.png

Needs Chromium and Playwright. The window is as narrow as a phone.
"""

import runpy
import shutil
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import tarpon

PICTURE = Path(__file__).parent / "images" / "report-front.png"
WINDOW = {"width": 560, "height": 600}


def example() -> tarpon.Check:
    """Return the check of the README."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 2))
    x = theta + rng.normal(size=(300, 2))
    samples = x / 2 + np.array([0.7, 0.5]) * rng.normal(size=(400, 300, 2))
    return tarpon.check(samples, theta, x=x, names=["mass", "spin"], rng=0)


def main() -> None:
    """Take the picture."""
    smaller = runpy.run_path(str(Path(__file__).parent / "pages.py"))["_smaller"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        example().report(f"{folder}/report.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=WINDOW, device_scale_factor=2, color_scheme="light")
        page.goto((Path(folder) / "report.html").as_uri())
        page.screenshot(path=f"{folder}/front.png")
        browser.close()
        smaller(f"{folder}/front.png", str(PICTURE))


if __name__ == "__main__":
    main()
