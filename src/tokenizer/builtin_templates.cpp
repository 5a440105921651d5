#include "tokenizer/builtin_templates.h"

#include <algorithm>

namespace lacuna {
namespace {

// LLaDA: bos, then a header with the role, a blank line and the trimmed content for each turn.
constexpr std::string_view kLlada =
    R"({%- if messages -%}{{ bos_token if bos_token is defined else '<|startoftext|>' }}{%- endif -%}
{%- for turn in messages -%}
{{ '<|start_header_id|>' + turn.role + '<|end_header_id|>\n\n' + turn.content | trim + '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%})";

// ChatML: role, newline, untrimmed content.
constexpr std::string_view kChatMl = R"({%- for turn in messages -%}
{{ '<|im_start|>' + turn.role + '\n' + turn.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%})";

// Nemotron 3: ChatML that always has a system turn, and a thought (empty by default) before each answer.
// Answers before the last question lose their thoughts.
constexpr std::string_view kNemotron = R"({%- set last = namespace(question=0) -%}
{%- for turn in messages -%}
{%- if turn.role == 'user' -%}{%- set last.question = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- if not messages or messages[0].role != 'system' -%}{{ '<|im_start|>system\n<|im_end|>\n' }}{%- endif -%}
{%- for turn in messages -%}
{{ '<|im_start|>' + turn.role + '\n' }}
{%- if turn.role == 'assistant' -%}
{%- set begins = '<think>' in turn.content -%}
{%- set ends = '</think>' in turn.content -%}
{%- if (begins or ends) and not (begins and ends and loop.index0 < last.question) -%}
{{ turn.content | trim }}
{%- else -%}
{%- set answer = turn.content.split('</think>')[-1] -%}
{{ '<think></think>' }}{{ answer.rstrip() if answer | trim else '' }}
{%- endif -%}
{%- else -%}
{{ turn.content }}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n<think>' }}
{%- if enable_thinking is defined and enable_thinking -%}{{ '\n' }}{%- else -%}{{ '</think>' }}{%- endif -%}
{%- endif -%})";

// Seed-Coder: turns in the form that other engines render.
constexpr std::string_view kSeedCoder = R"({%- set begin = '<[begin▁of▁sentence]>' -%}
{%- set end = '<[end▁of▁sentence]>' -%}
{%- if not messages or messages[0].role != 'system' -%}
{{ begin + 'system\nYou are an AI programming assistant, utilizing the Seed-Coder model, developed by ByteDance Seed, and you only answer questions related to computer science. For politically sensitive questions, security and privacy issues, and other non-computer science questions, you will refuse to answer.\n\n' + end }}
{%- endif -%}
{%- for turn in messages -%}
{{ begin + turn.role + '\n' + turn.content + ('\n\n' if turn.role == 'system' else '') + end }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ begin + 'assistant\n' }}{%- endif -%})";

// Gemma 4: trimmed contents; the assistant's role is "model", and its thoughts are dropped.
constexpr std::string_view kGemma = R"({{- '<bos>' -}}
{%- for turn in messages -%}
{%- set answer = namespace(text=turn.content) -%}
{%- if turn.role == 'assistant' -%}
{%- set answer.text = '' -%}
{%- for part in turn.content.split('<channel|>') -%}
{%- set answer.text = answer.text + part.split('<|channel>')[0] -%}
{%- endfor -%}
{%- endif -%}
{{ '<|turn>' + ('model' if turn.role == 'assistant' else turn.role) + '\n' }}{{ answer.text | trim }}{{ '<turn|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|turn>model\n' }}{%- endif -%})";

constexpr std::array<std::string_view, 3> kLladaTokens = {"<|start_header_id|>", "<|end_header_id|>",
                                                          "<|eot_id|>"};
constexpr std::array<std::string_view, 2> kChatMlTokens = {"<|im_start|>", "<|im_end|>"};
constexpr std::array<std::string_view, 2> kSeedCoderTokens = {"<[begin▁of▁sentence]>", "<[end▁of▁sentence]>"};
constexpr std::array<std::string_view, 3> kGemmaTokens = {"<bos>", "<|turn>", "<turn|>"};

constexpr std::array kBuiltIn = {BuiltInTemplate{"llada", kLlada, kLladaTokens},
                                 BuiltInTemplate{"chatml", kChatMl, kChatMlTokens},
                                 BuiltInTemplate{"nemotron", kNemotron, kChatMlTokens},
                                 BuiltInTemplate{"seed-coder", kSeedCoder, kSeedCoderTokens},
                                 BuiltInTemplate{"gemma", kGemma, kGemmaTokens}};

}  // namespace

const BuiltInTemplate* find_built_in_template(std::string_view name) {
  const auto* found = std::ranges::find(kBuiltIn, name, &BuiltInTemplate::name);
  return found == kBuiltIn.end() ? nullptr : found;
}

}  // namespace lacuna
