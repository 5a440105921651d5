"""Asks `lacuna serve` through the libraries and with the requests of programs that people use already.

    python check_more_clients.py LACUNA_BINARY [--models FOLDER] [--only NAME ...] [--all]

litellm, LangChain, Pydantic AI, Instructor, LlamaIndex, ollama and anthropic, each where it is installed (requirements-more-clients.txt
has all): README's question, its answer as a stream, an answer in a form, and a call of a tool. Then what a chat page in front of Ollama's
API asks for (`chat_page` below), the requests of coding agents (`fixtures/`), whose replies are judged in `turns.py`, and a turn of aider,
where that program is on the PATH (it wants other versions, so an environment of its own has it). The models that
ship were not taught to call tools, so calls are required where the API can say so, and their arguments are checked. --all: a library
that is missing fails, too. --only runs a part of it, and each part says when it begins. Exit status 0 when nothing failed.
"""
import argparse
import asyncio
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import typing
import urllib.request
from pathlib import Path

# Nothing but the server is asked: no lists of prices, no traces.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false",
                  ANONYMIZED_TELEMETRY="false", DO_NOT_TRACK="1")

import pydantic  # noqa: E402

import turns  # noqa: E402
from check_server import STORY, Report, Server  # noqa: E402

ANSWER = "12+7=19. 19-5=14. The answer is 14."
QUESTION = [{"role": "user", "content": STORY}]


class Shells(pydantic.BaseModel):
    """The shells that somebody has."""

    model_config = pydantic.ConfigDict(extra="forbid")
    shells: int
    owner: typing.Literal["Mia", "Sam"]


ADD_PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
                  "additionalProperties": False}
ADD = {"type": "function", "function": {"name": "add", "description": "Adds two integers.", "parameters": ADD_PARAMETERS}}


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def is_addition(name, arguments):
    values = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
    return name == "add" and set(values) == {"a", "b"} and all(type(value) is int for value in values.values())


def litellm(report, base):
    import litellm

    litellm.telemetry, litellm.suppress_debug_info = False, True
    for route, address in (("openai", f"{base}/v1"), ("anthropic", base), ("ollama_chat", base)):
        name = f"litellm {route}"
        arguments = {"model": f"{route}/any", "api_base": address, "api_key": "none", "messages": QUESTION, "temperature": 0,
                     "num_retries": 0}
        text = litellm.completion(**arguments, max_tokens=32).choices[0].message.content
        report.check(f"{name} answers", text == ANSWER, text)
        streamed = "".join(chunk.choices[0].delta.content or ""
                           for chunk in litellm.completion(**arguments, max_tokens=32, stream=True))
        report.check(f"{name} streams", streamed == ANSWER, streamed)
        formed = litellm.completion(**arguments, max_tokens=160, response_format=Shells).choices[0].message.content
        report.check(f"{name} has the form", Shells.model_validate_json(formed), formed)
        if route != "ollama_chat":  # which cannot require a call
            message = litellm.completion(**arguments, max_tokens=160, tools=[ADD], tool_choice="required").choices[0].message
            calls = message.tool_calls or []
            report.check(f"{name} calls", calls and all(is_addition(call.function.name, call.function.arguments)
                                                        for call in calls), message)
            results = [{"role": "tool", "tool_call_id": call.id, "content": "19"} for call in calls]
            last = litellm.completion(**{**arguments, "messages": [*QUESTION, message.model_dump(exclude_none=True), *results]},
                                      max_tokens=160, tools=[ADD]).choices[0].message
            report.check(f"{name} continues", last.content or last.tool_calls, last)
    reply = litellm.responses(model="openai/any", api_base=f"{base}/v1", api_key="none", input=STORY, max_output_tokens=32)
    report.check("litellm responses", reply.output[-1].content[0].text == ANSWER, reply)


def langchain(report, base):
    from langchain_openai import ChatOpenAI

    for uses_responses in (False, True):
        name = f"langchain {'responses' if uses_responses else 'chat'}"
        chat = ChatOpenAI(base_url=f"{base}/v1", api_key="none", model="any", max_retries=0, max_tokens=160, temperature=0,
                          use_responses_api=uses_responses)
        report.check(f"{name} answers", chat.invoke(STORY).text == ANSWER, chat.invoke(STORY))
        streamed = "".join(chunk.text for chunk in chat.stream(STORY))
        report.check(f"{name} streams", streamed == ANSWER, streamed)
        for method in ("json_schema", "function_calling"):
            formed = chat.with_structured_output(Shells, method=method).invoke(STORY)
            report.check(f"{name} has the form by {method}", isinstance(formed, Shells), formed)
        answer = chat.bind_tools([add], tool_choice="required").invoke(STORY)
        calls = answer.tool_calls
        report.check(f"{name} calls", calls and all(is_addition(call["name"], call["args"]) for call in calls), answer)


def pydantic_ai(report, base):
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def ask(kind, create):
        settings = {"max_tokens": 160, "temperature": 0}
        model = create()
        text = (await Agent(model, model_settings=settings).run(STORY)).output
        report.check(f"{kind} answers", text == ANSWER, text)
        async with Agent(model, model_settings=settings).run_stream(STORY) as stream:
            streamed = await stream.get_output()
        report.check(f"{kind} streams", streamed == ANSWER, streamed)
        for output in (NativeOutput(Shells), ToolOutput(Shells)):
            formed = (await Agent(model, output_type=output, model_settings=settings).run(STORY)).output
            report.check(f"{kind} has the form by {type(output).__name__}", isinstance(formed, Shells), formed)
        # An output that is a function is called by the model, with what the schema allows.
        total = (await Agent(model, output_type=add, model_settings=settings).run(STORY)).output
        report.check(f"{kind} calls", type(total) is int, total)
        # Tools next to an answer in words: whether one is called is the model's choice.
        last = (await Agent(model, tools=[add], model_settings=settings, instructions="Be brief.").run(STORY)).output
        report.check(f"{kind} may call", isinstance(last, str), last)

    def openai_provider():
        return OpenAIProvider(base_url=f"{base}/v1", api_key="none")

    # Not its models of Anthropic's API, which fail with anthropic 1 and 2 before they ask anything.
    for kind, create in (("pydantic-ai chat", lambda: OpenAIChatModel("any", provider=openai_provider())),
                         ("pydantic-ai responses", lambda: OpenAIResponsesModel("any", provider=openai_provider()))):
        asyncio.run(ask(kind, create))


def instructor(report, base):
    import anthropic
    import instructor
    import openai

    # Not Mode.JSON, which asks for any object and shows the schema to the model, which no model that ships has learned to read.
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0), mode=mode)
        arguments = {"model": "any", "messages": QUESTION, "response_model": Shells, "max_tokens": 160, "max_retries": 1}
        formed = client.chat.completions.create(**arguments)
        report.check(f"instructor {mode}", isinstance(formed, Shells), formed)
        last = list(client.chat.completions.create_partial(**arguments))[-1]
        # The streamed function has another name and description, so the values may be others.
        report.check(f"instructor {mode} streams", type(last.shells) is int and last.owner in ("Mia", "Sam"), last)
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=base, api_key="none", max_retries=0))
    formed = client.messages.create(model="any", messages=QUESTION, response_model=Shells, max_tokens=160, max_retries=1)
    report.check("instructor anthropic", isinstance(formed, Shells), formed)


def llama_index(report, base):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(model="any", api_base=f"{base}/v1", api_key="none", is_chat_model=True, is_function_calling_model=True,
                       context_window=1024, max_tokens=160, temperature=0, max_retries=0)
    messages = [ChatMessage(role="user", content=STORY)]
    report.check("llama-index answers", model.chat(messages).message.content == ANSWER, model.chat(messages))
    streamed = "".join(piece.delta or "" for piece in model.stream_chat(messages))
    report.check("llama-index streams", streamed == ANSWER, streamed)
    report.check("llama-index completes", model.complete(STORY).text == ANSWER, model.complete(STORY))
    formed = model.as_structured_llm(Shells).chat(messages).raw
    report.check("llama-index has the form", isinstance(formed, Shells), formed)
    reply = model.chat_with_tools([FunctionTool.from_defaults(add)], user_msg=STORY, tool_required=True)
    calls = model.get_tool_calls_from_response(reply, error_on_no_tool_call=False)
    report.check("llama-index calls", calls and all(is_addition(call.tool_name, call.tool_kwargs) for call in calls), reply)


def ollama(report, base):
    import ollama

    client = ollama.Client(host=base)
    options = {"num_predict": 160, "temperature": 0}
    arguments = {"model": "any", "messages": QUESTION, "options": options}
    text = client.chat(**arguments, keep_alive="5m", think=False).message.content
    report.check("ollama answers", text == ANSWER, text)
    streamed = "".join(piece.message.content or "" for piece in client.chat(**arguments, stream=True))
    report.check("ollama streams", streamed == ANSWER, streamed)
    formed = client.chat(**arguments, format=Shells.model_json_schema()).message.content
    report.check("ollama has the form", Shells.model_validate_json(formed), formed)
    message = client.chat(**arguments, tools=[add]).message  # the choice is the model's
    report.check("ollama may call", message.content or message.tool_calls, message)
    report.check("ollama calls", all(is_addition(call.function.name, call.function.arguments)
                                     for call in message.tool_calls or []), message)


def anthropic(report, base):
    import anthropic

    client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
    arguments = {"model": "any", "messages": QUESTION, "max_tokens": 160}
    counted = client.messages.count_tokens(model="any", messages=QUESTION).input_tokens
    reply = client.messages.create(**arguments)
    report.check("anthropic answers", reply.content[0].text == ANSWER, reply)
    report.check("anthropic counts", counted == reply.usage.input_tokens > 0, (counted, reply.usage))
    with client.messages.stream(**arguments) as stream:
        report.check("anthropic streams", "".join(stream.text_stream) == ANSWER)
    formed = client.messages.parse(**arguments, output_format=Shells)
    report.check("anthropic has the form", isinstance(formed.parsed_output, Shells), formed)
    tools = [{"name": "add", "description": "Adds two integers.", "input_schema": ADD_PARAMETERS}]
    called = client.messages.create(**arguments, tools=tools, tool_choice={"type": "any"})
    report.check("anthropic calls", called.content and all(is_addition(block.name, block.input) for block in called.content), called)


def chat_page(report, base):
    """The requests that a chat page in front of Ollama's API asks for: which models there are, an answer, then a title and tags for it."""
    def ask(path, body=None):
        request = urllib.request.Request(f"{base}{path}", None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.headers.get("X-Lacuna-Ignored") or "", reply.read().decode()

    report.check("page: version", json.loads(ask("/api/version")[1])["version"].count(".") >= 1)
    listed = [model["model"] for model in json.loads(ask("/api/tags")[1])["models"]]
    report.check("page: the same models", listed == [model["id"] for model in json.loads(ask("/v1/models")[1])["data"]], listed)
    shown = json.loads(ask("/api/show", {"model": listed[0]})[1])
    report.check("page: show", {"completion", "tools"} <= set(shown["capabilities"]) and shown["details"] and shown["model_info"],
                 shown)
    report.check("page: loaded", listed[0] in [model["model"] for model in json.loads(ask("/api/ps")[1])["models"]])

    body = {"model": listed[0], "messages": [{"role": "system", "content": "Be brief."}, *QUESTION], "stream": True,
            "options": {"temperature": 0, "num_ctx": 1024, "num_predict": 64}, "keep_alive": "5m",
            "metadata": {"chat_id": "1", "user_id": "1"}}
    ignored, text = ask("/api/chat", body)
    pieces = [json.loads(line) for line in text.splitlines()]
    answer = "".join(piece["message"]["content"] for piece in pieces)
    report.check("page: chat", answer and [piece["done"] for piece in pieces] == [False] * (len(pieces) - 1) + [True], pieces)
    report.check("page: numbers", pieces[-1]["eval_count"] > 0 and pieces[-1]["total_duration"] > 0
                 and pieces[-1]["done_reason"] in ("stop", "length"), pieces[-1])
    report.check("page: left out", {"keep_alive", "metadata", "options.num_ctx"} == set(ignored.split(", ")), ignored)

    talk = f"<chat_history>\nUSER: {STORY}\nASSISTANT: {answer}\n</chat_history>"
    task = [{"role": "user", "content": "Write a title as JSON: {\"title\": \"...\"}\n" + talk}]
    reply = json.loads(ask("/api/chat", {"model": listed[0], "messages": task, "stream": False, "format": "json",
                                         "options": {"num_predict": 100}, "metadata": {"task": "title_generation"}})[1])
    report.check("page: title", isinstance(json.loads(reply["message"]["content"]), dict) and reply["done"], reply)
    reply = json.loads(ask("/v1/chat/completions", {"model": listed[0], "messages": task, "stream": False,
                                                    "max_completion_tokens": 100, "metadata": {"task": "tags_generation"}})[1])
    report.check("page: tags", reply["choices"][0]["message"]["content"] and reply["usage"]["total_tokens"] > 0, reply)


def aider(report, base):
    """One turn of the program about a file; its prompt may have more tokens than the small models have positions."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calc.py"
        file.write_text("def add(a, b):\n    return a - b\n")
        run = subprocess.run(
            ["aider", "--model", "openai/any", "--openai-api-base", f"{base}/v1", "--openai-api-key", "none", "--no-git", "--yes-always",
             "--no-pretty", "--no-show-model-warnings", "--no-check-update", "--analytics-disable", "--no-gitignore",
             "--edit-format", "whole", "--map-tokens", "0", "--message", "Add the numbers.", file.name],
            cwd=folder, env={**os.environ, "HOME": folder}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    is_told = re.search(r"Tokens: [\d.]+k? sent, \d+ received", run.stdout)
    report.check("aider has an answer", run.returncode == 0 and is_told, run.stdout[-2000:] + run.stderr[-500:])


#: The package that has to be installed, and what is asked through it.
CLIENTS = {"litellm": litellm, "langchain_openai": langchain, "pydantic_ai": pydantic_ai, "instructor": instructor,
           "llama_index": llama_index, "ollama": ollama, "anthropic": anthropic}

#: A model whose answer README shows, and models that have the positions for an agent's turns.
ANSWERING, AGENTS = "mini-llada", ("mini-sdar", "mini-fast-dllm")


def attempt(report, name, check, *arguments):
    """One library that raises does not keep the others from being asked."""
    print(f"{name} ...", flush=True)
    begin = time.monotonic()
    try:
        check(report, *arguments)
    except Exception:  # noqa: BLE001: whatever a library raises is the finding
        report.check(name, False, traceback.format_exc(limit=-3))
    print(f"{name}: {time.monotonic() - begin:.0f} s, {report.passed} passed so far, {report.failed} failed", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[2] / "models")
    parser.add_argument("--only", nargs="+", choices=[*CLIENTS, "chat_page", *AGENTS, "aider"])
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    chosen = arguments.only or [*CLIENTS, "chat_page", *AGENTS, "aider"]
    report = Report()

    def ask(model, name, check, *rest):
        with Server(arguments.binary, arguments.models / model) as server:
            attempt(report, name, check, *rest, f"http://127.0.0.1:{server.port}")

    for name in chosen:
        if name in CLIENTS and importlib.util.find_spec(name):
            ask(ANSWERING, name, CLIENTS[name])
        elif name in CLIENTS and arguments.all:
            report.check(name, False, "is not installed")
        elif name == "chat_page":
            ask(ANSWERING, name, chat_page)
        elif name in AGENTS:
            ask(name, f"agents of {name}", turns.check_all, name)
        elif name == "aider" and shutil.which(name):
            ask(AGENTS[0], name, aider)
        else:
            print(f"skipped: {name} is not installed", flush=True)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
