"""Lets a model call a function, and gives it the result: python3 tools.py MODEL"""
import sys

import lacuna

ADD = {"name": "add", "description": "Adds two integers.",
       "parameters": {"type": "object", "required": ["a", "b"],
                      "properties": {"a": {"type": "integer", "maximum": 999}, "b": {"type": "integer", "maximum": 999}}}}

model = lacuna.load(sys.argv[1])
messages = [{"role": "user", "content": "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?"}]
answer = model.generate(messages, tools=[ADD], tool_choice="required", gen_length=96)
messages.append(answer.message)
for call in answer.tool_calls:
    print(call.name, call.arguments)
    result = call.arguments["a"] + call.arguments["b"]
    messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
print(model.generate(messages, tools=[ADD], gen_length=96).message["content"])
