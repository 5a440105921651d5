"""Uses the page of `lacuna serve` in headless Chromium, as a visitor would.

    python check_page.py LACUNA_BINARY [--models FOLDER] [--screenshots FOLDER] [--url URL]

Needs chromium and chromium-driver (Debian's packages) and selenium. Every tab, conversations and their files, the player, two settings, exports,
recorded runs, links, five widths and both colour schemes, on mini-llada; several models; a server that ends; nothing may be loaded from anywhere else, nor be reported on the console.
--screenshots keeps screenshots, light and dark, to look at. --url uses a page that is served already. Exit status 0 when nothing failed.
"""
import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

from check_server import STORY, Report, Server, run
from page_chat import check_chat, check_key, check_loss, check_models, new_conversation
from page_driver import SHOWN, Page
from page_modules import check_modules
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

LEFT, RIGHT, HOME = Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.HOME
WIDTHS = [320, 360, 800, 1400, 2560]
#: Files that the page refuses, by a part of the sentence.
NO_TRACES = {
    "not valid JSON": "not a trace",
    "canvas is -2": '{"canvas": [1, -2], "prompt_tokens": 0}',
    "length is 99999999": '{"request": 0, "canvas": [1], "prompt_tokens": 0}\n{"request": 0, "committed": [], "length": 99999999}',
    "positions in all passes together": f'{{"request": 0, "canvas": {[1] * 65000}, "prompt_tokens": 0}}\n' + '{"request": 0, "committed": []}\n' * 1100,
}
TABS = ["chat", "completion", "infill", "decisions", "schema"]


def check_first_press(report, page):
    """Send, pressed on a page that nobody has touched."""
    said = page.one("#hint .in-chat").text
    report.check("the right answer is said", said == "The example below has 14 shells as its right answer.", said)
    page.run()
    report.check("first press of Send", page.written().strip().endswith("The answer is 14."), page.written())
    report.check("the answer is in the conversation", page.all(".message.assistant .text")[0].text == page.written().strip(),
                 page.one("#messages").text)


def check_generation(report, page, expected):
    """The text of `lacuna run`, without a preset."""
    page.open_tab("chat")
    new_conversation(page)
    page.choose_preset("")
    page.fill("#length", "32")
    page.fill("#prompt", STORY)
    page.run()
    report.check("answer", page.written().strip() == expected["text"].strip(), page.written())
    report.check("state", page.shown(".state").text == "done", page.texts(".state"))
    report.check("all written", page.count(".canvas .masked") == 0 and page.count(".canvas .written") == 32)
    report.check("costs", page.texts(".costs th") == ["rows", "FLOPs", "time"] and "100.0%" in page.texts(".costs td"),
                 page.texts(".costs td"))
    spoken = page.script("return document.querySelector(arguments[0]).textContent", SHOWN + ".summary")
    report.check("final text is spoken", expected["text"].strip() in spoken, spoken)
    page.take_picture("generation")


def check_grid(report, page):
    """Tokens keep their places while others are written, and one pass back and forth changes what it should."""
    slider = page.shown(".slider")
    passes = int(slider.get_attribute("max"))
    places = lambda: page.script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => [one.offsetLeft, one.offsetTop, one.offsetWidth])",
        SHOWN + ".canvas .token")
    slider.send_keys(HOME)
    first = places()
    report.check("before the first pass", page.count(".canvas .masked") == 32, page.count(".canvas .masked"))
    report.check("one glyph for a mask", set(page.texts(".canvas .masked")) == {"░"}, page.texts(".canvas .masked"))
    masked, moved = [], False
    for _ in range(passes):
        slider.send_keys(RIGHT)
        masked.append(page.count(".canvas .masked"))
        moved = moved or places() != first
    report.check("masks vanish", masked == sorted(masked, reverse=True) and masked[-1] == 0, masked)
    report.check("tokens keep their places", not moved)
    report.check("one glyph for an end token", set(page.texts(".canvas .end")) == {"·"}, page.texts(".canvas .end"))
    for _ in range(passes // 2):
        slider.send_keys(LEFT)
    report.check("there and back", page.count(".canvas .masked") == masked[passes - passes // 2 - 1])
    report.check("slider speaks", slider.get_attribute("aria-valuetext").startswith(f"pass {passes - passes // 2} of"),
                 slider.get_attribute("aria-valuetext"))
    prompt = page.module("return (await (await fetch('apply-template', {method: 'POST', body: JSON.stringify({messages: "
                         f"[{{role: 'user', content: {json.dumps(STORY)}}}]}})}})).json()).tokens.length")
    page.shown(".canvas").send_keys(HOME, RIGHT)
    report.check("token details", page.shown(".details").text.startswith(f"position {prompt + 1} ·"), page.shown(".details").text)
    page.shown(".show-prompt").click()
    report.check("prompt", page.count(".canvas .given") == prompt, page.count(".canvas .given"))
    page.shown(".show-prompt").click()


def check_colours(report, page):
    colours = lambda: page.script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => one.style.backgroundColor).join()", SHOWN + ".canvas .token")
    by_age = colours()
    page.shown("[data-ramp=confidence]").click()
    report.check("colour by confidence", colours() != by_age and "unsure" in page.shown(".legend").text, page.shown(".legend").text)
    page.take_picture("replay")
    page.one("body").send_keys("c")
    report.check("key for the colour", colours() == by_age and "written first" in page.shown(".legend").text)


def check_map(report, page):
    """The map and the grid point at each other."""
    where = page.shown(".map")
    ActionChains(page.browser).move_to_element_with_offset(where, 10 - where.size["width"] // 2, 0).perform()
    place = page.shown(".map-place").text
    chosen = page.script("const all = [...document.querySelectorAll(arguments[0])];"
                         "return all.findIndex((one) => one.classList.contains('chosen'))", SHOWN + ".canvas .token")
    facts = page.shown(".details").text
    position = facts.removeprefix("position ").split(" ")[0]
    report.check("map to grid", chosen == 1 and place.endswith(f"position {position}"), [chosen, place, facts])
    where.click()  # its middle
    passes = int(page.shown(".slider").get_attribute("max"))
    report.check("a click goes to the pass", int(page.shown(".slider").get_property("value")) - passes // 2 in (0, 1),
                 page.shown(".where").text)


def check_player(report, page):
    """Keys play and pause, whatever has the focus but a field."""
    set_speed(page, "2")  # slow enough for a busy machine
    page.script("document.activeElement.blur()")
    page.one("body").send_keys("k")
    report.check("K plays", page.shown(".play").text == "Pause", page.shown(".play").text)
    page.one("body").send_keys(" ")
    report.check("space pauses", page.shown(".play").text == "Play", page.shown(".play").text)
    at = int(page.shown(".slider").get_property("value"))
    page.one("body").send_keys(",")
    report.check("comma goes back", int(page.shown(".slider").get_property("value")) == max(at - 1, 0), at)
    page.one("#prompt").send_keys("k ")
    report.check("keys in a field are text", page.shown(".play").text == "Play" and page.one("#prompt").get_property("value") == "k ")
    set_speed(page, "60")
    page.shown(".slider").send_keys(HOME)
    page.shown(".play").click()
    passes = page.shown(".slider").get_attribute("max")
    page.wait(lambda: page.shown(".slider").get_property("value") == passes and page.shown(".play").text == "Play")


def set_speed(page, passes):
    page.script("const [selector, passes] = arguments, speed = document.querySelector(selector);"
                "speed.value = passes; speed.dispatchEvent(new Event('change'))", SHOWN + ".speed", passes)


def check_comparison(report, page):
    page.one("#compare").click()
    page.choose_method("Dual cache", 1)
    page.fill("#prompt", STORY)
    page.run()
    report.check("two runs", page.texts(".state") == ["done", "done"], page.texts(".state") + page.texts(".error"))
    verdict = page.shown(".verdict").text
    report.check("verdict", ("as fast as" in verdict or "about the same time" in verdict) and "tokens are the same" in verdict, verdict)
    report.check("rows and time of both", len(page.texts(".bars dd")) == 4 and all(page.texts(".bars .number")), page.texts(".bars dd"))
    report.check("time of the uncached run", all("–" not in text for text in page.texts(".costs td")), page.texts(".costs td"))
    left = page.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.getBoundingClientRect().left)", SHOWN + ".run")
    report.check("next to each other", left[0] < left[1], left)
    page.all(SHOWN + ".slider")[0].send_keys(LEFT)
    page.all(SHOWN + ".slider")[1].send_keys(LEFT)
    report.check("kept rows", page.count(".canvas .kept") > 0)
    page.take_picture("comparison")
    # Pressed and read in one script: on a busy machine the runs would be over before the browser is asked again.
    plays = page.script("document.querySelector(arguments[0] + '.race').click();"
                        "return [...document.querySelectorAll(arguments[0] + '.play')].map((one) => one.textContent)", SHOWN)
    report.check("both play", plays == ["Pause", "Pause"], plays)
    page.one("body").send_keys("k")
    for reset in page.all(".reset"):
        page.script("arguments[0].click()", reset)
    for setting in (0, 1):
        page.choose_preset("", setting)
    page.fill("#prompt", STORY)
    page.run()
    verdict = page.shown(".verdict").text
    report.check("no speed of settings that are the same", verdict.startswith("Both computed the same rows and FLOPs: their times differ by chance"), verdict)
    page.one("#compare").click()


def check_lock(report, page):
    page.open_tab("completion")
    page.choose_method("SureLock")
    page.fill("input[name=lock]", "eps=0.5")
    page.run()
    report.check("locked tokens", page.count(".canvas .locked") > 0, page.texts(".error"))
    page.all(".reset")[0].click()
    page.choose_preset("")


def check_advanced(report, page):
    """Every setting of the server is there, with its help, and what is set is sent."""
    page.open_details()
    names = page.module("return (await (await fetch('props')).json()).settings.map(({name, help}) => [name, help])")
    elsewhere = {"preset", "gen-length", "seed", "json-schema"}
    fields = page.script("return [...document.querySelectorAll('.setting')][0].querySelectorAll('.field').length")
    report.check("all settings", fields == len([name for name, _ in names if name not in elsewhere]), fields)
    helps = page.script("return [...document.querySelectorAll('.setting .help')].map((one) => one.textContent)")
    report.check("helps", all(text in helps for name, text in names if name not in elsewhere))
    page.fill("input[name=steps]", "16")
    page.script("document.getElementById('sent-part').open = true")
    page.wait(lambda: '"steps": 16' in page.one("#sent").text)
    page.all(".reset")[0].click()
    report.check("cleared", '"steps"' not in page.one("#sent").text, page.one("#sent").text)


def right(page):
    """The right answers that the page prints next to an example."""
    return [one.text.strip("“”") for one in page.all("#request > section:not([hidden]) .right q")]


def check_untouched(report, page):
    """Every tab answers as it is opened what it prints as right."""
    page.choose_preset("")
    page.open_tab("completion")
    page.run()
    report.check("the text that is continued", right(page) == ["14"] and page.written().strip() == "14. The answer is 14.", page.written())
    page.open_tab("infill")
    report.check("a hole in the text", [one.text for one in page.all("#holes code")] == ["[[1-3]]"], page.one("#holes").text)
    page.run()
    filled = page.one("#filled").text
    report.check("the hole is filled", right(page) == ["19"] and filled == "Mia has 12 shells. She finds 7 more. Now she has 19 shells.", filled)
    page.open_tab("schema")
    page.run()
    value = page.script("return document.querySelector('#values pre').textContent")
    report.check("the schema is filled", [json.loads(value)] == [json.loads(one) for one in right(page)], value)
    page.open_tab("decisions")
    report.check("advice", "lacuna serve mini-decide" in page.one("#advice").text, page.one("#advice").text)


def check_decider(report, binary, models, screenshots):
    """A model that was made for decisions, alone and among others."""
    best = lambda page: [one.text for one in page.all(".decision .best .name")]
    with Server(binary, models / "mini-decide") as server, Page(f"http://127.0.0.1:{server.port}/", screenshots) as page:
        page.wait(lambda: page.one("#panel-decisions").is_displayed())
        page.run(".decision")
        report.check("decisions", best(page) == right(page) == ["yes", "in the barn", "two times"], best(page))
        report.check("no advice is needed", not page.one("#advice").is_displayed())
        page.open_tab("chat")
        report.check("it writes no text", "was made for decisions" in page.one("#obstacle").text, page.one("#obstacle").text)
    pair = ["--model", models / "mini-decide"]
    with Server(binary, models / "mini-llada", *pair) as server, Page(f"http://127.0.0.1:{server.port}/", screenshots) as page:
        page.open_tab("decisions")
        page.wait(lambda: "mini-decide was made for decisions" in page.one("#advice").text)
        page.one("#advice button").click()
        page.wait(lambda: not page.one("#advice").is_displayed() and page.one("#run").is_enabled())
        page.run(".decision")
        report.check("decisions by the one that was made for them", best(page) == ["yes", "in the barn", "two times"], best(page))


def check_examples(report, binary, models, screenshots):
    """The examples of texts as they are opened, with every model that writes texts: each answers what is printed as right."""
    names = [one.name for one in sorted(models.glob("mini-*")) if one.name not in ("mini-decide", "mini-llada")]
    more = [flag for name in names for flag in ("--model", models / name)]
    with Server(binary, models / "mini-llada", *more) as server, Page(f"http://127.0.0.1:{server.port}/", screenshots) as page:
        for name in ["mini-llada", *names]:
            page.script("localStorage.clear()")
            page.open()
            page.script("const choice = document.getElementById('model-choice'); choice.value = arguments[0]; choice.dispatchEvent(new Event('change'))", name)
            page.run()
            report.check(f"chat with {name}", "The answer is 14." in page.written(), page.written() or page.texts(".run-error"))
            page.open_tab("completion")
            page.run()
            report.check(f"continue with {name}", page.written().strip().startswith(right(page)[0]), page.written() or page.texts(".run-error"))
            page.open_tab("infill")
            if page.one("#obstacle").is_displayed():
                continue
            page.run()
            report.check(f"infill with {name}", page.one("#filled mark").text == right(page)[0], page.one("#filled").text)


def check_infill(report, page):
    page.open_tab("infill")
    story = "Mia has 12 shells. She finds 7 more."
    page.fill("#gapped", story)
    for word in ("12", "7"):
        page.select_text("#gapped", story.index(word), len(word))
        page.one("#gapped").send_keys(Keys.ALT, "h")
    quotes = lambda: [one.text for one in page.all("#holes q")]
    page.wait(lambda: len(quotes()) == 2)
    page.one("#gapped").send_keys(Keys.CONTROL, HOME)
    page.one("#gapped").send_keys("Once, ")  # the holes move with their words
    report.check("holes", quotes() == ["12", "7"], quotes())
    report.check("holes are marked in the text", [one.text for one in page.all("#backdrop mark")] == ["12", "7"])
    page.run()
    answer = page.shown(".answer").text
    report.check("infill", answer.startswith("Once, Mia has ") and " shells. She finds " in answer, answer + str(page.texts(".error")))
    report.check("given around holes", page.count(".canvas .given") > 0 and page.count(".canvas .written") > 0)
    filled = page.script("return document.getElementById('filled').textContent")
    report.check("what was written is marked", filled == answer and len(page.all("#filled mark")) == 2, filled)
    page.take_picture("infill")
    page.select_text("#gapped", len("Once, Mia has "), 2)
    page.one("#make-open-hole").click()
    page.run()
    report.check("a hole of any length", page.shown(".answer").text.startswith("Once, Mia has ")
                 and "every length was tried" in page.shown(".state").text, page.texts(".state") + page.texts(".error"))


def check_decisions(report, page):
    page.open_tab("decisions")
    page.run(".decision")
    report.check("a card for each question", page.count(".decision") == 3)
    report.check("bars", page.count(".decision .shares li") == 2 + 3 + 3)
    shares = [float(text.strip("<>%")) for text in page.texts(".decision:nth-child(2) .number")]
    report.check("probabilities of a choice", abs(sum(shares) - 100) < 0.5, shares)
    report.check("label mass", all("labels have" in text for text in page.texts(".decision")))
    report.check("answers are spoken", "Where does Ben live?" in page.script("return document.getElementById('live').textContent"))
    page.one("#add-question").click()
    page.all("#questions .instructions")[3].send_keys("Is Ben a cow?")
    page.all("#questions li button")[0].click()
    page.run(".decision")
    report.check("questions added and removed", page.texts(".decision h3")[-1] == "Is Ben a cow?" and page.count(".decision") == 3,
                 page.texts(".decision h3"))
    page.take_picture("decisions")


def check_schema(report, page):
    page.open_tab("schema")
    page.choose_preset("")
    page.run()
    value = lambda: page.script("return document.querySelector('#values pre').textContent")
    parsed = json.loads(value())
    report.check("value", parsed == {"answer": parsed["answer"]} and 0 <= parsed["answer"] <= 99, value())
    report.check("laid out", value().strip() == json.dumps(parsed, indent=2), value())
    page.shown(".slider").send_keys(HOME)
    report.check("nothing is filled in at first", set(value().strip()) == {"░"}, value())
    page.take_picture("schema")
    page.fill("#schema", "{")
    report.check("a schema that is not JSON", "not valid JSON" in page.one("#schema-error").text, page.one("#schema-error").text)
    page.one("#run").click()
    page.wait(lambda: "not valid JSON" in page.one("#error").text)


def check_error(report, page):
    page.open_tab("completion")
    page.open_details()
    page.fill("input[name=cache]", "nonsense")
    page.run()
    sentence = page.module("""
        const { ask } = await import("./stream.js");
        const body = { prompt: "Mia", lacuna: { cache: "nonsense" } };
        try { await ask("v1/completions", { body }); } catch (error) { return error.message; }""")
    report.check("error", sentence and "nonsense" in sentence and page.shown(".run-error").text == sentence, page.texts(".error"))
    page.take_picture("error")
    page.all(".reset")[0].click()


def check_stop(report, page):
    page.choose_preset("")
    page.fill("#length", "512")
    # A short answer would be over before the browser is asked again: the page itself clicks, as soon as it can.
    page.script("""const stop = document.querySelector("#stop");
        new MutationObserver((_, observer) => {
          if (stop.disabled) return;
          observer.disconnect();
          stop.click();
        }).observe(stop, {attributes: true});""")
    page.one("#run").click()
    page.wait(lambda: page.shown(".state").text.startswith("stopped") and page.one("#run").is_enabled())
    report.check("stopped", page.shown(".state").text == "stopped", page.shown(".state").text)
    page.fill("#length", "32")


def check_exports(report, page, binary):
    page.open_tab("completion")
    page.choose_preset("balanced")
    page.run()
    text = page.shown(".answer").text
    for kind, name in {"svg": "lacuna.svg", "animation": "lacuna-animated.svg"}.items():
        root = xml.etree.ElementTree.fromstring(page.export(kind, name).read_text())
        report.check(f"{name} is SVG", root.tag == "{http://www.w3.org/2000/svg}svg" and len(root) > 30, root.tag)
        report.check(f"{name} plays", (root.find(".//{*}animate") is not None) == (kind == "animation"))
    report.check("PNG", page.export("png", "lacuna.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n"))
    trace = page.export("trace", "lacuna.jsonl")
    replayed = subprocess.run([binary, "replay", str(trace)], capture_output=True, text=True, check=False)
    report.check("lacuna replay reads the trace", replayed.stdout.strip() == text.strip(), replayed.stdout + replayed.stderr)
    cost = page.texts(".costs td")
    page.shown(".menu summary").click()
    page.shown("[data-export=link]").click()
    page.wait(lambda: page.one("#copy").is_displayed())
    link = page.one("#copy-text").get_property("value")
    page.open(link)
    page.wait(lambda: page.count(".canvas .written") > 0)
    page.wait(lambda: page.shown(".answer").text.strip() == text.strip())
    report.check("a link replays", page.texts(".costs td") == cost, [cost, page.texts(".costs td")])
    page.open(link[:len(link) // 2])
    page.wait(lambda: "was cut or changed" in page.shown(".run-error").text)
    too_long = page.module("""
        const { linkOf } = await import("./link.js");
        const noise = Array.from({ length: 60000 }, () => String.fromCharCode(33 + Math.floor(90 * Math.random()))).join("");
        try { return await linkOf(noise); } catch (error) { return error.message; }""")
    report.check("a link that is too long", "export the run as a trace" in too_long, too_long[:200])
    page.open()


def check_trace(report, page, trace, expected):
    page.drop(trace, "run.jsonl")
    page.wait(lambda: page.count(".canvas .written") > 0)
    page.wait(lambda: page.shown(".answer").text.strip() == expected["text"].strip())
    page.shown(".slider").send_keys(HOME)
    report.check("trace", page.count(".canvas .masked") == 32, page.count(".canvas .masked"))
    page.take_picture("trace")
    for says, text in NO_TRACES.items():
        page.drop(text, "letter.txt")
        page.wait(lambda: says in page.shown(".run-error").text)


def check_tabs(report, page):
    """Arrow keys go from tab to tab, and a reload keeps the tab."""
    page.open_tab("chat")
    for name in [*TABS[1:], TABS[0]]:
        page.browser.switch_to.active_element.send_keys(RIGHT)
        panels = [one.get_attribute("id") for one in page.all("[role=tabpanel]") if one.is_displayed()]
        report.check(f"tab {name}", panels == [f"panel-{name}"] and page.browser.switch_to.active_element.get_attribute("id") == f"tab-{name}", panels)
    page.open_tab("infill")
    page.open()
    report.check("the tab is kept", page.one("#panel-infill").is_displayed())


def check_widths(report, page):
    """Nothing scrolls sideways, with all that can be open open."""
    page.open_tab("chat")
    page.choose_preset("balanced")
    if not page.one("#compare").is_selected():
        page.open_details()
        page.one("#compare").click()
    page.open_tab("completion")
    page.run()
    for width in WIDTHS:
        page.resize(width, 900)
        for name in TABS:
            page.open_tab(name)
            page.script("for (const one of document.querySelectorAll('#request details')) one.open = true")
            wide = page.script("""const most = document.documentElement.clientWidth;
                return [...document.querySelectorAll("body *")].filter((one) => !one.closest(".unseen, dialog, pre, .scrolls, [hidden]") && one.offsetParent
                  && !["backdrop", "gapped"].includes(one.id) && (one.getBoundingClientRect().right > most + 0.5 || one.getBoundingClientRect().left < -0.5))
                  .map((one) => one.outerHTML.slice(0, 80)).slice(0, 3)""")
            report.check(f"{name} at {width}", wide == [], wide)
            report.check(f"{name} at {width}, downwards", width < 1024 or page.script(
                "return document.documentElement.scrollHeight <= document.documentElement.clientHeight"))
        page.open_tab("completion")
        page.take_picture(f"width-{width}")
    page.resize(1400, 1100)
    page.one("#compare").click()


def check_schemes(report, page):
    background = lambda: page.script("return getComputedStyle(document.body).backgroundColor")
    page.prefer(scheme="light")
    light = background()
    page.prefer(scheme="dark")
    dark = background()
    report.check("the system's scheme", light != dark, [light, dark])
    page.script("const theme = document.getElementById('theme'); theme.value = 'light'; theme.dispatchEvent(new Event('change'))")
    report.check("light by the switch", background() == light)
    page.open()
    report.check("the switch is kept", background() == light)
    page.prefer(scheme="light")
    page.script("const theme = document.getElementById('theme'); theme.value = 'dark'; theme.dispatchEvent(new Event('change'))")
    report.check("dark by the switch", background() == dark)
    page.script("const theme = document.getElementById('theme'); theme.value = 'auto'; theme.dispatchEvent(new Event('change'))")
    least = page.module("""
        const { colourOf, SHADES } = await import("./palette.js");
        const light = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
          .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
        const all = ["light", "dark"].flatMap((scheme) => ["age", "confidence"].flatMap((ramp) =>
          Array.from({ length: 21 }, (_, i) => contrast(SHADES[scheme].ink, colourOf(scheme, ramp, i / 20)))));
        return Math.min(...all);""")
    report.check("contrast of tokens", least >= 4.5, least)
    page.script("document.body.append(Object.assign(document.createElement('span'), {className: 'bar'}))")
    duration = lambda: page.script("return getComputedStyle(document.querySelector('.bar'), '::before').transitionDuration")
    page.prefer(reduced_motion="no-preference")
    moving = duration()
    page.prefer(reduced_motion="reduce")
    report.check("reduced motion", moving != "0s" and duration() == "0s", [moving, duration()])
    page.prefer(scheme="light")
    page.script("document.getElementById('show-keys').focus({focusVisible: true})")
    ring = page.script("return getComputedStyle(document.activeElement).outlineStyle")
    report.check("focus rings", ring == "solid", ring)


def check_surroundings(report, page):
    """Names for everything that is operated, and nothing loaded from elsewhere or complained of."""
    nameless = page.script("""return [...document.querySelectorAll("input, select, textarea, button, [tabindex]")]
        .filter((element) => !(element.labels?.length || element.textContent.trim() || element.ariaLabel || element.getAttribute("aria-labelledby")))
        .map((element) => element.outerHTML);""")
    report.check("names", nameless == [], nameless)
    hosts = page.script("return [...new Set(performance.getEntriesByType('resource').filter((entry) => !entry.name.startsWith('data:'))"
                        ".map((entry) => new URL(entry.name).host))]")
    report.check("one host", hosts == [page.script("return location.host")], hosts)
    complaints = page.complaints()
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
        check_untouched(report, page)
        check_generation(report, page, answer)
        for check in (check_grid, check_colours, check_map, check_player, check_comparison, check_lock, check_advanced, check_infill,
                      check_decisions, check_schema, check_error, check_stop):
            check(report, page)
        check_exports(report, page, arguments.binary)
        check_trace(report, page, trace, answer)
        for check in (check_chat, check_tabs, check_widths, check_schemes, check_modules, check_surroundings):
            check(report, page)
    check_decider(report, arguments.binary, arguments.models, arguments.screenshots)
    check_examples(report, arguments.binary, arguments.models, arguments.screenshots)
    check_models(report, arguments.binary, arguments.models, arguments.screenshots)
    check_key(report, arguments.binary, model, arguments.screenshots)
    check_loss(report, arguments.binary, model, arguments.screenshots)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
