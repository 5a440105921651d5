"""Calls the tools of `lacuna mcp` with the official client of the Model Context Protocol.

    python check_mcp.py LACUNA_BINARY [--models FOLDER] [--quiet]

Exit status 0 when nothing failed; "skipped" where the package mcp is not installed.
"""
import argparse
import asyncio
import importlib.util
import json
import re
import sys
from pathlib import Path

STORY = "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?"


class Report:
    def __init__(self, quiet):
        self.quiet, self.passed, self.failed = quiet, 0, 0

    def check(self, name, holds, shown=""):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        if not holds:
            print(f"FAIL {name}: {shown}", flush=True)
        elif not self.quiet:
            print(f"pass {name}", flush=True)


def text_of(result):
    return result.content[0].text


def object_of(result):
    return getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)


def is_error(result):
    return bool(getattr(result, "is_error", False) or getattr(result, "isError", False))


async def check(binary, models, report):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=str(binary), args=["mcp", "--threads", "1", "-m", str(models / "mini-llada")])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        started = await session.initialize()
        info = getattr(started, "server_info", None) or started.serverInfo
        report.check("initialize", info.name == "lacuna", started)
        await session.send_ping()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        report.check("list", list(tools) == ["generate", "infill", "decide", "tokenize"], tools)

        answer = await session.call_tool("generate", {"prompt": STORY, "regex": "[0-9]{1,3}", "max_tokens": 16})
        report.check("generate", re.fullmatch("[0-9]{1,3}", text_of(answer)) and not is_error(answer), answer)
        again = await session.call_tool("generate", {"prompt": STORY, "regex": "[0-9]{1,3}", "max_tokens": 16})
        report.check("generate is repeatable", object_of(again) == object_of(answer), again)
        schema = {"type": "object", "properties": {"shells": {"type": "integer"}}, "required": ["shells"]}
        answer = await session.call_tool("generate", {"prompt": STORY, "json_schema": schema, "max_tokens": 32})
        report.check("generate JSON", isinstance(json.loads(text_of(answer))["shells"], int), answer)

        filled = await session.call_tool("infill", {"text": "Mia has 12 shells. She finds 7 more. Now she has [[1-3]] shells."})
        report.check("infill", text_of(filled).endswith(" shells.") and "[[" not in text_of(filled), filled)
        questions = {"happy": {"type": "noul", "instructions": "Is Ben happy?"},
                     "who": {"type": "choice", "criteria": {"Ben": None, "Mia": None}}}
        decided = await session.call_tool("decide", {"state": "Ben is happy.", "questions": questions})
        answers = object_of(decided)["answers"]
        report.check("decide", 0 <= answers["happy"]["noul"] <= 1 and answers["who"]["choice"] in ("Ben", "Mia"), decided)
        tokens = object_of(await session.call_tool("tokenize", {"text": "Mia has 12 shells."}))["tokens"]
        back = await session.call_tool("tokenize", {"tokens": tokens})
        report.check("tokenize", text_of(back) == "Mia has 12 shells.", back)

        wrong = await session.call_tool("infill", {"text": "no hole"})
        report.check("an error is a result", is_error(wrong) and "hole" in text_of(wrong), wrong)
        try:
            await session.call_tool("unknown", {})
            report.check("an unknown tool is an error", False)
        except Exception as error:  # the class differs between versions
            report.check("an unknown tool is an error", "unknown" in str(error), error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[2] / "models")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if importlib.util.find_spec("mcp") is None:
        print("skipped: the package mcp is not installed")
        return 0
    report = Report(options.quiet)
    asyncio.run(check(options.binary.resolve(), options.models, report))
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
