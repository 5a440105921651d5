"""The modules of the page of `lacuna serve`, called from within the page: what no run of mini-llada shows. For check_page.py."""
import json

from selenium.webdriver.common.keys import Keys

#: Recorded runs that ask for more work than the page does: JavaScript that makes the text, by a part of the sentence.
TOO_MUCH = {
    "positions of the canvas; expected at most 65536": "start({ canvas: ones(65537) })",
    "passes; expected at most 65536": "start({}) + pass({}).repeat(65537)",
    "positions in all passes together": "start({ canvas: ones(65000) }) + pass({}).repeat(600)",
    "has 262145 lines": "start({}) + '\\n'.repeat(1 << 18)",
    "positions written, locked and computed": "start({}) + pass({ committed: Array(262145).fill({ position: 1, token: 2 }) })",
    "262145 positions written, locked": "start({}) + pass({ locked: ones(262145) })",
    "300001 positions written, locked": "start({}) + pass({ drop: ones(300001) })",
    "33619968 positions in all passes": "start({ canvas: ones(65536) }) + pass({ insert: Array(511).fill([0, 0]) })",
    "insert makes more than 65536 positions": "start({}) + pass({ insert: [[0, 65535]] })",
    "characters in a token; expected at most 1024": "start({ pieces: { 1: 'a'.repeat(1025) } })",
    "characters of text; expected at most 1048576": "start({ canvas: ones(2048), pieces: { 1: 'a'.repeat(1000) } })",
    "alternatives of a position; expected at most 64": "start({ page: { alternatives: [[0, { id: 1, tops: Array(65).fill({ text: 'a' }) }]] } })",
    'prompt_tokens is {"deep":[1,1,1,1,': "start({ prompt_tokens: { deep: ones(100) } })",
    "this is not a recorded run": "start({}) + pass({ committed: [null] })",
    "insert is not a list": "start({}) + pass({ insert: [5] })",
    "the file has 33554433 bytes; expected at most 33554432": "' '.repeat((1 << 25) + 1)",
}
#: The same where a link brings it.
TOO_LONG_LINKS = {
    "the link has 32769 characters; expected at most 32768": "'#run='.padEnd(32769, 'A')",
    "the run in the link has more than 4194304 bytes": "await pack(' '.repeat((1 << 22) + 1))",
    "the link holds no recorded run": "'#run=*'",
}
#: Functions of JavaScript for the runs and links above.
MAKERS = """
    const ones = (count) => Array(count).fill(1);
    const start = (more) => JSON.stringify({ request: 0, canvas: [1, 0], prompt_tokens: 0, mask: 0, ...more }) + "\\n";
    const pass = (more) => JSON.stringify({ request: 0, committed: [], ...more }) + "\\n";
    const pack = async (text) => {
      const packed = await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer();
      const letters = btoa([...new Uint8Array(packed)].map((byte) => String.fromCharCode(byte)).join(""));
      return "#run=" + letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    };
    const { decode } = await import("./recorded.js");
    const sentence = (source, ...more) => decode(source, -1, ...more).then((events) => `${events.length} events`, (error) => error.message);
    const file = (text) => ({ file: new File([text], "run.jsonl") });"""


def check_modules(report, page):
    check_limits(report, page)
    check_replay(report, page)
    check_holes(report, page)
    check_layout(report, page)
    check_round_trip(report, page)
    check_alternatives(report, page)


def check_replay(report, page):
    """Remasked, edited and growing canvases."""
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


def check_limits(report, page):
    """Too much work is counted before it is done, apart from the page, and answered with one sentence."""
    for expected, text in TOO_MUCH.items():
        said = page.module(f"{MAKERS} return sentence(file({text}));")
        report.check(f"too much: {expected[:50]}", expected in said and len(said) < 200, said)
    for expected, fragment in TOO_LONG_LINKS.items():
        said = page.module(f"{MAKERS} return sentence({{ fragment: {fragment} }});")
        report.check(f"link: {expected[:50]}", expected in said, said)
    said = page.module(f"{MAKERS} return sentence(file(start({{}}) + pass({{}})), 0);")
    report.check("reading has an end", said.startswith("the recorded run was not read within 0 seconds"), said)
    said = page.module(f"{MAKERS} return sentence(file(start({{}}) + pass({{ kind: 'a'.repeat(1000), insert: [[1, 2]], drop: [0, 0] }})));")
    report.check("what is not too much is read", said == "2 events", said)
    heavy = page.module(f"""{MAKERS} return location.href.split("#")[0] +
        await pack(start({{ canvas: ones(60000), ends: Array(1000000).fill(7), pieces: {{ 1: "a" }} }}) + pass({{}}).repeat(400));""")
    page.open(heavy)
    page.wait(lambda: page.texts(".state") == ["recorded run"])
    page.shown(".slider").send_keys(Keys.ARROW_LEFT)
    report.check("a large run of a link can be looked at", page.shown(".where").text == "pass 399 of 400" and page.count(".canvas .token") == 8192,
                 [page.shown(".where").text, page.count(".canvas .token")])
    page.open()


def check_holes(report, page):
    """Edits across holes, and holes of unknown length."""
    holes = page.module("""
        const { addHole, inputOf, moveHoles } = await import("./holes.js");
        const before = "one two three";
        const holes = addHole(addHole([], { begin: 8, end: 13, tokens: null }), { begin: 4, end: 7, tokens: 1 });
        const after = (text) => moveHoles(holes, before, text).map((hole) => text.slice(hole.begin, hole.end));
        return [inputOf(before, holes), after("one twenty three"), after("0, one two three"), after("one three"), after("one two three!")];""")
    marks = page.module("""
        const { inputOf, withMarks } = await import("./holes.js");
        const text = "a [[2]] b [[1-3]] \\\\[[4]] c";
        return [inputOf(text, []), withMarks([{ begin: 0, end: 4, tokens: 1 }], text).length];""")
    report.check("holes that the text marks", marks == [["a ", {"hole": 2}, " b ", {"hole": {"min": 1, "max": 3}}, " [[4]] c"], 2], marks)
    report.check("holes move", holes == [["one ", {"hole": 1}, " ", {"hole": {}}], ["twenty", "three"], ["two", "three"],
                                         ["three"], ["two", "three"]], holes)


def check_layout(report, page):
    """JSON that is not finished, and JSON that is: the layout of the latter is that of a library."""
    values = [{"a": [1, {"b": "x, {y}: \\\" z"}], "c": {}, "d": [], "e": None}, [], "text", [[True]]]
    for value in values:
        laid = page.module(f"""
            const {{ layOut }} = await import("./pretty.js");
            return layOut([...{json.dumps(json.dumps(value))}].map((text) => ({{ text, masked: false }}))).map(({{ text }}) => text).join("");""")
        report.check("layout of JSON", laid == json.dumps(value, indent=2), laid)
    laid = page.module("""
        const { layOut } = await import("./pretty.js");
        const parts = [{ text: '{"shells"', masked: false }, { masked: true }, { masked: true }, { text: ', "owner": "', masked: false }, { masked: true }];
        return layOut(parts).map(({ text, masked }) => (masked ? "_" : text)).join("");""")
    report.check("layout of JSON with holes", laid == '{\n  "shells"__,\n  "owner": "_', laid)


def check_round_trip(report, page):
    """Events become a trace and events again: dropped, inserted, remasked and guided ones, too."""
    result = page.module("""
        const { Run, Replay } = await import("./replay.js");
        const { eventsOfTrace, traceOf } = await import("./trace.js");
        const events = [
          { type: "start", prompt: 1, mask: 9, canvas: [1, 9, 9, 9], pieces: { 1: "a", 5: "<b>" }, ends: [7] },
          { type: "step", pass: 0, step: 0, kind: "denoise", set: [[1, 5, 0.5], [2, 6, null]], computed: [[0, 4]], rows: 4, flops: 10, ms: 2,
            rows_baseline: 8, flops_baseline: 20, rows_uncached: 4, flops_uncached: 10, block: [1, 4] },
          { type: "step", pass: 1, step: 1, kind: "denoise", drop: [1], insert: [[2, 2]], edit: [[1, 4, 0.25]], computed: [[0, 2], [4, 5]],
            rows: 3, flops: 5, ms: 1, lock: [1] },
          { type: "step", pass: 2, step: 2, kind: "verify", remask: [1], length: 6, rows: 2, flops: 5, ms: 1, unlock: [1] }];
        const show = (list) => {
          const run = new Run();
          list.forEach((event) => run.add(event));
          const replay = new Replay(run);
          const states = run.steps.map((_, i) => {
            replay.goTo(i + 1);
            
            return [replay.cells.map((cell) => [cell.masked ? "_" : cell.id, cell.confidence, cell.locked, cell.kept].join()), run.cost(i + 1)];
          });
          return [run, JSON.stringify([states, [...run.pieces], [...run.ends]])];
        };
        const [run, before] = show(events);
        const [, after] = show(eventsOfTrace(traceOf(run), -1));
        return [before, after];""")
    report.check("a trace of a run is the run", isinstance(result, list) and result[0] == result[1], result)


def check_alternatives(report, page):
    """Checks that the log probabilities of a stream are shown for their own token and for no other."""
    texts = page.module("""
        const { Run, Replay } = await import("./replay.js");
        const { showDetails } = await import("./details.js");
        const run = new Run();
        run.add({ type: "start", prompt: 1, mask: 9, canvas: [1, 9, 9], pieces: { 5: "yes", 6: "no" } });
        run.add({ type: "step", step: 0, kind: "denoise", set: [[1, 5, 0.75], [2, 6, 0.5]] });
        run.addLogprobs([{ id: 5, entropy: 0.5, top_logprobs: [{ token: "yes", logprob: Math.log(0.75) }, { token: "<i>", logprob: Math.log(0.25) }] },
                         { id: 7, top_logprobs: [{ token: "maybe", logprob: 0 }] }]);
        const replay = new Replay(run);
        replay.goTo(1);
        return [1, 2].map((position) => {
          const element = document.createElement("div");
          showDetails(element, position, replay.cells[position], run);
          return element.innerText ?? element.textContent;
        });""")
    report.check("alternatives", "yes75.0%<i>25.0%" in texts[0].replace("\n", "") and "entropy 0.500 nats" in texts[0]
                 and "maybe" not in texts[1], texts)
