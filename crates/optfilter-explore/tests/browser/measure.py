"""How long a move of a slider takes until it is drawn, in Chromium, and how long a map takes. Not a test: it prints.

    cargo build --release -p optfilter-cli
    OPTFILTER=target/release/optfilter python3 crates/optfilter-explore/tests/browser/measure.py
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from webdriver import Browser, Driver, Program, missing, program

MOVES = """const [key, count, done] = arguments; (async () => {
    const slider = document.querySelector(`[data-key='${key}'] input[type=range]`), root = document.documentElement, times = [];
    const drawn = () => new Promise((found) => { const watch = new MutationObserver(() => { watch.disconnect(); found(); });
        watch.observe(root, {attributes: true, attributeFilter: ['data-drawn']}); });
    for (let k = 0; k < count; k++) {
        slider.value = 350 + ((k * 37) % 200);
        const wait = drawn(), begun = performance.now();
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        await wait;
        await new Promise(requestAnimationFrame);
        times.push(performance.now() - begun);
        await new Promise((r) => setTimeout(r, 300 + 3 * times[times.length - 1]));
    }
    done(times);
})()"""


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main() -> None:
    if missing():
        raise SystemExit(missing())
    driver = Driver()
    with tempfile.TemporaryDirectory() as folder:
        for rows in (10_000, 100_000):
            table = Path(folder, f"{rows}.csv")
            subprocess.run([str(program()), "simulate", "lorenz63", "--steps", str(rows), "--seed", "1", "--out", str(table)], check=True,
                           capture_output=True)
            for key, settings in (("lr", ["--method", "imap", "--optimizer", "gd", "--steps", "10", "--lr", "0.1"]),
                                  ("measurement_scale", ["--method", "ekf"])):
                run = Program("lorenz63", str(table), *settings)
                browser = Browser(driver)
                browser.call("POST", "/timeouts", {"script": 300_000})
                browser.open(run.address)
                browser.wait("return document.documentElement.dataset.drawn > 0")
                browser.run("document.querySelector('#tab-take').click()")
                browser.later(MOVES, key, 3)
                times = browser.later(MOVES, key, 40)
                name = " ".join(settings[1:])
                print(f"{rows} rows, {name}: median {share(times, 0.5):.0f} ms, 95th percentile {share(times, 0.95):.0f} ms")
                browser.close()
                run.close()
    run = Program()
    browser = Browser(driver)
    browser.open(run.address)
    browser.wait("return document.documentElement.dataset.drawn > 0")
    browser.run("const g=document.querySelector('#gallery');g.value='toy';g.dispatchEvent(new Event('change'))")
    browser.wait("return document.querySelector('#about').textContent.includes('toy.csv')")
    browser.run("document.querySelector('#tab-map').click()")
    begun = "window.begun = performance.now(); document.querySelector('#map-start').click()"
    browser.run(begun)
    seconds = browser.wait("return document.querySelector('#map-text').textContent.includes('(dots)') && (performance.now() - window.begun) / 1000")
    print(f"a map of 20 x 20 of the toy system (200 rows): {seconds:.2f} s until the ties are marked")
    browser.close()
    run.close()
    driver.close()


if __name__ == "__main__":
    main()
