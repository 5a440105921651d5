"""Asks `lacuna serve` with the official clients of OpenAI, Anthropic and Ollama and with LangChain, and checks what it answers.

    python check_server.py LACUNA_BINARY [--models FOLDER]

Chats, completions, streams, errors, likelihoods, infill, cancelled streams and hostile bytes, on mini-llada and mini-qwen; default
answers, and answers in a form that is asked for (jsonschema judges them), of all models; calls of tools. Texts must be those of `lacuna run`. Exit status 0 when nothing failed.
"""
import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import anthropic
import jsonschema
import langchain_openai
import ollama
import openai

STORY = "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?"

DIFFUSION_MODELS = ["mini-llada", "mini-dream", "mini-sdar", "mini-llada2", "mini-fast-dllm", "mini-refusion", "mini-gidd",
                    "mini-gidd-mask"]


#: Each answer has to be valid, and no answer may be cut at 96 positions.
SCHEMAS = [
    {"type": "object", "properties": {"shells": {"type": "integer", "minimum": 0, "maximum": 99},
                                      "owner": {"enum": ["Mia", "Sam"]}},
     "required": ["shells", "owner"], "additionalProperties": False},
    {"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
                                      "sure": {"type": "boolean"}, "note": {"type": "string", "maxLength": 12}},
     "required": ["steps", "sure"], "additionalProperties": False},
    {"type": "array", "items": {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[a-c]+$", "maxLength": 6}]},
     "minItems": 2, "maxItems": 4},
]


class Server:
    """One `lacuna serve`, on a port of its own or a given one, until the end of the with block."""

    def __init__(self, binary, model, *flags, environment=None, port=0):
        self.process = subprocess.Popen(
            [binary, "serve", "-m", str(model), "--port", str(port), *flags], stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})})
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            found = re.search(r"http://[^:]+:(\d+)", line)
            if found:
                break
        else:
            raise RuntimeError(f"did not start: {self.log}")
        self.port = int(found.group(1))
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.status = self.process.wait(timeout=20)

    def client(self, key="none"):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, max_retries=0, timeout=120)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, path, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data,
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def memory(self):
        """Resident bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) << 10
        return 0


def run(binary, model, *flags):
    output = subprocess.run([binary, "run", "-m", str(model), "--json", *flags], capture_output=True, text=True,
                            check=True).stdout
    return json.loads(output)


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, holds, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name} {detail}")


def check_chat(report, binary, model, server):
    client = server.client()
    messages = [{"role": "user", "content": STORY}]
    alone = run(binary, model, "-p", STORY, "--gen-length", "32")
    reply = client.chat.completions.create(model="any", messages=messages, max_tokens=32, temperature=0, top_p=0.9,
                                           seed=0, presence_penalty=0, user="me")
    text = reply.choices[0].message.content
    report.check("chat text", text == alone["text"], (text, alone["text"]))
    report.check("chat finish", reply.choices[0].finish_reason == "stop")
    report.check("chat usage", reply.usage.prompt_tokens == alone["prompt_tokens"] and reply.usage.completion_tokens > 0)

    streamed, reasons, usage = "", [], None
    for chunk in client.chat.completions.create(model="any", messages=messages, max_tokens=32, stream=True,
                                                stream_options={"include_usage": True}):
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            streamed += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    report.check("stream text", streamed == text, streamed)
    report.check("stream finish", reasons == ["stop"], reasons)
    report.check("stream usage", usage == reply.usage, usage)

    settings = {"block_length": 8, "unmask": "threshold=0.9", "cache": "dual"}
    fast = client.chat.completions.create(model="any", messages=messages, max_tokens=32,
                                          extra_body={"lacuna": settings})
    flags = [part for key, value in settings.items() for part in (f"--{key}", str(value))]
    expected = run(binary, model, "-p", STORY, "--gen-length", "32", *flags)["text"]
    report.check("chat settings", fast.choices[0].message.content == expected)

    with_logprobs = client.chat.completions.create(model="any", messages=messages, max_tokens=32, logprobs=True)
    content = with_logprobs.choices[0].logprobs.content
    report.check("chat logprobs", content and all(token.logprob <= 0 for token in content))


def check_defaults(report, binary, models):
    """The story without max_tokens or any other setting."""
    for name in DIFFUSION_MODELS:
        with Server(binary, models / name) as server:
            reply = server.client().chat.completions.create(model=name, messages=[{"role": "user", "content": STORY}])
            text = reply.choices[0].message.content
            report.check(f"{name} answers at its defaults", text == "12+7=19. 19-5=14. The answer is 14.", text)


def check_completion(report, binary, model, server):
    client = server.client()
    alone = run(binary, model, "-p", STORY, "--raw", "--gen-length", "16", "--temperature", "0.7", "--seed", "3")
    reply = client.completions.create(model="any", prompt=STORY, max_tokens=16, temperature=0.7, seed=3)
    report.check("completion text", reply.choices[0].text == alone["text"], reply.choices[0].text)
    both = client.completions.create(model="any", prompt=[STORY, "Mia has"], max_tokens=8, n=2)
    report.check("completion choices", [choice.index for choice in both.choices] == [0, 1, 2, 3])
    streamed = "".join(choice.text for chunk in client.completions.create(
        model="any", prompt=STORY, max_tokens=16, temperature=0.7, seed=3, stream=True) for choice in chunk.choices)
    report.check("completion stream", streamed == alone["text"], streamed)


def check_errors(report, server):
    client = server.client()
    for name, arguments in {"length": {"extra_body": {"gen_length": 10**6}}, "setting": {"extra_body": {"lacuna": {"nothing": 1}}},
                            "method": {"extra_body": {"lacuna": {"lock": "nonsense"}}}}.items():
        try:
            client.completions.create(model="any", prompt="Mia", **arguments)
            report.check(f"error {name}", False)
        except openai.BadRequestError as error:
            report.check(f"error {name}", error.status_code == 400 and len(error.body["message"]) > 10)
    large = client.completions.create(model="any", prompt=STORY, max_tokens=10**6)
    report.check("a limit that does not fit", large.choices[0].finish_reason == "stop", large)
    report.check("malformed", server.post("/v1/completions", b"{\"prompt\": ")[0] == 400)
    report.check("no path", server.get("/../../etc/passwd")[0] == 404)
    report.check("encoded path", server.get("/%2e%2e/etc/passwd")[0] == 404)
    report.check("models", client.models.list().data[0].id)


def check_forms(report, binary, models):
    """Schemas, expressions and choices: what every kind of model answers is in the form that was asked for."""
    messages = [{"role": "user", "content": STORY}]
    for name in [model for model in DIFFUSION_MODELS if model != "mini-refusion"] + ["mini-qwen"]:
        with Server(binary, models / name) as server:
            client = server.client()
            for index, schema in enumerate(SCHEMAS):
                form = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}
                for temperature in (0, 0.8):
                    arguments = {"model": "any", "messages": messages, "max_tokens": 96, "temperature": temperature,
                                 "response_format": form, "seed": index}
                    text = client.chat.completions.create(**arguments).choices[0].message.content
                    try:
                        jsonschema.validate(json.loads(text), schema)
                        report.check(f"form {name} {index}", True)
                    except (ValueError, jsonschema.ValidationError) as error:
                        report.check(f"form {name} {index} at temperature {temperature}", False, (text, error))
                    streamed = "".join(choice.delta.content or "" for chunk in
                                       client.chat.completions.create(**arguments, stream=True) for choice in chunk.choices)
                    report.check(f"streamed form {name} {index}", streamed == text, (streamed, text))
            for body, pattern in (({"regex": "[0-9]{1,2}( shells)?"}, "[0-9]{1,2}( shells)?"),
                                  ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no")):
                text = client.completions.create(model="any", prompt=STORY, max_tokens=16, extra_body=body).choices[0].text
                report.check(f"form {name} {body}", re.fullmatch(pattern, text), text)


TOOLS = [
    {"type": "function", "function": {"name": "add", "description": "Adds two integers.", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99},
                                         "b": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["a", "b"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "tell", "description": "Tells somebody.", "parameters": {
        "type": "object", "properties": {"who": {"enum": ["Mia", "Sam"]}}, "required": ["who"]}}},
]


def conforms(calls):
    """Whether each call is one of TOOLS with arguments for its schema."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    try:
        for call in calls:
            jsonschema.validate(json.loads(call["arguments"]), schemas[call["name"]])
    except (KeyError, ValueError, jsonschema.ValidationError):
        return False
    return bool(calls)


def streamed_calls(chunks):
    """The calls, the content and the reason to end that a stream of chunks adds up to."""
    calls, content, reason = [], "", None
    for chunk in chunks:
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            content += choice.delta.content or ""
            for part in choice.delta.tool_calls or []:
                if part.index == len(calls):
                    calls.append({"id": part.id, "name": part.function.name, "arguments": ""})
                calls[part.index]["arguments"] += part.function.arguments
    return calls, content, reason


def check_tools(report, binary, models):
    """Calls that are required or named, whole and streamed, and the turn after their results."""
    question = [{"role": "user", "content": STORY}]
    # ReFusion takes no constraint, and the functions' descriptions fill the context of mini-gidd.
    unfit = ("mini-refusion", "mini-gidd", "mini-gidd-mask")
    for name in [model for model in DIFFUSION_MODELS if model not in unfit] + ["mini-qwen"]:
        with Server(binary, models / name) as server:
            client = server.client()
            for choice in ("required", {"type": "function", "function": {"name": "tell"}}):
                for temperature in (0, 0.8):
                    arguments = {"model": "any", "messages": question, "tools": TOOLS, "tool_choice": choice, "max_tokens": 160,
                                 "temperature": temperature, "seed": 3}
                    reply = client.chat.completions.create(**arguments).choices[0]
                    calls = [{"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
                             for call in reply.message.tool_calls or []]
                    label = f"tools {name} {choice} at temperature {temperature}"
                    has_text = reply.message.content is not None
                    report.check(label, conforms(calls) and reply.finish_reason == "tool_calls" and not has_text, reply)
                    report.check(f"{label}: named", choice == "required" or [call["name"] for call in calls] == ["tell"], calls)
                    streamed = streamed_calls(client.chat.completions.create(**arguments, stream=True))
                    report.check(f"{label}: streamed", streamed == (calls, "", "tool_calls"), (streamed, calls))
            results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
            messages = [*question, reply.message.model_dump(exclude_none=True), *results]
            arguments = {"model": "any", "messages": messages, "tools": TOOLS, "max_tokens": 64}
            reply = client.chat.completions.create(**arguments).choices[0]
            report.check(f"tools {name}: behind the results", reply.message.content or conforms(
                [call.function.model_dump() for call in reply.message.tool_calls or []]), reply)
            _, content, reason = streamed_calls(client.chat.completions.create(**arguments, stream=True))
            report.check(f"tools {name}: behind the results, streamed",
                         content == (reply.message.content or "") and reason == reply.finish_reason, (content, reply))


FLAT = [tool["function"] for tool in TOOLS]


def is_call(name, arguments):
    return conforms([{"name": name, "arguments": json.dumps(arguments)}])


def check_response_tools(report, server):
    client = server.client()
    tools = [{"type": "function", **function} for function in FLAT]
    arguments = {"model": "any", "input": [{"role": "user", "content": STORY}], "tools": tools, "tool_choice": "required",
                 "max_output_tokens": 160, "temperature": 0}
    reply = client.responses.create(**arguments)
    calls = [item for item in reply.output if item.type == "function_call"]
    report.check("responses tools", len(calls) == len(reply.output) > 0 and reply.status == "completed", reply.output)
    report.check("responses tools: valid", all(is_call(call.name, json.loads(call.arguments)) for call in calls), calls)
    events = list(client.responses.create(**arguments, stream=True))
    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    report.check("responses tools: streamed", deltas == "".join(call.arguments for call in calls), deltas)
    report.check("responses tools: last", [item.model_dump() for item in events[-1].response.output]
                 == [item.model_dump() for item in reply.output], events[-1])
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "done"} for call in calls]
    turns = [*arguments["input"], *[item.model_dump(exclude_none=True) for item in reply.output], *results]
    final = client.responses.create(**{**arguments, "input": turns, "tool_choice": "auto"})
    report.check("responses tools: behind the results", final.output, final)


def check_message_tools(report, server):
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0)
    tools = [{"name": function["name"], "description": function.get("description", ""),
              "input_schema": function.get("parameters", {"type": "object"})} for function in FLAT]
    arguments = {"model": "any", "max_tokens": 160, "messages": [{"role": "user", "content": STORY}], "tools": tools,
                 "tool_choice": {"type": "any"}}
    reply = client.messages.create(**arguments)
    report.check("messages tools", reply.stop_reason == "tool_use" and {block.type for block in reply.content} == {"tool_use"}, reply)
    report.check("messages tools: valid", all(is_call(block.name, block.input) for block in reply.content), reply.content)
    with client.messages.stream(**arguments) as stream:
        last = stream.get_final_message()
    report.check("messages tools: streamed", [(block.name, block.input) for block in last.content]
                 == [(block.name, block.input) for block in reply.content], last)
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "done"} for block in reply.content]
    turns = [*arguments["messages"], {"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    final = client.messages.create(**{**arguments, "messages": turns, "tool_choice": {"type": "auto"}})
    report.check("messages tools: behind the results", final.stop_reason in ("end_turn", "tool_use", "max_tokens"), final)


def check_ollama_tools(report, server):
    client = ollama.Client(host=f"http://127.0.0.1:{server.port}")
    messages = [{"role": "user", "content": STORY}]
    for seed in range(4):  # the choice is the model's
        arguments = {"model": "any", "messages": messages, "tools": TOOLS,
                     "options": {"num_predict": 160, "temperature": 1.5, "seed": seed}}
        message = client.chat(**arguments).message
        calls = message.tool_calls or []
        report.check("ollama tools", all(is_call(call.function.name, dict(call.function.arguments)) for call in calls), calls)
        pieces = [piece.message for piece in client.chat(**arguments, stream=True)]
        streamed = [call for piece in pieces for call in piece.tool_calls or []]
        report.check("ollama tools: streamed", streamed == list(calls) and "".join(piece.content or "" for piece in pieces)
                     == message.content, (streamed, message))
    called = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": FLAT[0]["name"], "arguments": {}}}]}
    final = client.chat(model="any", messages=[*messages, called, {"role": "tool", "content": "done", "tool_name": FLAT[0]["name"]}],
                        tools=TOOLS, options={"num_predict": 64})
    report.check("ollama tools: behind the results", final.done, final)


def expected_chat(server):
    return server.client().chat.completions.create(model="any", messages=[{"role": "user", "content": STORY}],
                                                   max_tokens=32).choices[0].message.content


def check_responses(report, server, text):
    client = server.client()
    reply = client.responses.create(model="any", input=STORY, max_output_tokens=32, store=False)
    report.check("responses text", reply.output_text == text, reply.output_text)
    report.check("responses status", reply.status == "completed" and reply.usage.output_tokens > 0, reply.status)
    events = list(client.responses.create(model="any", input=[{"role": "user", "content": STORY}], max_output_tokens=32,
                                          stream=True))
    report.check("responses stream", "".join(event.delta for event in events
                                             if event.type == "response.output_text.delta") == text)
    report.check("responses events", (events[0].type, events[-1].type) == ("response.created", "response.completed"))
    report.check("responses last", events[-1].response.output_text == text)
    form = {"format": {"type": "json_schema", "name": "form", "schema": SCHEMAS[0], "strict": True}}
    answer = client.responses.create(model="any", input=STORY, max_output_tokens=96, text=form).output_text
    jsonschema.validate(json.loads(answer), SCHEMAS[0])
    try:
        client.responses.create(model="any", input=STORY, previous_response_id="resp_1")
        report.check("responses refuse", False)
    except openai.BadRequestError as error:
        report.check("responses refuse", error.body["param"] == "previous_response_id", error.body)


def check_anthropic(report, server, text):
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0)
    arguments = {"model": "any", "max_tokens": 32, "messages": [{"role": "user", "content": STORY}]}
    reply = client.messages.create(**arguments)
    report.check("messages text", reply.content[0].text == text, reply.content)
    report.check("messages stop", reply.stop_reason == "end_turn" and reply.usage.output_tokens > 0)
    with client.messages.stream(**arguments) as stream:
        streamed = "".join(stream.text_stream)
        last = stream.get_final_message()
    report.check("messages stream", streamed == text == last.content[0].text, streamed)
    report.check("messages stream usage", last.usage.output_tokens == reply.usage.output_tokens)
    stopped = client.messages.create(**arguments, stop_sequences=["answer"])
    report.check("messages stop sequence", (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "answer"))
    try:
        client.messages.create(**arguments, tools=[{"name": "", "input_schema": {"type": "object"}}])
        report.check("messages refuse", False)
    except anthropic.BadRequestError as error:
        report.check("messages refuse", error.body["error"]["message"].startswith("tools"), error.body)


def check_ollama(report, server, text):
    client = ollama.Client(host=f"http://127.0.0.1:{server.port}")
    options = {"num_predict": 32, "temperature": 0}
    messages = [{"role": "user", "content": STORY}]
    reply = client.chat(model="any", messages=messages, options=options)
    report.check("ollama chat", reply.message.content == text and reply.done, reply)
    pieces = list(client.chat(model="any", messages=messages, options=options, stream=True))
    report.check("ollama chat stream", "".join(piece.message.content for piece in pieces) == text)
    report.check("ollama done", pieces[-1].done and pieces[-1].eval_count == reply.eval_count, pieces[-1])
    report.check("ollama generate", client.generate(model="any", prompt=STORY, options=options).response == text)
    streamed = "".join(piece.response for piece in client.generate(model="any", prompt=STORY, options=options, stream=True))
    report.check("ollama generate stream", streamed == text, streamed)
    formed = client.chat(model="any", messages=messages, options={"num_predict": 96}, format=SCHEMAS[0])
    jsonschema.validate(json.loads(formed.message.content), SCHEMAS[0])
    report.check("ollama list", client.list().models[0].size > 0)
    report.check("ollama ps", [model.size > 0 for model in client.ps().models] == [True], client.ps())
    known = client.chat(model="any", messages=messages, options=options, logprobs=True, top_logprobs=2)
    report.check("ollama logprobs", "".join(entry.token for entry in known.logprobs) == text
                 and all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in known.logprobs), known.logprobs)
    report.check("ollama show", client.show("any").capabilities)
    try:
        client.chat(model="any", messages=messages, options={"num_predict": -3})
        report.check("ollama refuse", False)
    except ollama.ResponseError as error:
        report.check("ollama refuse", error.status_code == 400 and "options.num_predict" in error.error, error.error)


def check_langchain(report, server, text):
    for uses_responses in (False, True):
        model = langchain_openai.ChatOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", model="any",
                                            max_tokens=32, temperature=0, max_retries=0, use_responses_api=uses_responses)
        name = f"langchain {'responses' if uses_responses else 'chat'}"
        report.check(name, model.invoke(STORY).text == text, model.invoke(STORY))
        streamed = "".join(chunk.text for chunk in model.stream(STORY))
        report.check(f"{name} stream", streamed == text, streamed)


def check_llama_cpp(report, server):
    status, reply = server.post("/completion", {"prompt": STORY, "n_predict": 16})
    report.check("completion", status == 200 and reply["stop"] and reply["content"], reply)
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/completion",
                                     json.dumps({"prompt": STORY, "n_predict": 16, "stream": True}).encode())
    with urllib.request.urlopen(request, timeout=60) as stream:
        chunks = [json.loads(line[6:]) for line in stream.read().decode().split("\n") if line.startswith("data: ")]
    report.check("completion stream", "".join(chunk["content"] for chunk in chunks) == reply["content"], chunks)
    report.check("completion end", chunks[-1]["stop"] and chunks[-1]["stop_type"] == reply["stop_type"], chunks[-1])


def check_manners(report, server):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/models", headers={"X-Request-Id": "mine-1"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        report.check("request id", reply.headers["X-Request-Id"] == "mine-1")
    preflight = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/messages", method="OPTIONS", headers={
        "Access-Control-Request-Headers": "x-api-key, anthropic-version, x-stainless-lang, cookie"})
    with urllib.request.urlopen(preflight, timeout=60) as reply:
        report.check("preflight", reply.headers["Access-Control-Allow-Headers"] == "x-api-key, anthropic-version, x-stainless-lang")
    api = json.loads(server.get("/openapi.json")[1])
    report.check("openapi", {"/v1/responses", "/v1/messages", "/api/chat", "/completion"} <= set(api["paths"]))
    report.check("docs", "docs.js" in server.get("/docs")[1])
    status, reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": STORY}], "max_tokens": 16,
                                                         "logprobs": True, "top_logprobs": 4, "lacuna": {"step_map": True}})
    content = reply["choices"][0]["logprobs"]["content"]
    report.check("alternatives", all(len(token["top_logprobs"]) == 4 and token["top_logprobs"][0]["id"] == token["id"]
                                     for token in content))
    report.check("step map", reply["choices"][0]["lacuna"]["step_map"] == [token["step"] for token in content])


def check_models(report, binary, models):
    """Two models in one server, loaded when they are asked for."""
    with Server(binary, models / "mini-llada", "-m", f"quick={models / 'mini-qwen'}", "--kv-memory", "64") as server:
        client = server.client()
        report.check("models", [model.id for model in client.models.list()] == ["mini-llada", "quick"])
        for name in ("quick", "mini-llada", "quick"):
            reply = client.chat.completions.create(model=name, messages=[{"role": "user", "content": STORY}], max_tokens=16)
            report.check(f"model {name}", reply.model == name and reply.choices[0].message.content, reply)
        try:
            client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": STORY}])
            report.check("unknown model", False)
        except openai.NotFoundError as error:
            report.check("unknown model", "mini-llada" in error.body["message"] and "quick" in error.body["message"])
    report.check("models stop cleanly", server.status == 0, server.status)


def check_cancel(report, server):
    client = server.client()
    stream = client.completions.create(model="any", prompt=STORY, max_tokens=800, stream=True,
                                       extra_body={"lacuna": {"events": True}})
    next(iter(stream))
    stream.close()
    begin = time.monotonic()
    while json.loads(server.get("/slots")[1]) and time.monotonic() < begin + 20:
        time.sleep(0.02)
    report.check("cancelled place", time.monotonic() < begin + 10, time.monotonic() - begin)


def send(port, data, seconds=30):
    """Sends bytes from a raw client and returns the reply, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        heard = b""
        try:
            while piece := client.recv(65536):
                heard += piece
        except OSError:
            pass
        return heard


def check_hostile(report, server):
    before = server.memory()
    report.check("large body", b" 413 " in send(server.port, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                                                b"100000000\r\n\r\n" + b"a" * 10**6)[:20])
    report.check("header flood", b" 431 " in send(server.port, b"GET / HTTP/1.1\r\n" + b"".join(
        b"A%d: b\r\n" % i for i in range(10**5)))[:20])
    report.check("nonsense", b" 400 " in send(server.port, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")[:20])
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    for client in idle:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nX: ")
    report.check("alive with slow clients", server.get("/health")[0] == 200)
    for client in idle:
        client.close()
    report.check("memory", server.memory() < before + (200 << 20), (before, server.memory()))


def check_infill(report, server):
    status, reply = server.post("/v1/infill", {"input": ["Mia has ", {"hole": 2}, " shells. She <|mdm_mask|> ",
                                                         {"hole": {"min": 1, "max": 2}}, "."]})
    text = reply["choices"][0]["text"] if status == 200 else reply
    report.check("infill", status == 200 and text.startswith("Mia has ") and " shells. She <|mdm_mask|> " in text, text)


def check_likelihood(report, server):
    client = server.client()
    reply = client.completions.create(model="any", prompt=STORY, max_tokens=1, logprobs=1, echo=True, temperature=0,
                                      seed=1234)
    logprobs = reply.choices[0].logprobs
    report.check("likelihood", logprobs.token_logprobs[0] is None and all(x <= 0 for x in logprobs.token_logprobs[1:]))
    report.check("likelihood tops", all(max(top.values()) >= x - 1e-9 for top, x in zip(
        logprobs.top_logprobs[1:-1], logprobs.token_logprobs[1:-1])))


def check_key(report, binary, model):
    with Server(binary, model, environment={"LACUNA_API_KEY": "secret", "LACUNA_MAX_RUNNING": "2"}) as server:
        try:
            server.client("wrong").models.list()
            report.check("wrong key", False)
        except openai.AuthenticationError:
            report.check("wrong key", True)
        report.check("right key", server.client("secret").models.list().data)
        report.check("health without key", server.get("/health")[0] == 200)
    report.check("stops cleanly", server.status == 0, server.status)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[2] / "models")
    arguments = parser.parse_args()
    report = Report()
    model = arguments.models / "mini-llada"
    with Server(arguments.binary, model) as server:
        check_chat(report, arguments.binary, model, server)
        check_completion(report, arguments.binary, model, server)
        check_errors(report, server)
        check_infill(report, server)
        check_manners(report, server)
        text = expected_chat(server)
        check_responses(report, server, text)
        check_anthropic(report, server, text)
        check_ollama(report, server, text)
        check_response_tools(report, server)
        check_message_tools(report, server)
        check_ollama_tools(report, server)
        check_langchain(report, server, text)
        check_llama_cpp(report, server)
        check_cancel(report, server)
        check_hostile(report, server)
        check_chat(report, arguments.binary, model, server)  # as if nothing had happened
        report.check("metrics", "lacuna_rows_total" in server.get("/metrics")[1])
    with Server(arguments.binary, arguments.models / "mini-qwen") as server:
        check_completion(report, arguments.binary, arguments.models / "mini-qwen", server)
        check_likelihood(report, server)
    check_key(report, arguments.binary, model)
    check_models(report, arguments.binary, arguments.models)
    check_defaults(report, arguments.binary, arguments.models)
    check_forms(report, arguments.binary, arguments.models)
    check_tools(report, arguments.binary, arguments.models)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
