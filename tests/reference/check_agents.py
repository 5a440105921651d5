"""Lets libraries for agents call tools through `lacuna serve`: langchain-openai and openai-agents, each where it is installed.

    python check_agents.py LACUNA_BINARY [--models FOLDER]

The models that ship were not taught to call tools, so calls are required, and the arguments are checked, not the answers. Exit
status 0 when nothing failed; "skipped" without either library.
"""
import argparse
import asyncio
import importlib.util
import sys
from pathlib import Path

from check_server import STORY, Report, Server

MODELS = ["mini-llada", "mini-sdar"]


def check_langchain(report, name, server):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    chat = ChatOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", model="any", max_retries=0, max_tokens=160,
                      temperature=0)
    calling = chat.bind_tools([add], tool_choice="required", parallel_tool_calls=False)
    messages = [HumanMessage(STORY)]
    answer = calling.invoke(messages)
    report.check(f"{name} langchain calls", len(answer.tool_calls) == 1 and not answer.invalid_tool_calls, answer)
    call = answer.tool_calls[0]
    total = add.invoke(call["args"])
    report.check(f"{name} langchain runs the tool", total == call["args"]["a"] + call["args"]["b"], call)

    whole = None
    for chunk in calling.stream(messages):
        whole = chunk if whole is None else whole + chunk
    report.check(f"{name} langchain streams", whole.tool_calls == answer.tool_calls, (whole, answer))

    messages += [answer, ToolMessage(str(total), tool_call_id=call["id"])]
    final = chat.bind_tools([add]).invoke(messages)
    report.check(f"{name} langchain continues", isinstance(final.content, str) and (final.content or final.tool_calls), final)


def check_openai_agents(report, name, server):
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    seen = []

    @agents.function_tool
    def add(a: int, b: int) -> int:
        """Adds two integers."""
        seen.append((a, b))
        return a + b

    async def ask():
        client = AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
        model = agents.OpenAIChatCompletionsModel("any", client)
        settings = agents.ModelSettings(tool_choice="required", parallel_tool_calls=False, max_tokens=160, temperature=0)
        agent = agents.Agent(name="counts", instructions="Be brief.", model=model, tools=[add], model_settings=settings)
        answer = await agents.Runner.run(agent, STORY, max_turns=6)  # after the first call the choice is the model's
        streamed = agents.Runner.run_streamed(agent, STORY, max_turns=6)
        async for _ in streamed.stream_events():
            pass
        await client.close()
        return answer.final_output, streamed.final_output

    answer, streamed = asyncio.run(ask())
    report.check(f"{name} agents run the tool", len(seen) >= 2 and len(seen) % 2 == 0, seen)
    report.check(f"{name} agents stream", answer == streamed and isinstance(answer, str), (answer, streamed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[2] / "models")
    arguments = parser.parse_args()
    checks = [check for library, check in (("langchain_openai", check_langchain), ("agents", check_openai_agents))
              if importlib.util.find_spec(library)]
    if not checks:
        print("skipped: neither langchain-openai nor openai-agents is installed")
        return 0
    report = Report()
    for name in MODELS:
        with Server(arguments.binary, arguments.models / name) as server:
            for check in checks:
                check(report, name, server)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
