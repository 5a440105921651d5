#pragma once

#include <string>
#include <utility>

#include "tokenizer/chat_template.h"

namespace lacuna {

/// A template of one program, without special tokens.
inline ChatTemplate template_of(std::string program) {
  return ChatTemplate(
      {.programs = {{std::string(kDefaultTemplate), std::move(program)}}, .places = {"the template"}});
}

}  // namespace lacuna
