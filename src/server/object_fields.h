// Objects within the bodies of requests, and what members each has: the others are named.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "server/request_fields.h"

namespace lacuna {

/// One kind of object. Lists of names have spaces between.
struct ObjectFields {
  std::string_view path;        ///< "tools.*.function"; * is each element of a list
  std::string_view types;       ///< of the objects that it describes, "?" without a type; empty: all
  std::string_view names;       ///< members that are read, or say nothing that an answer could depend on
  std::string_view hints = {};  ///< members that are left out
};

/// The objects of each API.
extern const std::span<const ObjectFields> kOpenAiObjects, kResponsesObjects, kMessagesObjects,
    kOllamaObjects;

/// Whether a list of names has this one.
bool has_name(std::string_view names, std::string_view name);

/// Adds members of a body's objects to GenerationRequest::left_out and ::unknown: hints of elements of lists
/// by their names alone ("cache_control"), other hints and unknown members with their place
/// ("text.verbosity", "tools.0.function.parametres"). Each is named once, whichever elements of a list have
/// it. Objects of types that no row has are skipped.
///   fields    of the body: rows of other fields are skipped
///   is_shown  whether the chat template shows a member of a message, which then is not named; may be empty
void note_object_fields(const nlohmann::ordered_json& body, std::span<const ObjectFields> objects,
                        RequestFields fields, const std::function<bool(std::string_view)>& is_shown,
                        GenerationRequest& request);

}  // namespace lacuna
