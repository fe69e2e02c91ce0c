"""The page in a real browser, during a real solve."""

from __future__ import annotations

import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import dsolver
from dsolver.monitor.state import State
from tests.support.clusters import forked
from tests.support.waiting import PATIENCE, eventually

selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
GRID = (32, 32, 32)
FIRST = 15
"""Iterations until the page is there, and half of those that follow until the test has looked at it."""

pytestmark = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="neither Chromium nor its driver is there")

COLUMNS = """
for (const document of Bokeh.documents)
    for (const model of document._all_models.values())
        if (model.type === "ColumnDataSource" && arguments[0] in model.data)
            return Array.from(model.data[arguments[0]]);
return [];
"""


@pytest.fixture
def browser() -> Iterator[Any]:
    options = selenium.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1500,900"):
        options.add_argument(argument)
    options.binary_location = str(CHROMIUM)
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


def facts(browser: Any) -> str:
    """Words of the page."""
    return str(
        browser.execute_script(
            "return Bokeh.documents.flatMap(d => Array.from(d._all_models.values()))"
            ".filter(m => m.type === 'Div').map(m => m.text).join(' ')"
        )
    )


def test_the_page_shows_the_residual_fall_and_the_lanes_of_both_kinds(browser: Any, tmp_path: Path) -> None:
    shown, ended = threading.Event(), threading.Event()

    def slowly(state: State) -> bool:
        """No solve has ended before its page was seen."""
        time.sleep(0.1)
        if state.iteration in (FIRST, 3 * FIRST):
            (shown if state.iteration == FIRST else ended).wait(PATIENCE)
        return ended.is_set()

    with (
        forked(),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        problem = dsolver.problems.poisson7(GRID, chunks=(2, 1, 1))
        b = np.random.default_rng(0).standard_normal(GRID)
        solving = threading.Thread(
            target=dsolver.solve, args=(problem, b), kwargs={"client": client, "callback": slowly, "M": None, "rtol": 0}
        )
        solving.start()
        try:
            page = client.dashboard_link.rpartition("/")[0] + "/dsolver"

            def there() -> bool:
                with suppress(OSError), urllib.request.urlopen(page, timeout=PATIENCE):
                    return True
                return False

            eventually(there)  # it comes with the solve
            browser.get(page)
            first = eventually(lambda: browser.execute_script(COLUMNS, "residual"))
            shown.set()
            eventually(lambda: len(browser.execute_script(COLUMNS, "residual")) > max(len(first), FIRST) + 10)
            residuals = browser.execute_script(COLUMNS, "residual")
            assert residuals[-1] < residuals[0]
            lanes = set(eventually(lambda: browser.execute_script(COLUMNS, "lane")))
            assert {"rank 0 main", "rank 0 halo", "rank 1 main", "rank 1 halo"} <= lanes
            kinds = set(browser.execute_script(COLUMNS, "kind"))
            assert {"inner", "exchange"} <= kinds
            assert browser.find_element("link text", "Dsolver").get_attribute("href") == page
            picture = tmp_path / "page.png"
            browser.save_screenshot(str(picture))
            assert picture.stat().st_size > 20_000
            assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            shown.set()
            ended.set()
            solving.join()
        eventually(lambda: "stopped_by_callback" in facts(browser))
