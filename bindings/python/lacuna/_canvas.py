"""An answer's canvas, pass by pass: in a notebook and in a terminal."""
from __future__ import annotations

import html as _html
import json
import shutil
import sys
import time
import uuid

_MASK = "·"


def _frames(answer) -> list[list[str]]:
    """The texts of the generated positions: before the first pass, then after each one."""
    model = answer._model
    mask = model.info.mask_token
    texts: dict[int, str] = {mask: _MASK}

    def text(token: int) -> str:
        if token not in texts:
            texts[token] = "" if token in model.info.end_tokens else model.detokenize([token])
        return texts[token]

    frames = [[text(int(token)) for token in event.canvas[event.prompt_tokens:]] for event in answer.events]
    length = max(map(len, frames), default=0)
    return [[_MASK] * length] + [frame + [_MASK] * (length - len(frame)) for frame in frames]


def html(answer) -> str:
    """A canvas with a slider; the text alone where the passes were not kept."""
    if not answer.events or answer._model is None:
        return f"<pre>{_html.escape(answer.text)}</pre>"
    name = "lacuna-" + uuid.uuid4().hex[:12]
    frames = _frames(answer)
    data = json.dumps(frames).replace("<", "\\u003c")
    last = len(frames) - 1
    return f"""<div id="{name}" style="font-family:monospace;line-height:1.9">
<div class="canvas" style="white-space:pre-wrap"></div>
<label>pass <input type="range" min="0" max="{last}" value="{last}" style="width:20em;vertical-align:middle">
<output></output></label>
<script>(() => {{
const root = document.getElementById("{name}"), frames = {data};
const canvas = root.querySelector(".canvas"), slider = root.querySelector("input");
const draw = () => {{
  const now = frames[slider.value], before = frames[Math.max(0, slider.value - 1)];
  canvas.replaceChildren(...now.map((text, i) => {{
    const cell = document.createElement("span");
    cell.textContent = text;
    cell.style.color = text === "{_MASK}" ? "#999" : "inherit";
    if (text !== before[i]) cell.style.background = "rgba(255, 200, 0, 0.5)";
    return cell;
  }}));
  root.querySelector("output").textContent = slider.value + " of {last}";
}};
slider.addEventListener("input", draw);
draw();
}})();</script></div>"""


def replay(answer, fps: float, file) -> None:
    """One line that is drawn again for each pass; the last one alone where `file` is not a terminal."""
    file = file or sys.stdout
    if fps <= 0:
        raise ValueError(f"fps is {fps}; expected more than 0")
    lines = [" ".join("".join(frame).split()) for frame in _frames(answer)] if answer.events else [answer.text]
    if not file.isatty():
        print(lines[-1], file=file)
        return
    width = shutil.get_terminal_size().columns - 1
    for number, line in enumerate(lines):
        if number:
            time.sleep(1 / fps)
        shown = line if len(line) <= width else line[:width - 1] + "…"
        print(f"\r\x1b[K{shown}", end="", file=file, flush=True)
    print(file=file)
