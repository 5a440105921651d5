#!/usr/bin/env python3
"""Tries a folder of published files: python3 tests/hub/table.py LACUNA FOLDER [PART_OF_A_NAME]

Each folder in it is one checkpoint without its weights: config.json, tokenizer files, a chat template, as published; or
partial.json, whose object "config.json" holds the keys that were seen. A line of the table says for each
  loads       what `lacuna inspect` says: the family, or its error
  mask, ends  the tokens that it found
  template    the form of prompts that it recognised
  prompts     how many of the prompts of rendered.json, which holds conversations rendered by jinja2, `lacuna tokenize --chat`
              renders alike; "-" without that file, a tokenizer, or that flag
  memory      predicted for the weights
The exit status is 0 where every checkpoint of a supported architecture loads, except that a partial.json may lack keys.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HEADS = ("checkpoint", "loads", "mask", "ends", "template", "prompts", "memory")


def run(binary, *arguments, text=None):
    done = subprocess.run([binary, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr.strip()


def with_config(folder, scratch):
    """The folder, or a copy of it whose config.json is that of partial.json; None where neither has one."""
    if (folder / "config.json").exists():
        return folder
    partial = folder / "partial.json"
    config = json.loads(partial.read_text()).get("config.json") if partial.exists() else None
    if config is None:
        return None
    copy = pathlib.Path(scratch) / folder.name
    copy.mkdir()
    for file in folder.iterdir():
        if file.is_file() and file.name != "partial.json":
            (copy / file.name).symlink_to(file.resolve())
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def equal_prompts(binary, folder):
    """`N/M` prompts that equal those of jinja2."""
    rendered = folder / "rendered.json"
    if not rendered.exists() or not (folder / "tokenizer.json").exists():
        return "-"
    equal, total = 0, 0
    for case in json.loads(rendered.read_text())["messages"].values():
        prompt = case.get("prompt")
        if not isinstance(prompt, str):
            continue
        code, out, err = run(binary, "tokenize", "-m", folder, "--chat", text=json.dumps(case["messages"]))
        if code and "--chat" in err:
            return "-"
        total += 1
        equal += code == 0 and out.rstrip("\n") == prompt.rstrip("\n")
    return f"{equal}/{total}"


def row_of(binary, folder):
    code, out, err = run(binary, "inspect", "-m", folder, "--json")
    if code:
        return {"loads": err.removeprefix("lacuna: ").replace(str(folder), folder.name)}
    report = json.loads(out)
    tokens, memory = report["special_tokens"], (report["memory"]["run"] or {}).get("weights_bytes")
    return {"loads": report["family"], "mask": tokens["mask"] and tokens["mask"]["id"],
            "ends": " ".join(str(token["id"]) for token in tokens["end"]) or None,
            "template": report["chat_template"].get("format") or report["chat_template"].get("reason"),
            "prompts": equal_prompts(binary, folder), "memory": f"{memory / 2**30:.1f} GiB" if memory else None}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    binary, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    rows, refused = [], []
    with tempfile.TemporaryDirectory(prefix="lacuna-table-") as scratch:
        for folder in sorted(path for path in root.iterdir() if path.is_dir() and part in path.name):
            copy = with_config(folder, scratch)
            row = {"loads": "(no config.json)"} if copy is None else row_of(binary, copy)
            rows.append({"checkpoint": folder.name} | row)
            is_cut = copy is not None and copy != folder and "is missing" in row["loads"]
            if copy is not None and len(row) == 1 and "architectures" not in row["loads"] and not is_cut:
                refused.append(folder.name)
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
    for row in rows:
        print("| " + " | ".join(str(row.get(head)) if row.get(head) is not None else "-" for head in HEADS) + " |")
    print(f"\n{len(rows) - len(refused)} of {len(rows)} are not refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
