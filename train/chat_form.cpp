#include "train/chat_form.h"

#include <array>
#include <string>

namespace lacuna::train {
namespace {

constexpr std::string_view kRoleToken = "<role>";

constexpr std::array<std::string_view, 5> kChatMlTokens = {kStartToken, kEndToken, "<|im_start|>",
                                                           "<|im_end|>", "<|mdm_mask|>"};
constexpr std::string_view kChatMlProgram =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

constexpr std::string_view kThinkingProgram =
    R"({%- for message in messages -%}
{%- set text = message.content -%}
{%- if message.role == 'assistant' and '</think>' in text -%}
{%- set text = text.split('</think>')[-1].lstrip('\n') -%}
{%- endif -%}
{{ '<|im_start|>' + message.role + '\n' + text + '<|im_end|>\n' }}
{%- endfor -%}
{{ '<|im_start|>assistant\n' if add_generation_prompt }})";

constexpr std::string_view kAssistantProgram =
    R"({%- macro turn(role, text) -%}
{{ '<|im_start|>' + role + '\n' + text + '<|im_end|>\n' }}
{%- endmacro -%}
{{ turn('system', 'You are a helpful assistant.') if messages[0].role != 'system' }}
{%- for message in messages -%}
{{ turn(message.role, message.content) }}
{%- endfor -%}
{{ '<|im_start|>assistant\n' if add_generation_prompt }})";

constexpr std::array<std::string_view, 6> kHeaderTokens = {
    kStartToken, kEndToken, "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|mdm_mask|>"};
constexpr std::string_view kHeaderProgram =
    R"({%- macro head(role) -%}
{{ '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}
{%- endmacro -%}
{{ bos_token }}
{%- for message in messages -%}
{{ head(message.role) + message.content | trim + '<|eot_id|>' }}
{%- endfor -%}
{{ head('assistant') }})";

constexpr std::array<std::string_view, 6> kRoleTagTokens = {kStartToken, kEndToken,      kRoleToken,
                                                            "</role>",   "<|role_end|>", "<|mask|>"};
constexpr std::string_view kRoleTagProgram =
    R"({%- macro turn(name, text) -%}
{{ '<role>' + name + '</role>' + text + '<|role_end|>' }}
{%- endmacro -%}
{%- macro calls(message, text) -%}
{%- for call in message.tool_calls -%}
{%- set function = call.function or call -%}
{%- set arguments = function.arguments if function.arguments is string else function.arguments | tojson -%}
{{ '\n' if text or not loop.first }}<tool_call>
{{ '{"name": "' + function.name + '", "arguments": ' + arguments + '}' }}
</tool_call>
{%- endfor -%}
{%- endmacro -%}
{%- macro declared(tools) -%}
Functions that you can call:
<tools>
{%- for tool in tools -%}
{{ '\n' + tool | tojson }}
{%- endfor -%}
{{ '\n' }}</tools>
Call one like this:
<tool_call>
{"name": <its name>, "arguments": <a JSON object>}
</tool_call>
{% endmacro -%}
{%- set names = {'user': 'HUMAN', 'assistant': 'ASSISTANT', 'tool': 'OBSERVATION'} -%}
{%- set has_system = messages[0].role == 'system' -%}
{%- set opening = (messages[0].content + '\n' if has_system else '') + (declared(tools) if tools else '') -%}
{{ turn('SYSTEM', opening + 'detailed thinking off') }}
{%- for message in (messages[1:] if has_system else messages) -%}
{%- set text = message.content if message.content is string else '' -%}
{%- if message.role == 'assistant' -%}
{%- set text = text.split('</think>')[-1].lstrip('\n') if '</think>' in text else text -%}
{%- set text = text + calls(message, text) -%}
{%- elif message.role == 'tool' -%}
{%- set text = '\n<tool_response>\n' + text + '\n</tool_response>' -%}
{%- endif -%}
{{ turn(names.get(message.role, 'SYSTEM'), text) }}
{%- endfor -%}
{{ '<role>ASSISTANT</role>' if add_generation_prompt }})";

}  // namespace

constinit const ChatForm kChatMlForm{kChatMlTokens, kChatMlProgram},
    kThinkingForm{kChatMlTokens, kThinkingProgram}, kAssistantForm{kChatMlTokens, kAssistantProgram},
    kHeaderForm{kHeaderTokens, kHeaderProgram}, kRoleTagForm{kRoleTagTokens, kRoleTagProgram};

}  // namespace lacuna::train
