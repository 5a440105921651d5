"""Headless Chromium with the page of `lacuna serve`, for check_page.py."""
import base64
import json
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SECONDS = 120
#: Of what the tab that is shown has as its results.
SHOWN = "#results > div:not([hidden]) "


class Page:
    """The page in a browser of its own, until the end of the with block. A server with a key gets it from the page's field."""

    def __init__(self, url, screenshots, key=""):
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1100"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
        self.browser.set_script_timeout(SECONDS)
        self.folder = tempfile.TemporaryDirectory()
        self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.folder.name})
        self.screenshots = screenshots
        self.url = url
        self.key = key
        self.resize(1400, 1100)
        self.open()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.quit()
        self.folder.cleanup()

    def open(self, url=None):
        self.browser.get("about:blank")  # another fragment alone would not load the page again
        self.browser.get(url or self.url)
        if self.key:
            self.wait(lambda: self.one("#key").is_displayed())
            self.fill("#key", self.key)
        self.wait(lambda: self.one("#run").is_enabled())

    def wait(self, holds):
        WebDriverWait(self.browser, SECONDS, ignored_exceptions=[StaleElementReferenceException]).until(lambda _: holds())

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def shown(self, selector):
        """An element among the results that are shown."""
        return self.one(SHOWN + selector)

    def count(self, selector):
        return len(self.all(SHOWN + selector))

    def texts(self, selector):
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", SHOWN + selector)

    def written(self):
        """The text of the first run that is shown; in chats the message has it, and the run hides it."""
        return self.script("return document.querySelector(arguments[0]).textContent", SHOWN + ".answer")

    def fill(self, selector, text):
        self.script("for (let part = document.querySelector(arguments[0]).closest('details'); part; part = part.parentElement.closest('details'))"
                    " part.open = true", selector)
        self.one(selector).send_keys(Keys.CONTROL, "a")
        self.one(selector).send_keys(text, Keys.TAB)  # a list of suggestions would take the next click

    def open_tab(self, name):
        self.one(f"#tab-{name}").click()

    def choose_preset(self, value, setting=0):
        self.script("const [value, setting] = arguments;"
                    "document.querySelector(`input[name='preset-${setting}'][value='${value}']`).click()", value, setting)

    def choose_method(self, title, setting=0):
        self.open_details()
        Select(self.all(".method")[setting]).select_by_visible_text(title)

    def open_list(self):
        """The list of conversations, which narrow screens have as a drawer."""
        if not self.one("#sidebar").is_displayed():
            self.one("#show-list").click()

    def open_details(self):
        self.script("for (const one of document.querySelectorAll('#common, #common details')) one.open = true")

    def select_text(self, selector, begin, length):
        self.script("const [selector, begin, length] = arguments, field = document.querySelector(selector);"
                    "field.focus(); field.setSelectionRange(begin, begin + length)", selector, begin, length)

    def run(self, kind=".run"):
        """Runs what is set, to the end."""
        before = self.all(SHOWN + kind)
        self.one("#run").click()
        self.wait(lambda: self.all(SHOWN + kind) != before and self.one("#run").is_enabled())

    def export(self, kind, name):
        """The bytes of a file that the first run exports."""
        file = Path(self.folder.name) / name
        self.shown(".menu summary").click()
        self.shown(f"[data-export={kind}]").click()
        self.wait(file.exists)
        return file

    def drop(self, text, name, place="body"):
        """Drops a file on an element by a drop event; a real drag would have to come from outside the browser."""
        self.script("""const data = new DataTransfer();
            data.items.add(new File([arguments[0]], arguments[1]));
            document.querySelector(arguments[2]).dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));""",
                    text, name, place)

    def script(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def module(self, code):
        """Result of the body of an async function that may import the page's modules."""
        return self.browser.execute_async_script(
            f"const done = arguments[0]; (async () => {{ {code} }})().then(done, (error) => done(String(error)));")

    def resize(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, **features):
        """prefer(scheme="dark", reduced_motion="reduce")"""
        names = {"scheme": "prefers-color-scheme", "reduced_motion": "prefers-reduced-motion"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": names[key], "value": value} for key, value in features.items()]})

    def take_picture(self, name):
        if self.screenshots is None:
            return
        for scheme in ("light", "dark"):
            self.prefer(scheme=scheme)
            # Not save_screenshot(), which gives a busy machine ten seconds.
            screenshot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
            (self.screenshots / f"{name}-{scheme}.png").write_bytes(base64.b64decode(screenshot))
        self.prefer(scheme="light")

    def complaints(self):
        """Messages of the console, except for requests that were meant to be refused."""
        return [entry["message"] for entry in self.browser.get_log("browser")
                if entry["level"] != "DEBUG" and "status of 400" not in entry["message"]]

    def storage(self, name):
        return json.loads(self.script("return localStorage.getItem(arguments[0])", f"lacuna.{name}"))
