"""The page in a real browser: every control, every panel, and the numbers of `optfilter filter`.

Run by `python3 -m unittest discover -s crates/optfilter-explore/tests/browser` after `cargo build -p optfilter-cli`; skipped
with a reason where there is no browser. EXPLORE_PICTURES=FOLDER keeps screenshots.
"""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from webdriver import Browser, Driver, Program, missing, program, until

ROOT = Path(__file__).resolve().parents[4]
READY = "return document.documentElement.dataset.drawn > 0"


def short(v: float) -> str:
    """Four significant digits, as the program prints."""
    if v is None or v != v:
        return "n/a"
    if v == 0:
        return "0"
    import math
    size = math.floor(math.log10(abs(v)))
    return f"{v:.{max(3 - size, 0)}f}" if -4 <= size < 7 else f"{v:.3e}"


@unittest.skipIf(missing(), missing() or "")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        if not program().exists():
            raise unittest.SkipTest(f"{program()} is not built")
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = Path(cls.folder.name)
        cls.driver = Driver()
        cls.program = Program()

    @classmethod
    def tearDownClass(cls) -> None:
        code = cls.program.close()
        cls.driver.close()
        cls.folder.cleanup()
        assert code == 130, f"Ctrl-C ended the program with {code}"

    def setUp(self) -> None:
        self.browser = Browser(self.driver, downloads=self.place)

    def tearDown(self) -> None:
        complaints = self.browser.complaints()
        outside = self.browser.run("return performance.getEntriesByType('resource').map(e => e.name)"
                                   ".filter(n => !n.startsWith(location.origin) && !n.startsWith('blob:') && !n.startsWith('file:'))")
        self.browser.close()
        self.assertEqual(complaints, [])
        self.assertEqual(outside, [])

    # Helpers

    def begin(self, piece: str = "nile", address: str = "") -> None:
        self.browser.open(address or self.program.address)
        self.browser.wait(READY)
        if piece != "nile":
            self.choose("#gallery", piece)

    def settled(self, act) -> None:
        """Does something and waits until the page has drawn anew and asks nothing any more."""
        before = self.browser.run("return Number(document.documentElement.dataset.drawn)")
        act()
        self.browser.wait("const d=document.documentElement.dataset;return Number(d.drawn) > arguments[0] && d.busy === '0'", before,
                          what="a new drawing")

    def choose(self, selector: str, value: str) -> None:
        script = "const e=document.querySelector(arguments[0]);e.value=arguments[1];e.dispatchEvent(new Event('change',{bubbles:true}))"
        self.settled(lambda: self.browser.run(script, selector, value))

    def legend(self) -> str:
        return self.browser.run("return document.querySelector('#legend span').textContent")

    def score(self, name: str) -> str:
        return self.browser.run("return document.querySelector(`[data-score='${arguments[0]}']`).textContent", name)

    def taken(self, what: str):
        """A text or file of the page's Take away, by the page's own request."""
        script = """const [what, done] = arguments;
            const store = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(location.hash.slice(1).replace(/-/g,'+').replace(/_/g,'/')), c => c.charCodeAt(0))));
            fetch('api/take', {method:'POST', body: JSON.stringify({what, subject: store.subject, filter: store.a,
                view: {states: store.states, observations: store.observations}})}).then(r => r.text()).then(done)"""
        self.browser.click("#tab-take")
        self.browser.click("#take-link")
        self.browser.wait("return location.hash.length > 10")
        return self.browser.later(script, what)

    def reference(self) -> tuple[dict, list[dict]]:
        """What `optfilter filter` makes of the page's model file and table."""
        texts = json.loads(self.taken("texts"))
        (self.place / "model.toml").write_text(texts["toml"])
        (self.place / "data.csv").write_text(self.taken("data"))
        done = subprocess.run([str(program()), "filter", "model.toml", "data.csv", "--json", "--out", "out.csv"],
                              cwd=self.place, capture_output=True, text=True, check=True)
        with (self.place / "out.csv").open() as file:
            return json.loads(done.stdout), list(csv.DictReader(file))

    def assert_same_numbers(self) -> None:
        said, rows = self.reference()
        self.assertEqual(self.score("prediction-0-a"), short(said["prediction_error"][0]))
        ratio = 100 * said["prediction_error"][0] / said["repeat_error"][0]
        self.assertEqual(self.score("ratio-0-a"), f"{ratio:.0f} %")
        self.assertEqual(self.score("log-likelihood-a"), short(said["log_likelihood"]))
        self.assertEqual(self.score("nis-a"), short(said["mean_nis"]))
        self.assertEqual(self.taken("csv"), (self.place / "out.csv").read_text())

    # Tests

    def test_numbers_are_those_of_the_command(self) -> None:
        self.begin()
        self.assert_same_numbers()
        for piece in ["lorenz63", "pendulum", "gps"]:
            with self.subTest(piece):
                self.choose("#gallery", piece)
                self.assert_same_numbers()

    def test_every_control_changes_what_it_should(self) -> None:
        self.begin("lorenz63")
        changed = {
            "steps": ("4", "steps 4"), "lr": ("0.25", "lr 0.25"), "measurement_scale": ("2", "measurement-scale 2"),
        }
        for key, (value, words) in changed.items():
            before = self.score("prediction-0-a"), self.score("log-likelihood-a")
            self.choose(f"#set-{key}", value)
            self.assertIn(words, self.legend())
            after = self.score("prediction-0-a"), self.score("log-likelihood-a")
            self.assertNotEqual(before, after, key)
        self.choose("#set-optimizer", "nesterov")
        self.choose("#set-decay", "0.5")
        self.assertIn("decay 0.5", self.legend())
        self.settled(lambda: self.browser.click("#set-carry"))
        self.assertIn("carry", self.legend())
        self.assert_same_numbers()
        self.browser.click("#tab-step")
        self.settled(lambda: self.browser.click("#set-carry"))
        self.choose("#set-window", "2")
        self.assertIn("window 2", self.legend())
        self.choose("#set-discount", "0.8")
        self.assertIn("discount 0.8", self.legend())
        hidden = "return document.querySelector(`[data-key='${arguments[0]}']`).hidden"
        for key in ["particles", "members", "seed", "process_scale"]:
            self.assertTrue(self.browser.run(hidden, key), key)
        self.choose("#set-method", "pf")
        for key in ["lr", "optimizer", "steps", "window", "decay"]:
            self.assertTrue(self.browser.run(hidden, key), key)
        self.choose("#set-particles", "150")
        self.choose("#set-seed", "4")
        self.choose("#set-process_scale", "3")
        self.assertEqual(self.legend().split(" with")[0], "A: pf process-scale 3 measurement-scale 2 particles 150 seed 4")
        self.assert_same_numbers()
        self.browser.run("document.activeElement.blur()")
        before = self.legend()
        self.settled(lambda: self.browser.keys("Control+z"))
        self.assertNotEqual(self.legend(), before)
        self.settled(lambda: self.browser.click("#redo"))
        self.assertEqual(self.legend(), before)

    def test_a_slider_is_a_setting_and_one_undo(self) -> None:
        self.begin()
        before = self.legend()
        slide = """const s = document.querySelector("[data-key='lr'] input[type=range]");
            for (const v of [400, 500, 600]) { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); }
            s.dispatchEvent(new Event('change', {bubbles: true}))"""
        self.settled(lambda: self.browser.run(slide))
        self.browser.wait("return document.querySelector('#legend span').textContent !== arguments[0]", before)
        self.settled(lambda: self.browser.click("#undo"))
        self.browser.wait("return document.querySelector('#legend span').textContent === arguments[0]", before)

    def test_a_wrong_setting_is_said_beside_it(self) -> None:
        self.begin()
        self.browser.run("const f=document.querySelector('#set-lr');f.value='-1';f.dispatchEvent(new Event('change',{bubbles:true}))")
        self.browser.wait("return document.querySelector('#set-lr-wrong').textContent.includes('must be positive')")
        self.choose("#set-lr", "1000")
        self.assertEqual(self.browser.text("#set-lr-wrong"), "")

    def test_two_filters_over_one_another(self) -> None:
        self.begin()
        self.settled(lambda: self.browser.click("#side-b"))
        self.choose("#set-method", "kf")
        self.assertIn("B: kf", self.browser.text("#legend"))
        self.assertNotEqual(self.score("prediction-0-a"), self.score("prediction-0-b"))
        self.browser.picture("two-filters")
        self.browser.click("#drop-b")
        self.assertNotIn("B: kf", self.browser.text("#legend"))

    def test_smoothed_and_forecast_bands_and_some_rows_apart(self) -> None:
        self.begin()
        self.choose("#set-method", "kf")
        self.settled(lambda: self.browser.click("#smooth"))
        self.assertIn("smoothed", self.browser.text("#legend"))
        self.choose("#ahead", "20")
        all_rows = self.score("log-likelihood-a")
        self.browser.run("document.querySelector('#rows-box').open = true")
        self.browser.run("document.querySelector('#chosen-from').value='1'")
        self.choose("#chosen-to", "50")
        self.assertIn("A, rest", self.browser.text("#scores"))
        self.assertNotEqual(self.score("log-likelihood-a"), all_rows)
        self.browser.picture("smoothed-and-forecast")

    def test_a_dropped_table_and_a_wrong_model_corrected(self) -> None:
        self.begin()
        drop = """const text = arguments[0]; const data = new DataTransfer();
            data.items.add(new File([text], 'levels.csv', {type: 'text/csv'}));
            document.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))"""
        rows = "day,depth\n" + "".join(f"{k},{10 + (k * 7 % 5)}\n" for k in range(60))
        self.settled(lambda: self.browser.run(drop, rows))
        self.assertIn("60 rows of levels.csv", self.browser.text("#about"))
        self.browser.wait("return document.querySelector('#panel-model').hidden === false")
        write = "const f=document.querySelector('#model-text');f.value=f.value.replace(arguments[0],arguments[1]);f.dispatchEvent(new Event('input'))"
        self.browser.run(write, 'level = "level"', 'level = "0.9*levle"')
        said = self.browser.wait("return document.querySelector('#model-fault').textContent")
        (self.place / "wrong.toml").write_text(self.browser.run("return document.querySelector('#model-text').value"))
        checked = subprocess.run([str(program()), "model", "check", "wrong.toml"], cwd=self.place, capture_output=True, text=True)
        self.assertEqual(said.replace("levels.toml", "wrong.toml").strip().split("\n"), checked.stderr.strip().split("\n"))
        self.assertIn("^^^^^ did you mean `level`?", said)
        self.browser.picture("wrong-model")
        self.settled(lambda: self.browser.run(write, "levle", "level"))
        self.assertEqual(self.browser.text("#model-fault"), "")
        self.assert_same_numbers()

    def test_the_path_of_a_step_ends_at_the_estimate(self) -> None:
        self.begin()
        self.browser.click("#tab-step")
        self.browser.click_at("#timeline", 500, 60)
        self.browser.wait("return document.documentElement.dataset.opened === String(Number(document.querySelector('#step-row').value) - 1)")
        row = int(self.browser.run("return document.documentElement.dataset.opened"))
        said = self.browser.text("#step-text")
        self.browser.picture("step")
        _, rows = self.reference()
        self.assertIn(f"→ {short(float(rows[row]['level']))};", said)
        self.browser.click("#tab-step")
        self.browser.click("#step-play")
        self.browser.wait("return Number(document.documentElement.dataset.opened) > arguments[0] + 2", row)
        self.browser.click("#step-play")

    def test_contours_over_two_states(self) -> None:
        self.begin("lorenz63")
        script = "const e=document.querySelector(arguments[0]);e.value=arguments[1];e.dispatchEvent(new Event('change',{bubbles:true}))"
        self.browser.run(script, "#step-second", "1")
        self.browser.wait("return document.querySelector('#step-text').textContent.includes(', y ')")
        self.browser.run("document.querySelector('#panel-step').scrollIntoView()")
        self.browser.picture("contours")

    def test_a_click_on_the_map_sets_the_sliders(self) -> None:
        self.begin()
        self.browser.click("#tab-map")
        self.browser.click("#map-start")
        self.browser.wait("return document.querySelector('#map-text').textContent.includes('cannot be told from the best')", seconds=120)
        self.browser.run("document.querySelector('#panel-map').scrollIntoView()")
        self.browser.picture("map")
        self.settled(lambda: self.browser.click_at("#map-canvas", 300, 100))
        words = self.browser.text("#map-text")
        rate, steps = words.split("lr ")[1].split(",")[0], words.split("steps ")[1].split(":")[0]
        self.assertIn(f"steps {steps} lr {rate}", self.legend())
        shown = self.score("ratio-0-a")
        self.assertEqual(self.browser.run("return document.querySelector('#set-lr').value"), rate)
        self.assertTrue(shown.endswith("%"))

    def test_the_leader_board_can_be_stopped_and_used(self) -> None:
        self.begin()
        self.browser.click("#tab-board")
        # So many that it is rarely over before it is stopped; a fast machine may be faster than a click.
        self.browser.run("document.querySelector('#board-budget').value = 1000")
        self.browser.click("#board-start")
        self.browser.wait("return document.querySelectorAll('#board tbody tr').length > 0", seconds=120)
        self.browser.click("#board-stop")
        self.browser.wait(
            "const text = document.querySelector('#board-text').textContent; return text === 'Stopped.' || text.includes('tried')"
        )
        self.browser.run("document.querySelector('#board-budget').value = 20")
        self.browser.click("#board-start")
        self.browser.wait("return document.querySelector('#board-text').textContent.includes('tried')", seconds=180)
        self.browser.picture("leader-board")
        flags = self.browser.run("return document.querySelector('#board tbody code').textContent")
        self.settled(lambda: self.browser.click("#board tbody button"))
        self.assertIn(flags.replace("--method ", "").replace("--", ""), self.legend())

    def test_a_link_restores_everything_in_a_fresh_browser(self) -> None:
        self.begin("pendulum")
        self.choose("#set-method", "ukf")
        self.settled(lambda: self.browser.click("#zoom-in"))
        self.browser.click("#tab-take")
        self.browser.click("#take-link")
        address = self.browser.wait("return location.hash.length > 10 && location.href")
        legend, scores = self.legend(), self.browser.text("#scores table")
        fresh = Browser(self.driver)
        fresh.open(address)
        fresh.wait(READY)
        fresh.wait("return document.querySelector('#legend span').textContent === arguments[0]", legend)
        self.assertEqual(fresh.text("#scores table"), scores)
        self.assertEqual(fresh.run("return document.querySelector('#tab-take').ariaSelected"), "true")
        self.assertEqual(fresh.complaints(), [])
        fresh.close()

    def test_an_exported_page_needs_nobody(self) -> None:
        self.begin()
        self.browser.click("#tab-take")
        self.browser.click("#take-page")
        saved = until(lambda: next(iter(self.place.glob("page.html")), None))
        scores = self.browser.text("#scores table")
        lone = Browser(self.driver)
        lone.emulate("Network.enable")
        lone.emulate("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        lone.open(f"file://{saved}")
        lone.wait(READY)
        self.assertEqual(lone.text("#scores table"), scores)
        lone.run("const c=document.querySelector('#timeline'),r=c.getBoundingClientRect();"
                 "c.dispatchEvent(new PointerEvent('pointermove',{clientX:r.left+400,clientY:r.top+50}))")
        self.assertIn("estimate", lone.text("#hover"))
        lone.picture("exported")
        self.assertEqual(lone.complaints(), [])
        self.assertEqual(lone.run("return performance.getEntriesByType('resource').length"), 0)
        lone.close()

    def test_keyboard_alone(self) -> None:
        self.begin()
        seen = set()
        for _ in range(60):
            self.browser.keys("Tab")
            name = self.browser.run("const e=document.activeElement;const r=e.getBoundingClientRect();"
                                    "return [e.id||e.getAttribute('aria-label')||e.tagName, getComputedStyle(e).outlineStyle]")
            seen.add(name[0])
        for wanted in ["gallery", "side-b", "set-method", "set-lr", "timeline", "zoom-in", "step-row", "tab-step"]:
            self.assertIn(wanted, seen)
        self.browser.run("document.querySelector('#timeline').focus()")
        row = self.browser.run("return Number(document.querySelector('#step-row').value)")
        self.browser.keys("Right", "Right")
        self.browser.wait("return Number(document.querySelector('#step-row').value) === arguments[0] + 2", row)
        self.assertIn(f"row {row + 2}", self.browser.text("#hover"))
        self.browser.run("document.querySelector('#tab-step').focus()")
        self.browser.keys("Right")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "tab-map")
        self.browser.run("document.querySelector(\"[data-key='lr'] input[type=range]\").focus()")
        before = self.legend()
        self.settled(lambda: self.browser.keys("Right"))
        self.assertNotEqual(self.legend(), before)

    def test_everything_has_a_name(self) -> None:
        self.begin()
        nameless = self.browser.run("""return [...document.querySelectorAll('input,select,textarea,button,canvas')]
            .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim()).map(e => e.outerHTML)""")
        self.assertEqual(nameless, [])
        self.assertEqual(self.browser.run("return document.querySelector('#scores').getAttribute('aria-live')"), "polite")

    def test_a_phone_and_the_dark(self) -> None:
        self.browser.emulate("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        self.begin()
        for tab in ["step", "map", "board", "model", "take"]:
            self.browser.run("document.querySelector(arguments[0]).click()", f"#tab-{tab}")
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360, tab)
        self.browser.run("document.querySelector('#tab-step').click(); scrollTo(0, 0)")
        self.browser.picture("phone")
        self.browser.emulate("Emulation.clearDeviceMetricsOverride")
        light = self.browser.run("return getComputedStyle(document.body).backgroundColor")
        self.browser.emulate("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.browser.wait("return getComputedStyle(document.body).backgroundColor !== arguments[0]", light)
        self.browser.picture("dark")

    def test_two_pages_do_not_disturb_one_another(self) -> None:
        self.begin()
        other = Browser(self.driver)
        other.open(self.program.address)
        other.wait(READY)
        before = other.text("#scores table")
        self.choose("#set-lr", "300")
        self.choose("#gallery", "pendulum")
        self.assertEqual(other.text("#scores table"), before)
        other.close()


@unittest.skipIf(missing(), missing() or "")
class GivenFiles(unittest.TestCase):
    def test_files_of_the_command_line_and_save(self) -> None:
        if not program().exists():
            self.skipTest(f"{program()} is not built")
        with tempfile.TemporaryDirectory() as folder:
            data = ROOT / "examples/data"
            saved = Path(folder, "chosen.toml")
            run = Program(str(data / "nile.toml"), str(data / "nile.csv"), "--method", "imap", "--optimizer", "adam", "--lr", "20", "--save", str(saved))
            driver = Driver()
            browser = Browser(driver)
            try:
                browser.open(run.address)
                browser.wait(READY)
                self.assertIn("adam", browser.text("#legend"))
                browser.click("#tab-take")
                browser.click("#take-save")
                # The file is there before its text is.
                until(lambda: saved.exists() and 'optimizer = "adam"' in saved.read_text())
            finally:
                browser.close()
                driver.close()
                self.assertEqual(run.close(), 130)


if __name__ == "__main__":
    unittest.main()
