"""Conversations on the page of `lacuna serve`: their list, their files, Markdown of answers, models, and a server that ends. For check_page.py."""
import json
import re
from pathlib import Path

from check_server import STORY, Server
from page_driver import Page
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

HOSTILE = "<img src=x onerror=alert(1)>"
TALKS = [
    {"title": "Shells", "system": "", "messages": [{"role": "user", "content": "Mia has 12 Shells on the beach."},
                                                   {"role": "assistant", "content": "How nice."}]},
    {"title": "Cows", "system": "Answer like a farmer.", "messages": [{"role": "user", "content": "Is Ben a cow?", "before": [],
                                                                      "after": [[{"role": "user", "content": "Is Ben a goat?"}]]}]},
    {"title": HOSTILE, "system": HOSTILE, "messages": [{"role": "assistant", "content": HOSTILE}]},
]


def version(before):
    """A file with a message that has these other versions."""
    message = {"role": "user", "content": "", "before": before}
    return json.dumps({"lacuna_conversations": 1, "conversations": [{"title": "a", "messages": [message]}]})


def nested(times):
    return [[{"role": "user", "content": "", "before": nested(times - 1)}]] if times > 0 else []


#: Files that are refused, by the sentence.
NO_CONVERSATIONS = {
    "the file is not valid JSON": "hello",
    "lacuna_conversations is missing; accepted: 1": "[]",
    "lacuna_conversations is 2; accepted: 1": '{"lacuna_conversations": 2, "conversations": []}',
    "conversations is an object; accepted: a list of at most 200": '{"lacuna_conversations": 1, "conversations": {}}',
    "conversations is a list of 201; accepted: a list of at most 200": json.dumps({"lacuna_conversations": 1, "conversations": [0] * 201}),
    "conversations[0].title is 5; accepted: a text of at most 200 characters":
        '{"lacuna_conversations": 1, "conversations": [{"title": 5, "messages": []}]}',
    "conversations[0].system is null; accepted: a text": '{"lacuna_conversations": 1, "conversations": [{"title": "a", "system": null, "messages": []}]}',
    "conversations[0].messages is a list of 20001": json.dumps(
        {"lacuna_conversations": 1, "conversations": [{"title": "a", "messages": [0] * 20001}]}),
    'conversations[1].messages[0].role is "system"; accepted: "user", "assistant"': json.dumps(
        {"lacuna_conversations": 1, "conversations": [TALKS[0], {"title": "b", "messages": [{"role": "system", "content": ""}]}]}),
    "conversations[0].messages[0].content is missing; accepted: a text":
        '{"lacuna_conversations": 1, "conversations": [{"title": "a", "messages": [{"role": "user"}]}]}',
    "conversations[0].messages[0].before is 5; accepted: a list of at most 19999": version(5),
    "conversations[0].messages[0].before[0] is a list of 0; accepted: a list that is not empty": version([[]]),
    'conversations[0].messages[0].before[0][0].role is "tool"': version([[{"role": "tool", "content": ""}]]),
    f'{("conversations[0].messages[0]" + 10 * ".before[0][0]")[:120]}… is a list of 1; accepted: versions in each other 200 times': version(nested(201)),
    f"the file has {(8 << 20) + 1} bytes; accepted: at most {8 << 20}": " " * ((8 << 20) + 1),
    "the browser has no room": json.dumps(
        {"lacuna_conversations": 1, "conversations": [{"title": "a", "messages": [{"role": "user", "content": "x" * (6 << 20)}]}]}),
}
MARKDOWN = """# Sums
Add **12** and *7*, then `19 - 5`; 2*3*4 and snake_case_names stay.

1. first
   - inner `a*b*`
   - ~~gone~~
2. second

> quoted **text**
> in two lines

| what | how many |
|:-----|---------:|
| shells | 12 |
| a \\| b | **7** |

```python
print("**no emphasis**")
<b>
```
---
[a page](https://example.org/a) [no page](javascript:alert(1)) ![image](https://example.org/a.png) <b>no markup</b> \\*stars\\*"""


def check_chat(report, page):
    check_conversations(report, page)
    check_stopped(report, page)
    check_phone(report, page)
    check_files(report, page)
    check_search(report, page)
    check_shortcuts(report, page)
    check_markdown(report, page)
    check_text_files(report, page)
    check_facts(report, page)
    page.script("localStorage.clear()")
    page.open()


def new_conversation(page):
    page.open_list()
    page.one("#new-conversation").click()


def check_conversations(report, page):
    """Several turns; the list; and what a reload keeps."""
    page.open_tab("chat")
    page.one("body").send_keys("/")
    new_conversation(page)
    page.fill("#prompt", STORY)
    page.run()
    page.one("#prompt").send_keys("Tom has 4 pens. He buys 3 more. How many pens does Tom have?", Keys.ENTER)
    page.wait(lambda: len(page.all(".message")) == 4 and page.one("#run").is_enabled())
    page.script("document.getElementById('sent-part').open = true")
    page.wait(lambda: page.one("#sent").text.count('"role"') == 5)  # the next message would be the fifth
    before = [one.text for one in page.all(".message .text")]
    page.all("#conversations .open")[0].find_element("xpath", "../button[2]").click()
    page.fill("#ask-text", "Shells and pens")
    page.one("#ask-yes").click()
    page.open()
    report.check("conversation survives", [one.text for one in page.all(".message .text")] == before, before)
    report.check("its name, too", current_title(page) == "Shells and pens", current_title(page))
    press(page, "Regenerate")
    page.wait(lambda: page.one("#seed").get_property("value") == "1" and page.one("#run").is_enabled())
    report.check("regenerated", len(page.all(".message")) == 4, len(page.all(".message")))
    report.check("two versions of the answer", [one.text for one in page.all(".version")] == ["2 of 2"])
    press(page, "Previous version")
    report.check("the first version", [one.text for one in page.all(".message .text")] == before and page.one(".version").text == "1 of 2", before)
    press(page, "Edit")
    page.one("#messages textarea").send_keys(Keys.CONTROL, "a")
    page.one("#messages textarea").send_keys("Ann has 2 cups. She buys 2 more. How many cups does Ann have?")
    page.one("#messages .tools button").click()
    page.wait(lambda: len(page.all(".message.assistant .text")) == 1 and page.one("#run").is_enabled())
    edited = [one.text for one in page.all(".message .text")]
    report.check("an edited message is another version", edited[0].startswith("Ann has 2 cups") and page.one(".version").text == "2 of 2", edited)
    page.open()
    press(page, "Previous version")
    report.check("the other one has what came after it", [one.text for one in page.all(".message .text")] == before
                 and [one.text for one in page.all(".version")] == ["1 of 2", "1 of 2"], [one.text for one in page.all(".version")])
    page.take_picture("versions")
    press(page, "Next version")
    focused = page.script("return document.activeElement.ariaLabel")
    report.check("the focus stays at the versions", focused == "Previous version", focused)
    report.check("and back", [one.text for one in page.all(".message .text")] == edited)
    count = len(page.storage("conversations"))
    page.open_list()
    page.all("#conversations .open")[0].find_element("xpath", "../button[3]").click()
    page.one("#ask-yes").click()
    page.wait(lambda: len(page.storage("conversations")) == max(count - 1, 1))
    report.check("deleted", "Shells and pens" not in page.one("#conversations").text)
    hostile = "<img src=x onerror=alert(1)>"
    page.script("""localStorage.setItem("lacuna.conversations", JSON.stringify(
        [{id: "1", title: arguments[0], isNamed: true, system: "", messages: [{role: "assistant", content: arguments[0]}]}, 5, {id: 3}]))""", hostile)
    page.open()
    report.check("texts are never markup", page.one(".message .text").text == hostile and page.all("#messages img") == [])
    page.script("localStorage.clear()")
    page.open()


#: Makes the page's next answers end only by "Stop": the argument is what is final of them by then.
UNFINISHED = """
    const text = arguments[0];
    window.realFetch ??= window.fetch;
    window.fetch = (path, options) => path !== "v1/chat/completions" ? window.realFetch(path, options) : Promise.resolve(new Response(new ReadableStream({
      start(stream) {
        const events = [{ type: "start", prompt: 0, mask: 9, canvas: [9, 9, 9, 9] },
                        { type: "step", step: 0, kind: "denoise", set: [[0, 5, 0.5]], rows: 4, flops: 4, ms: 1 }];
        const chunks = [...events.map((event) => ({ choices: [], lacuna: { event } })), { choices: [{ delta: { content: text } }] }];
        for (const chunk of chunks) stream.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\\n\\n`));
        options.signal.addEventListener("abort", () => stream.error(new DOMException("", "AbortError")));
      },
    })));"""


def stop_at(page, text, start):
    """Starts an answer, and stops it once the text is final: how much of the canvas was said to be filled."""
    page.script(UNFINISHED, text)
    start()
    page.wait(lambda: page.one("#stop").is_enabled() and page.texts(".state") == ["writing"] and page.count(".canvas .written") == 1)
    bar = page.shown(".filling")
    filled = bar.is_displayed() and page.script("return [arguments[0].value, arguments[0].max]", bar)
    page.one("#stop").click()
    page.wait(lambda: not page.one("#stop").is_enabled())
    page.script("window.fetch = window.realFetch")
    return filled


def check_stopped(report, page):
    """Stop leaves no half of a turn: a text is kept and marked, and where there is none the message goes back to the field."""
    shown = lambda: [one.text for one in page.all(".message .text")]
    asked = "Ann has 2 cups. She buys 2 more. How many cups does Ann have?"
    new_conversation(page)
    page.fill("#prompt", asked)
    filled = stop_at(page, "", lambda: page.one("#run").click())
    report.check("an indicator while the canvas fills", filled == [1, 4] and not page.shown(".filling").is_displayed(), filled)
    report.check("nothing is left of a turn without an answer", shown() == [] and page.storage("conversations")[0]["messages"] == [], shown())
    report.check("its message can be changed and sent again", page.one("#prompt").get_property("value") == asked)
    report.check("what was on the canvas can be looked at", page.texts(".state") == ["stopped"], page.texts(".state"))
    stop_at(page, "Half an", lambda: page.one("#run").click())
    report.check("a part of an answer is kept", shown() == [asked, "Half an"] and "ended early" in page.one(".message.assistant .tools").text, shown())
    page.open()
    report.check("and marked after a reload", "ended early" in page.one(".message.assistant .tools").text and page.one("#prompt").get_property("value") == "")
    page.script("document.getElementById('sent-part').open = true")
    page.wait(lambda: "Half an" in page.one("#sent").text)  # it is a part of what the next answer reads
    stop_at(page, "", lambda: press(page, "Regenerate"))
    report.check("the other version is back", shown() == [asked, "Half an"] and page.one("#prompt").get_property("value") == "", shown())
    press(page, "Regenerate")
    page.wait(lambda: page.texts(".state") == ["done"] and page.one("#run").is_enabled())
    report.check("an answer to its end is not marked", "ended early" not in page.one(".message.assistant .tools").text and page.one(".version").text == "2 of 2")
    page.script("""const kept = JSON.parse(localStorage.getItem("lacuna.conversations"));
        kept[0].messages.push({role: "user", content: "And now?"}, {role: "assistant", content: ""});
        localStorage.setItem("lacuna.conversations", JSON.stringify(kept))""")
    page.open()
    report.check("a page that was closed while it wrote", shown()[-1] == "And now?" and len(shown()) == 3, shown())
    stop_at(page, "", lambda: press(page, "Send again"))
    report.check("a message that is sent again", len(shown()) == 2 and page.one("#prompt").get_property("value") == "And now?", shown())


def check_phone(report, page):
    """On a phone the canvas is in sight while it fills, the composer stays, and the list is a drawer."""
    page.resize(360, 740)
    new_conversation(page)
    report.check("the drawer closes", not page.one("#sidebar").is_displayed())
    page.fill("#prompt", STORY)
    page.run()
    box = lambda selector: page.script("const box = document.querySelector(arguments[0]).getBoundingClientRect(); return [box.top, box.bottom]", selector)
    header, canvas, composer = box("header.top"), box("#messages .canvas"), box("#request")
    report.check("a low header", header[1] - header[0] < 90, header)
    report.check("the canvas is in sight", header[1] < canvas[0] and composer[0] - canvas[0] > 100, [header, canvas, composer])
    report.check("the composer is at the bottom", abs(composer[1] - 740) < 1, composer)
    page.take_picture("phone")
    pace = page.shown(".pace").text
    report.check("tokens per second", re.fullmatch(r"\d+ tokens, [\d.,]+ tokens/s", pace) is not None, pace)
    page.wait(lambda: re.match(r"Context: \d+ of [\d,]+", page.one("#context").text))
    press(page, "Hide the run")
    report.check("the run can be hidden", page.count(".run") == 0 and page.one(".message.assistant .text").text != "")
    press(page, "Show the run")
    report.check("and shown", page.count(".canvas .written") > 0 and page.script("return document.activeElement.textContent") == "Hide the run")
    page.one("#show-tools").click()
    report.check("more is behind a button", page.one("#theme").is_displayed())
    page.one("body").send_keys(Keys.ESCAPE)
    page.resize(1400, 1100)
    report.check("the list is next to the messages", page.one("#conversations").is_displayed() and box("#sidebar")[1] == box("#request")[1])
    page.script("localStorage.clear()")
    page.open()


def press(page, name):
    """Presses the first button of the messages with this name."""
    next(one for one in page.all("#messages button") if name in (one.accessible_name, one.text)).click()


def current_title(page):
    return page.one("#conversations [aria-current] .title").text


def titles(page):
    return [one.text for one in page.all("#conversations .title")]


def load_file(page, text):
    """The page's message about a file that is imported."""
    said = lambda: page.one("#import-note").text + page.one("#import-error").text
    page.script("for (const id of ['import-note', 'import-error']) document.getElementById(id).textContent = ''")
    file = Path(page.folder.name) / "talks.json"
    file.write_text(text)
    page.one("#import").send_keys(str(file))
    page.wait(said)
    return said()


def check_files(report, page):
    """Conversations leave as JSON, come back the same, and nothing else comes in."""
    page.open_list()
    page.one("#export-all").click()
    file = Path(page.folder.name) / "lacuna-conversations.json"
    page.wait(file.exists)
    empty = {"title": "New conversation", "system": "", "messages": []}
    report.check("the list as a file", json.loads(file.read_text()) == {"lacuna_conversations": 1, "conversations": [empty]}, file.read_text())
    file.unlink()
    talks = json.dumps({"lacuna_conversations": 1, "conversations": TALKS, "more": [1]})
    said = load_file(page, talks)
    report.check("imported", said == "talks.json: 3 added." and titles(page) == [talk["title"] for talk in TALKS], [said, titles(page)])
    report.check("the first one is shown", [one.text for one in page.all(".message .text")] == ["Mia has 12 Shells on the beach.", "How nice."])
    kept = page.storage("conversations")
    said = load_file(page, talks)
    report.check("imported twice", said == "talks.json: 0 added; 3 were there already." and page.storage("conversations") == kept, said)
    for sentence, text in NO_CONVERSATIONS.items():
        said = load_file(page, text)
        report.check(f"refused: {sentence[:60]}", said.startswith(f"talks.json: {sentence}") and page.storage("conversations") == kept, said)
    page.one("#export-all").click()
    page.wait(file.exists)
    report.check("there and back", json.loads(file.read_text())["conversations"] == TALKS, file.read_text())
    page.all("#conversations .open")[1].click()
    report.check("system message", page.one("#system").get_property("value") == "Answer like a farmer.")
    page.one("#export-conversation").click()
    one = Path(page.folder.name) / "lacuna-conversation.json"
    page.wait(one.exists)
    report.check("one as a file", json.loads(one.read_text())["conversations"] == TALKS[1:2], one.read_text())


def check_search(report, page):
    """Words of titles, system messages and messages, whatever the case."""
    page.open()
    page.open_list()
    for words, found in {"SHELLS": ["Shells"], "goat": ["Cows"], "ben": ["Cows"], "farmer cow": ["Cows"], "shells ben": [], "": [talk["title"] for talk in TALKS]}.items():
        page.fill("#find-conversation", words or Keys.BACKSPACE)
        report.check(f"find {words!r}", titles(page) == found, titles(page))
    page.fill("#find-conversation", "beach")
    report.check("excerpt", page.one("#conversations mark").text == "beach" and page.one(".excerpt").text == "Mia has 12 Shells on the beach.",
                 page.one("#conversations").text)
    report.check("how many", page.one("#found").text == "1 of 3 conversations have these words.", page.one("#found").text)
    page.take_picture("search")
    page.fill("#find-conversation", "onerror")
    report.check("excerpts are never markup", page.all("#conversations img") == [] and titles(page) == [HOSTILE])
    page.fill("#find-conversation", Keys.BACKSPACE)


def check_shortcuts(report, page):
    """Keys with Ctrl, from any tab and from within a field."""
    press = lambda *keys: page.browser.switch_to.active_element.send_keys(*keys)
    focused = lambda: page.script("return document.activeElement.id")
    page.open_tab("infill")
    page.one("#gapped").click()
    press(Keys.CONTROL, "k")
    report.check("Ctrl+K finds", focused() == "find-conversation" and page.one("#find-conversation").is_displayed(), focused())
    press(Keys.CONTROL, "b")
    report.check("Ctrl+B closes the list", not page.one("#conversations").is_displayed() and focused() == "show-list", focused())
    press(Keys.CONTROL, "b")
    report.check("Ctrl+B opens the list", page.one("#conversations").is_displayed())
    press(Keys.CONTROL, Keys.SHIFT, "o")
    report.check("Ctrl+Shift+O begins one", current_title(page) == "New conversation" and focused() == "prompt")
    press(Keys.CONTROL, Keys.SHIFT, "e")
    page.fill("#ask-text", "By keys")
    page.one("#ask-yes").click()
    page.wait(lambda: current_title(page) == "By keys")
    press(Keys.CONTROL, Keys.SHIFT, "d")
    report.check("Ctrl+Shift+D asks", page.one("#ask-title").text == "Delete “By keys”?", page.one("#ask-title").text)
    page.one("#ask-yes").click()
    page.wait(lambda: "By keys" not in titles(page))


def check_markdown(report, page):
    """Markdown of an answer becomes elements; markup in it stays text, and nothing is loaded."""
    said = load_file(page, json.dumps({"lacuna_conversations": 1, "conversations": [
        {"title": "Markdown", "messages": [{"role": "user", "content": "**as written**"}, {"role": "assistant", "content": MARKDOWN}]}]}))
    report.check("markdown imported", said == "talks.json: 1 added.", said)
    html = page.one(".markdown").get_attribute("innerHTML")
    expected = [
        "<h4>Sums</h4>", "<strong>12</strong> and <em>7</em>, then <code>19 - 5</code>; 2*3*4 and snake_case_names stay.",
        '<ol start="1"><li><p>first</p><ul><li><p>inner <code>a*b*</code></p></li><li><p><s>gone</s></p></li></ul></li><li><p>second</p></li></ol>',
        "<blockquote><p>quoted <strong>text</strong>\nin two lines</p></blockquote>",
        '<tr><th class="start">what</th><th class="end">how many</th></tr>', '<tr><td class="start">a | b</td><td class="end"><strong>7</strong></td></tr>',
        '<code>print("**no emphasis**")\n&lt;b&gt;</code></pre></figure><hr>',
        '<a href="https://example.org/a" title="https://example.org/a" target="_blank" rel="noopener noreferrer">a page</a>',
        "[no page](javascript:alert(1))", "&lt;b&gt;no markup&lt;/b&gt; *stars*",
    ]
    for part in expected:
        report.check(f"markdown: {part[:50]}", part in html, html)
    report.check("images are not loaded", page.all(".markdown img") == [] and '!<a href="https://example.org/a.png"' in html, html)
    report.check("messages of users stay as written", page.one(".message.user .text").text == "**as written**")
    page.script("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.one(".code-block button").click()
    page.wait(lambda: page.one(".code-block button").text == "Copied")
    report.check("copy of code", page.script("return window.copied") == 'print("**no emphasis**")\n<b>', page.script("return window.copied"))
    page.one(".message.assistant .tools button").click()
    report.check("copy of a message", page.script("return window.copied") == MARKDOWN)
    for width in (320, 1400):
        page.resize(width, 900)
        page.take_picture(f"markdown-{width}")
        report.check(f"markdown at {width}", page.script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
    page.resize(1400, 1100)
    milliseconds = page.module("""
        const { markdownOf } = await import("./markdown.js");
        const hostile = ["*a ", "**a **", "[", "`", "` `` ", "> ", "- ", "1. ", "|-", "~~~ ", "# ", "_a", "\\n- ", "\\n> > > ", "\\n|a|b|\\n|-|-|\\n"];
        const begin = performance.now();
        for (const part of hostile) markdownOf(part.repeat(100000 / part.length));
        return performance.now() - begin;""")
    said = load_file(page, json.dumps({"lacuna_conversations": 1, "conversations": [{"title": "Long", "messages": [
        {"role": "assistant", "content": "*a*\n\n" * 200000}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "*b*"}]}]}))
    report.check("a long conversation is imported", said == "talks.json: 1 added.", said)
    report.check("its end is Markdown, what comes before is text", [one.get_attribute("innerHTML") for one in page.all(".message .text em")] == ["b"]
                 and page.script("return document.querySelector('.message .text').childElementCount") == 0)
    report.check("markdown of long texts ends", isinstance(milliseconds, (int, float)), milliseconds)


def check_text_files(report, page):
    """Files become a part of the message, and what is no text is refused."""
    page.fill("#prompt", Keys.BACKSPACE)
    page.drop("`" * 100000, "fences.txt", "#prompt")
    page.wait(lambda: page.one("#prompt").get_property("value") == "fences.txt:\n" + "\n".join(["`" * 100001, "`" * 100000, "`" * 100001]))
    page.fill("#prompt", "What does it say?")
    page.drop("one ``` two\n", "note.txt", "#prompt")
    expected = "What does it say?\n\nnote.txt:\n````\none ``` two\n````"
    page.wait(lambda: page.one("#prompt").get_property("value") == expected)
    report.check("no recorded run", page.texts(".run-error") in ([], [""]), page.texts(".run-error"))
    file = Path(page.folder.name) / "bytes.bin"
    for data, sentence in {b"\xff\xfe": "bytes.bin is not a text in UTF-8; accepted: text files",
                           b"a\0b": "bytes.bin is not a text in UTF-8; accepted: text files",
                           b"a" * ((1 << 18) + 1): "bytes.bin has 262145 bytes; accepted: at most 262144"}.items():
        file.write_bytes(data)
        page.one("#attach").send_keys(str(file))
        page.wait(lambda: page.one("#error").text == sentence)
    report.check("refused files change nothing", page.one("#prompt").get_property("value") == expected)
    page.fill("#prompt", "")


def check_facts(report, page):
    page.one("#show-model").click()
    facts = dict(zip([one.text for one in page.all("#model-facts dt")], [one.text for one in page.all("#model-facts dd")]))
    props = page.module("return (await fetch('props')).json()")
    report.check("facts of the model", facts["Context"] == f"{props['context']:,} tokens" and facts["Family"] == f"{props['family']}, {props['paradigm']}"
                 and facts["Device"] == props["device"] and facts["Weights"] == props["weights"], facts)
    page.take_picture("about")
    page.one("#about button").click()


def check_key(report, binary, model, screenshots):
    """A server with a key: the page asks for it, and sends it with every request."""
    with Server(binary, model, "--api-key", "secret") as server, Page(f"http://127.0.0.1:{server.port}/", screenshots, key="secret") as page:
        page.run()
        report.check("an answer with a key", page.shown(".state").text == "done", page.texts(".run-error"))
        report.check("the key is not kept", page.script("return Object.values(localStorage).some((text) => text.includes('secret'))") is False)


def check_models(report, binary, models, screenshots):
    """A server of two models: the choice is kept, and requests name it."""
    with Server(binary, models / "mini-llada", "-m", f"quick={models / 'mini-qwen'}") as server, \
            Page(f"http://127.0.0.1:{server.port}/", screenshots) as page:
        groups = lambda: page.script("return [...document.querySelectorAll('#model-choice optgroup')].map((one) => [one.label, one.textContent])")
        report.check("models", groups() == [["Loaded when asked for", "mini-llada" + "quick"]], groups())
        report.check("infill of the first", page.script("return document.querySelector('#obstacle').hidden"))
        page.run()
        page.wait(lambda: groups() == [["Loaded", "mini-llada"], ["Loaded when asked for", "quick"]])
        report.check("an answer of the first", "14" in page.written(), page.texts(".run-error"))
        Select(page.one("#model-choice")).select_by_value("quick")
        page.wait(lambda: page.one("#model").text.startswith("qwen2"))
        page.open_tab("infill")
        report.check("what the second cannot do", "quick cannot fill holes" in page.one("#obstacle").text, page.one("#obstacle").text)
        page.open_tab("chat")
        page.script("document.getElementById('sent-part').open = true")
        page.wait(lambda: '"model": "quick"' in page.one("#sent").text)
        page.fill("#prompt", STORY)
        page.run()
        report.check("an answer of the second", page.written() != "", page.texts(".run-error"))
        page.take_picture("models")
        page.resize(320, 700)
        page.take_picture("models-320")
        report.check("models at 320", page.script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
        page.open_tab("decisions")
        page.run(".decision")
        report.check("decisions of the second", page.count(".decision") == 3, page.one("#error").text)
        page.open()
        report.check("the model is kept", page.one("#model-choice").get_property("value") == "quick")
        report.check("console with two models", page.complaints() == [])


def check_loss(report, binary, model, screenshots):
    """A server that ends is said to have ended, what was written stays, and one that is back is used again."""
    with Server(binary, model) as server, Page(f"http://127.0.0.1:{server.port}/", screenshots) as page:
        port = server.port
        page.open_details()
        page.fill("input[name=steps]", "16")
        asked = page.one("#prompt").get_property("value")
        server.process.kill()
        server.process.wait()
        page.one("#run").click()
        page.wait(lambda: page.one("#unreachable").is_displayed())
        sentence = page.one("#unreachable").text
        report.check("unreachable", sentence.startswith(f"The server at http://127.0.0.1:{port} cannot be reached."), sentence)
        report.check("the run says so, too", "cannot be reached" in page.shown(".run-error").text, page.texts(".run-error"))
        report.check("nothing can be sent", not page.one("#run").is_enabled())
        page.take_picture("unreachable")
        with Server(binary, model, port=port):
            page.wait(lambda: page.one("#run").is_enabled())
            report.check("reachable again", not page.one("#unreachable").is_displayed())
            report.check("what was set is still set", page.one("input[name=steps]").get_property("value") == "16")
            report.check("the message is back in the field", page.one("#prompt").get_property("value") == asked and page.all(".message") == [], asked)
            page.one("#run").click()
            page.wait(lambda: page.all(".message.assistant .text") and page.one("#run").is_enabled())
            report.check("answers again", page.shown(".state").text == "done", page.texts(".run-error"))
