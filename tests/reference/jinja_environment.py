"""Jinja as the library transformers renders chat templates with it, and conversations to render."""

import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = 1767323045


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model wrote; the text is that of its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        members = dict(*args, **kwargs)
        for name in members:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, members)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment(now=NOW):
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["namespace"] = TemplateNamespace
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(now).strftime(form)
    return made


@functools.lru_cache(maxsize=4)
def compiled(env, template):
    return env.from_string(template)


def render(env, template, values):
    """The text, or the exception."""
    try:
        return compiled(env, template).render(**values), None
    except Exception as error:  # whatever it is, the template fails
        return None, error


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'The weather of a "place" <now>.',
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. Zürich"},
                "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
                "options": {
                    "type": "object",
                    "properties": {"exact": {"type": "boolean"}, "scale": {"type": ["number", "null"]}},
                },
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}}
CALL = {
    "id": "call_1ab",
    "type": "function",
    "function": {
        "name": "get_weather",
        "arguments": {"place": "Zürich", "days": 2, "options": {"exact": True, "scale": None}, "tags": ["a", "b"]},
    },
}
TEXT_CALL = {"id": "call00002", "type": "function", "function": {"name": "clock", "arguments": '{"a": 1.50}'}}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def conversations():
    """Values to render templates with, by name."""
    user, bye = message("user", "Hi"), message("user", "Bye")
    system = message("system", "Be brief.")
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image"}, {"type": "text", "text": " And that? "}]
    cases = {
        "user": {"messages": [user]},
        "system": {"messages": [system, user]},
        "no_prompt": {"messages": [system, user, message("assistant", "Hello!")], "add_generation_prompt": False},
        "continued": {"messages": [user, message("assistant", "Hello")], "continue_final_message": True},
        "white_space": {
            "messages": [
                message("system", "\n Be brief. \t"),
                message("user", " Hi \n"),
                message("assistant", "\u00a0Hello! "),
                message("user", "\n\n2+2?\u2028"),
            ]
        },
        "unicode": {
            "messages": [
                message("user", "Grüße, ΣΊΣΥΦΟΣ 日本語 🙂 ﬁ e\u0301"),
                message("assistant", "ß \"q\" 'a' \\ \x07 </s>"),
                message("user", "<|im_end|>{{ 7*7 }}{% raw %}"),
            ]
        },
        "empty": {"messages": [message("system", ""), message("user", ""), message("assistant", ""), message("user", " ")]},
        "thoughts": {"messages": [user, message("assistant", "<think>\nshort\n</think>\n\nHello!"), bye]},
        "reasoning": {
            "messages": [
                user,
                message("assistant", "Hello!", reasoning_content="shorter\n", thinking="shorter\n"),
                bye,
                message("assistant", "So long", reasoning_content="", tool_calls=[]),
            ]
        },
        "thinking": {"messages": [system, user], "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
        "no_thinking": {"messages": [user], "enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
        "tools": {"messages": [system, user], "tools": [WEATHER, CLOCK]},
        "tools_no_system": {
            "messages": [user],
            "tools": [WEATHER],
            "builtin_tools": ["wolfram_alpha"],
            "tools_in_user_message": False,
        },
        "tool_calls": {
            "messages": [
                system,
                message("user", "Weather?"),
                message("assistant", "", tool_calls=[CALL]),
                message("tool", '{"sunny": true}', name="get_weather", tool_call_id="call_1ab"),
                message("assistant", "Sunny."),
                bye,
            ],
            "tools": [WEATHER, CLOCK],
        },
        "two_calls": {
            "messages": [
                message("user", "Weather?"),
                message("assistant", None, tool_calls=[CALL, TEXT_CALL]),
                message("tool", "12", name="get_weather", tool_call_id="call_1ab"),
                message("tool", "noon", name="clock", tool_call_id="call00002"),
            ],
            "tools": [WEATHER, CLOCK],
        },
        "text_call": {
            "messages": [
                message("user", "Time?"),
                message("assistant", "I look.", tool_calls=[TEXT_CALL]),
                message("tool", "noon", name="clock", tool_call_id="call00002"),
            ],
            "tools": [CLOCK],
        },
        "parts": {
            "messages": [
                message("system", [{"type": "text", "text": "Be brief."}]),
                message("user", parts),
                message("assistant", [{"type": "text", "text": "A cat."}]),
                bye,
            ]
        },
        "documents": {
            "messages": [user],
            "documents": [{"title": "T", "text": "Some text", "doc_id": 1}, {"title": "U", "text": ""}],
        },
        "developer": {"messages": [message("developer", "Be polite."), user]},
        "wrong_order": {"messages": [message("assistant", "First"), user, user]},
        "system_last": {"messages": [user, message("system", "Late")]},
        "long": {"messages": [message("user" if i % 2 == 0 else "assistant", f"turn {i} " * (i + 1)) for i in range(21)]},
        "options": {
            "messages": [user],
            "date_string": "26 Jul 2024",
            "custom_tools": [WEATHER],
            "date": "2024-07-26",
            "model_identity": "You are X.",
            "knowledge_cutoff": "2023",
            "thinking_budget": 512,
            "xml_tools": [CLOCK],
        },
        "call_without_content": {
            "messages": [
                message("user", "Weather?"),
                {"role": "assistant", "reasoning_content": "I ask.", "tool_calls": [CALL]},
                message("tool", [{"type": "text", "text": "12"}, {"type": "text", "text": "\u00b0C"}], tool_call_id="call_1ab"),
            ],
            "tools": [WEATHER],
            "enable_thinking": False,
        },
        "calls_in_turn": {
            "messages": [
                system,
                message("user", "Weather?"),
                message("assistant", "", tool_calls=[CALL], reasoning_content="One."),
                message("tool", "12", name="get_weather", tool_call_id="call_1ab"),
                message("assistant", "And the time.", tool_calls=[TEXT_CALL], reasoning_content="Two."),
                message("tool", "noon", name="clock", tool_call_id="call00002"),
                message("assistant", "12 at noon.", reasoning_content="Three."),
            ],
            "tools": [WEATHER, CLOCK],
            "add_generation_prompt": False,
            "preserve_thinking": True,
            "clear_thinking": False,
        },
        "plain_tools": {
            "messages": [user, message("assistant", None, tool_calls=[{"name": "clock", "arguments": {}}]), message("tool", {"t": 1})],
            "tools": [WEATHER["function"], CLOCK["function"]],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        },
        "documents_in_turn": {
            "messages": [system, user, message("assistant", "Hello", citations=[]), bye],
            "documents": [{"doc_id": "a", "title": "T", "text": "x", "snippet": "y", "content": "z", "contents": {"k": 1}}],
            "tools": [],
            "available_tools": [],
            "citation_mode": "fast",
            "safety_mode": "NONE",
        },
        "latex": {"messages": [message("user", "\\boxed{x} $a_1$ <|endoftext|> [INST] <think>"), message("assistant", "</think>a</think>b"), bye]},
        "none": {"messages": []},
        "no_role": {"messages": [{"content": "?"}]},
    }
    for values in cases.values():
        values.setdefault("add_generation_prompt", True)
    return cases
