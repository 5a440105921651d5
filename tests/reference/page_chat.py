"""Conversations on the page of `lacuna serve`: their list, their files, Markdown of answers, models, and a server that ends. For check_page.py."""
import json
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
    check_files(report, page)
    check_search(report, page)
    check_shortcuts(report, page)
    check_markdown(report, page)
    check_text_files(report, page)
    check_facts(report, page)
    page.script("localStorage.clear()")
    page.open()


def new_conversation(page):
    page.script("document.querySelector('.conversation-list').open = true")
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
    report.check("its name, too", page.one("#conversation-title").text == "Shells and pens", page.one("#conversation-title").text)
    page.all(".message.assistant button")[-1].click()  # Regenerate
    page.wait(lambda: page.one("#seed").get_property("value") == "1" and page.one("#run").is_enabled())
    report.check("regenerated", len(page.all(".message")) == 4, len(page.all(".message")))
    report.check("two versions of the answer", [one.text for one in page.all(".version")] == ["2 of 2"])
    press(page, "Previous version")
    report.check("the first version", [one.text for one in page.all(".message .text")] == before and page.one(".version").text == "1 of 2", before)
    page.all(".message.user button")[1].click()  # Edit
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
    page.script("document.querySelector('.conversation-list').open = true")
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


def press(page, name):
    page.one(f"#messages [aria-label='{name}']").click()


def open_list(page):
    page.script("document.getElementById('conversation-list').open = true")


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
    open_list(page)
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
    open_list(page)
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
    report.check("Ctrl+B closes the list", not page.one("#conversations").is_displayed())
    press(Keys.CONTROL, "b")
    report.check("Ctrl+B opens the list", page.one("#conversations").is_displayed())
    press(Keys.CONTROL, Keys.SHIFT, "o")
    report.check("Ctrl+Shift+O begins one", page.one("#conversation-title").text == "New conversation" and focused() == "prompt")
    press(Keys.CONTROL, Keys.SHIFT, "e")
    page.fill("#ask-text", "By keys")
    page.one("#ask-yes").click()
    page.wait(lambda: page.one("#conversation-title").text == "By keys")
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
    report.check("markdown of long texts ends", isinstance(milliseconds, (int, float)), milliseconds)


def check_text_files(report, page):
    """Files become a part of the message, and what is no text is refused."""
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
        report.check("an answer of the first", "14" in page.shown(".answer").text, page.texts(".answer") + page.texts(".run-error"))
        Select(page.one("#model-choice")).select_by_value("quick")
        page.wait(lambda: page.one("#model").text.startswith("qwen2"))
        page.open_tab("infill")
        report.check("what the second cannot do", "quick cannot fill holes" in page.one("#obstacle").text, page.one("#obstacle").text)
        page.open_tab("chat")
        page.script("document.getElementById('sent-part').open = true")
        page.wait(lambda: '"model": "quick"' in page.one("#sent").text)
        page.fill("#prompt", STORY)
        page.run()
        report.check("an answer of the second", page.shown(".answer").text != "", page.texts(".run-error"))
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
            page.all(".message.user button")[-1].click()  # Send again
            page.wait(lambda: page.all(".message.assistant .text") and page.one("#run").is_enabled())
            report.check("answers again", page.shown(".state").text == "done", page.texts(".run-error"))
