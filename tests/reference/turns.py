"""Sends the turns of coding agents (`fixtures/*.json`) and judges the replies, for check_more_clients.py.

Each event is judged by the types of the official packages, and the stream as a whole by what a client relies on: which event comes
when, deltas that add up to what is done, calls with arguments that the tool's schema allows. `left_out` of a turn is what the
header X-Lacuna-Ignored has to name, neither more nor less.
"""
import json
import typing
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from openai.types.responses import ResponseStreamEvent

FIXTURES = Path(__file__).resolve().parent / "fixtures"


def send(base, turn):
    """The status, what was left out, and the body of the reply."""
    request = urllib.request.Request(base + turn["path"], json.dumps(turn["body"]).encode(),
                                     {"Content-Type": "application/json", **turn["headers"]})
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            ignored = reply.headers.get("X-Lacuna-Ignored") or ""
            return reply.status, {name for name in ignored.split(", ") if name}, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, set(), error.read().decode()


def events_of(text):
    """The events of a stream, each of which has its type twice: in its line `event:` and in its data."""
    events = []
    for part in text.strip().split("\n\n"):
        lines = [line for line in part.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        fields = dict(line.split(": ", 1) for line in lines)
        event = json.loads(fields["data"])
        if set(fields) != {"event", "data"} or fields["event"] != event["type"]:
            raise ValueError(f"an event without its type: {part}")
        events.append(event)
    return events


def types_of(union):
    """The official types of a stream's events by the value of their `type`."""
    kinds = typing.get_args(typing.get_args(union)[0])
    return {value: kind for kind in kinds for value in typing.get_args(kind.model_fields["type"].annotation)}


MESSAGES_EVENTS, RESPONSES_EVENTS = types_of(RawMessageStreamEvent), types_of(ResponseStreamEvent)


def judge_calls(calls, schemas):
    for name, arguments in calls:
        jsonschema.validate(arguments, schemas[name])


def messages_turn(body, text):
    """The text and the calls of a reply of Anthropic's form; raises what is wrong with it."""
    schemas = {tool["name"]: tool["input_schema"] for tool in body.get("tools", []) if "input_schema" in tool}
    if not body.get("stream"):
        message = Message.model_validate_json(text, strict=True)
        return "".join(block.text for block in message.content if block.type == "text"), []
    events = [event for event in events_of(text) if event["type"] != "ping"]
    for event in events:
        MESSAGES_EVENTS[event["type"]].model_validate(event)
    kinds = [event["type"] for event in events]
    if (kinds[0], kinds[-2:]) != ("message_start", ["message_delta", "message_stop"]):
        raise ValueError(f"a stream of {kinds}")
    blocks, is_open = [], False
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            if is_open or event["index"] != len(blocks):
                raise ValueError(f"block {event['index']} begins within another, or out of turn")
            is_open = True
            blocks.append([event["content_block"], ""])
            continue
        if not is_open or event["index"] != len(blocks) - 1:
            raise ValueError(f"{event['type']} of a block that is not open")
        if event["type"] == "content_block_stop":
            is_open = False
        else:
            kind = {"text": ("text_delta", "text"), "tool_use": ("input_json_delta", "partial_json")}[blocks[-1][0]["type"]]
            if event["delta"]["type"] != kind[0]:
                raise ValueError(f"a {event['delta']['type']} in a block of {blocks[-1][0]['type']}")
            blocks[-1][1] += event["delta"][kind[1]]
    calls = [(block["name"], json.loads(said)) for block, said in blocks if block["type"] == "tool_use"]
    judge_calls(calls, schemas)
    reason = events[-2]["delta"]["stop_reason"]
    if is_open or (reason == "tool_use") != bool(calls) or reason not in ("end_turn", "tool_use", "max_tokens"):
        raise ValueError(f"ended for {reason} with {len(calls)} calls")
    return "".join(said for block, said in blocks if block["type"] == "text"), calls


def responses_turn(body, text):
    """The text and the calls of a stream of the Responses API; raises what is wrong with it."""
    schemas = {tool["name"]: tool["parameters"] for tool in body["tools"] if tool["type"] == "function"}
    events = events_of(text)
    for event in events:
        RESPONSES_EVENTS[event["type"]].model_validate(event)
    kinds = [event["type"] for event in events]
    if kinds[:2] != ["response.created", "response.in_progress"] or kinds[-1] not in ("response.completed", "response.incomplete"):
        raise ValueError(f"a stream of {kinds}")
    if [event["sequence_number"] for event in events] != list(range(len(events))):
        raise ValueError("sequence numbers that do not count from 0")
    items, said = [], {}
    for event in events:
        if event["type"] == "response.output_item.added":
            if event["output_index"] != len(items):
                raise ValueError(f"item {event['output_index']} out of turn")
            items.append(None)
        elif event["type"] == "response.output_item.done":
            items[event["output_index"]] = event["item"]
        elif event["type"].endswith(".delta"):
            said[event["output_index"]] = said.get(event["output_index"], "") + event["delta"]
    last = events[-1]["response"]
    if items != last["output"] or not items:
        raise ValueError(f"items that are done, {items}, are not those of the reply, {last['output']}")
    if last["status"] != kinds[-1].split(".")[1] or last["usage"]["total_tokens"] <= last["usage"]["input_tokens"]:
        raise ValueError(f"{kinds[-1]} with {last['status']} and {last['usage']}")
    texts, calls = "", []
    for index, item in enumerate(items):
        if item["type"] == "function_call":
            whole = item["arguments"]
            calls.append((item["name"], json.loads(whole)))
        else:
            whole = "".join(part["text"] for part in item["content"])
            texts += whole
        if whole != said.get(index, ""):
            raise ValueError(f"deltas {said.get(index)!r} of {whole!r}")
    judge_calls(calls, schemas)
    return texts, calls


def check_turn(report, name, base, turn):
    status, ignored, text = send(base, turn)
    report.check(f"{name}: status", status == 200, (status, text))
    if status != 200:
        return
    report.check(f"{name}: left out", ignored == set(turn["left_out"]), (sorted(ignored), sorted(turn["left_out"])))
    try:
        if "count_tokens" in turn["path"]:
            said, calls = str(MessageTokensCount.model_validate_json(text, strict=True).input_tokens), []
        else:
            said, calls = (responses_turn if turn["path"].startswith("/v1/responses") else messages_turn)(turn["body"], text)
        report.check(f"{name}: says something", said or calls, text)
        report.check(f"{name}: calls", bool(calls) or not turn.get("calls"), text)
        if "schema" in turn:
            jsonschema.validate(json.loads(said), turn["schema"])
    except (KeyError, IndexError, ValueError, jsonschema.ValidationError) as error:
        report.check(f"{name}: form", False, error)


def check_all(report, model, base):
    for file in sorted(FIXTURES.glob("*.json")):
        for turn in json.loads(file.read_text())["turns"]:
            check_turn(report, f"{model} {file.stem}: {turn['name']}", base, turn)
