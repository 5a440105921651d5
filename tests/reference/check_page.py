"""Uses the page of `lacuna serve` in headless Chromium, as a visitor would.

    python check_page.py LACUNA_BINARY [--models FOLDER] [--screenshots FOLDER] [--url URL]

Needs chromium and chromium-driver (Debian's packages) and selenium. A generation, the slider, two settings, infill, an error and a
recorded run on mini-llada; nothing may be loaded from anywhere else, nor be reported on the console. --screenshots keeps
screenshots, light and dark, to look at. --url uses a page that is served already. Exit status 0 when nothing failed.
"""
import argparse
import base64
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from check_server import STORY, Report, Server, run
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SECONDS = 120
LEFT, RIGHT, HOME = Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.HOME


class Page:
    """The page in a browser of its own, until the end of the with block."""

    def __init__(self, url, screenshots):
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1100"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
        self.browser.set_script_timeout(SECONDS)
        self.screenshots = screenshots
        self.url = url
        self.open()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.quit()

    def open(self):
        self.browser.get(self.url)
        self.wait(lambda: self.one("#run").is_enabled())

    def wait(self, holds):
        WebDriverWait(self.browser, SECONDS).until(lambda _: holds())

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def count(self, selector):
        return len(self.all(selector))

    def texts(self, selector):
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector)

    def fill(self, selector, text):
        self.one(selector).send_keys(Keys.CONTROL, "a")
        self.one(selector).send_keys(text, Keys.TAB)  # a list of suggestions would take the next click

    def choose_kind(self, kind):
        self.one(f"input[value={kind}]").click()

    def choose_method(self, title, setting=0):
        Select(self.all(".method")[setting]).select_by_visible_text(title)

    def run(self):
        """Runs what is set, to the end."""
        before = self.all(".run")
        self.one("#run").click()
        self.wait(lambda: self.all(".run") != before and self.one("#run").is_enabled())

    def script(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def module(self, code):
        """What an async function's body gives that may import the page's modules."""
        return self.browser.execute_async_script(
            f"const done = arguments[0]; (async () => {{ {code} }})().then(done, (error) => done(String(error)));")

    def take_picture(self, name):
        if self.screenshots is None:
            return
        for scheme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                         {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            # Not save_screenshot(), which gives a busy machine ten seconds.
            screenshot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
            (self.screenshots / f"{name}-{scheme}.png").write_bytes(base64.b64decode(screenshot))


def check_first_press(report, page):
    """Run, pressed on a page that nobody has touched."""
    page.run()
    report.check("first press of Run", page.one(".answer").text.strip().endswith("The answer is 14."),
                 page.texts(".answer"))


def check_generation(report, page, expected):
    page.fill("#length", "32")
    page.run()
    report.check("answer", page.one(".answer").text.strip() == expected["text"].strip(), page.texts(".answer"))
    report.check("state", page.one(".state").text == "done", page.texts(".state"))
    report.check("all written", page.count(".canvas .masked") == 0 and page.count(".canvas .written") == 32)
    report.check("costs", page.texts(".costs th") == ["rows", "FLOPs", "time"] and "100.0%" in page.texts(".costs td"),
                 page.texts(".costs td"))
    page.take_picture("generation")


def check_slider(report, page):
    """The pass that the slider shows is the one that the canvas shows; keys move both."""
    slider = page.one(".slider")
    passes = int(slider.get_attribute("max"))
    slider.send_keys(HOME)
    report.check("before the first pass", page.count(".canvas .masked") == 32, page.count(".canvas .masked"))
    masked = []
    for _ in range(passes):
        slider.send_keys(RIGHT)
        masked.append(page.count(".canvas .masked"))
    report.check("masks vanish", masked == sorted(masked, reverse=True) and masked[-1] == 0, masked)
    for _ in range(passes // 2):
        slider.send_keys(LEFT)
    report.check("there and back", page.count(".canvas .masked") == masked[passes - passes // 2 - 1])
    report.check("slider speaks", slider.get_attribute("aria-valuetext").startswith(f"pass {passes - passes // 2} of"),
                 slider.get_attribute("aria-valuetext"))
    canvas = page.one(".canvas")
    canvas.send_keys(HOME, RIGHT)
    report.check("token details", page.one(".details").text.startswith("position 1"), page.one(".details").text)
    Select(page.one(".colour")).select_by_value("confidence")
    page.take_picture("replay")


def check_comparison(report, page):
    page.one("#compare").click()
    page.choose_method("Dual cache")
    page.run()
    report.check("two runs", page.texts(".state") == ["done", "done"], page.texts(".state") + page.texts(".error"))
    report.check("verdict", "the rows of the first" in page.one("#verdict").text, page.one("#verdict").text)
    report.check("time of the uncached run", all("–" not in text for text in page.texts(".costs td")),
                 page.texts(".costs td"))
    page.all(".slider")[0].send_keys(LEFT)
    report.check("kept rows", page.count(".canvas .kept") > 0)
    page.take_picture("comparison")
    page.one("#compare").click()


def check_lock(report, page):
    page.choose_method("SureLock")
    page.fill("input[name=lock]", "eps=0.5")
    page.run()
    report.check("locked tokens", page.count(".canvas .locked") > 0, page.texts(".error"))


def check_infill(report, page):
    page.choose_method("Every row in every step")
    page.choose_kind("infill")
    story = "Mia has 12 shells. She finds 7 more."
    page.fill("#prompt", story)
    for word in ("12", "7"):
        page.script("const [at, length] = arguments, prompt = document.getElementById('prompt');"
                    "prompt.focus(); prompt.setSelectionRange(at, at + length)", story.index(word), len(word))
        page.one("#prompt").send_keys(Keys.ALT, "h")
    page.wait(lambda: page.count("#holes li") == 2)
    page.one("#prompt").send_keys(Keys.CONTROL, HOME)
    page.one("#prompt").send_keys("Once, ")  # the holes move with their words
    report.check("holes", page.texts("#holes q") == ["12", "7"], page.texts("#holes q"))
    page.run()
    answer = page.one(".answer").text
    report.check("infill", answer.startswith("Once, Mia has ") and " shells. She finds " in answer, answer + str(page.texts(".error")))
    report.check("given around holes", page.count(".canvas .given") > 0 and page.count(".canvas .written") > 0)
    page.take_picture("infill")
    page.choose_kind("chat")
    page.fill("#prompt", STORY)


def check_error(report, page):
    page.fill("input[name=cache]", "nonsense")
    page.run()
    sentence = page.module("""
        const { ask } = await import("./stream.js");
        const body = { messages: [{ role: "user", content: "Mia" }], lacuna: { cache: "nonsense" } };
        try { await ask("v1/chat/completions", { body }); } catch (error) { return error.message; }""")
    report.check("error", sentence and "nonsense" in sentence and page.one(".error").text == sentence, page.one(".error").text)
    page.take_picture("error")
    page.fill("input[name=cache]", "")


def check_stop(report, page):
    page.fill("#length", "512")
    # A short answer would be over before the browser is asked again: the page itself clicks, as soon as it can.
    page.script("""const stop = document.querySelector("#stop");
        new MutationObserver((_, observer) => {
          if (stop.disabled) return;
          observer.disconnect();
          stop.click();
        }).observe(stop, {attributes: true});""")
    page.one("#run").click()
    page.wait(lambda: page.one(".state").text == "stopped" and page.one("#run").is_enabled())
    report.check("stopped", page.one(".state").text == "stopped", page.one(".state").text)
    page.fill("#length", "32")


def check_trace(report, page, trace, expected):
    # As the drop event brings it; a real drag would have to come from outside the browser.
    page.script("""const data = new DataTransfer();
        data.items.add(new File([arguments[0]], "run.jsonl"));
        document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));""", trace)
    page.wait(lambda: page.count(".canvas .written") > 0)
    canvas = lambda: page.script("return document.querySelector('.canvas').textContent")
    page.wait(lambda: expected["text"].strip() in canvas())
    page.one(".slider").send_keys(HOME)
    report.check("trace", page.count(".canvas .masked") == 32, page.count(".canvas .masked"))
    page.take_picture("trace")
    page.script("""const data = new DataTransfer();
        data.items.add(new File(["not a trace"], "letter.txt"));
        document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));""")
    page.wait(lambda: "no JSON" in page.one(".error").text)


def check_modules(report, page):
    """What no run of mini-llada shows: remasked, edited and growing canvases, and edits across holes."""
    states = page.module("""
        const { Run, Replay } = await import("./replay.js");
        const run = new Run();
        run.add({ type: "start", prompt: 1, mask: 9, canvas: [1, 9, 9] });
        run.add({ type: "step", step: 0, kind: "denoise", set: [[1, 5, 0.5]], lock: [1] });
        run.add({ type: "step", step: 1, kind: "verify", length: 4, set: [[3, 6, null]], edit: [[1, 4, 0.9]], unlock: [1],
                  computed: [[1, 3]] });
        run.add({ type: "step", step: 2, kind: "denoise", remask: [1] });
        const replay = new Replay(run);
        const show = () => replay.cells.map((cell) => [cell.masked ? "_" : cell.id, cell.edits, cell.locked, cell.kept, cell.guided].join());
        return [1, 2, 3, 1].map((step) => (replay.goTo(step), show().join(" ")));""")
    flags = lambda *cells: " ".join(cells)
    first = flags("1,0,false,false,false", "5,0,true,false,false", "_,0,false,false,false")
    report.check("replay", states == [
        first,
        flags("1,0,false,true,false", "4,1,false,false,true", "_,0,false,false,false", "6,0,false,true,true"),
        flags("1,0,false,true,false", "_,0,false,false,false", "_,0,false,false,false", "6,0,false,true,true"),
        first], states)
    holes = page.module("""
        const { addHole, inputOf, moveHoles } = await import("./holes.js");
        const before = "one two three";
        const holes = addHole(addHole([], { begin: 8, end: 13, tokens: 2 }), { begin: 4, end: 7, tokens: 1 });
        const after = (text) => moveHoles(holes, before, text).map((hole) => text.slice(hole.begin, hole.end));
        return [inputOf(before, holes), after("one twenty three"), after("0, one two three"), after("one three"), after("one two three!")];""")
    report.check("holes move", holes == [["one ", {"hole": 1}, " ", {"hole": 2}], ["twenty", "three"], ["two", "three"],
                                         ["three"], ["two", "three"]], holes)


def check_surroundings(report, page):
    """Names for everything that is operated, and nothing loaded from elsewhere or complained of."""
    nameless = page.script("""return [...document.querySelectorAll("input, select, textarea, button, [tabindex]")]
        .filter((element) => !(element.labels?.length || element.textContent.trim() || element.ariaLabel)).map((element) => element.outerHTML);""")
    report.check("names", nameless == [], nameless)
    hosts = page.script("return [...new Set(performance.getEntriesByType('resource').map((entry) => new URL(entry.name).host))]")
    report.check("one host", hosts == [page.script("return location.host")], hosts)
    # A refused request is on the console too; it is what check_error() asks for.
    complaints = [entry["message"] for entry in page.browser.get_log("browser")
                  if entry["level"] != "DEBUG" and "status of 400" not in entry["message"]]
    report.check("console", complaints == [], complaints)


def check_headers(report, server):
    import urllib.request
    for path, kind in {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}") as reply:
            report.check(f"type of {path}", reply.headers["Content-Type"] == f"{kind}; charset=utf-8")
            report.check(f"policy of {path}", "default-src 'none'" in reply.headers["Content-Security-Policy"])
    for path in ("/index.html", "/page.h", "/page/page.js", "/../page.js"):
        report.check(f"nothing at {path}", server.get(path)[0] == 404)


def recorded(binary, model, story):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        answer = run(binary, model, "-p", story, "--gen-length", "32", "--trace", file.name)
        return answer, Path(file.name).read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[2] / "models")
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--url")
    arguments = parser.parse_args()
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    report = Report()
    model = arguments.models / "mini-llada"
    answer, trace = recorded(arguments.binary, model, STORY)
    with contextlib.ExitStack() as stack:
        url = arguments.url
        if url is None:
            server = stack.enter_context(Server(arguments.binary, model))
            check_headers(report, server)
            url = f"http://127.0.0.1:{server.port}/"
        page = stack.enter_context(Page(url, arguments.screenshots))
        check_first_press(report, page)
        check_generation(report, page, answer)
        check_slider(report, page)
        check_comparison(report, page)
        check_lock(report, page)
        check_infill(report, page)
        check_error(report, page)
        check_stop(report, page)
        check_trace(report, page, trace, answer)
        check_modules(report, page)
        check_surroundings(report, page)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
