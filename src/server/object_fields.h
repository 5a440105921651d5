// Known members of the objects within request bodies; unknown ones are reported.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "server/request_fields.h"

namespace lacuna {

/// One kind of object. Names in lists are separated by spaces.
struct ObjectFields {
  std::string_view path;        ///< "tools.*.function"; * matches each element of a list
  std::string_view types;       ///< accepted values of "type", "?" for a missing one; empty: all
  std::string_view names;       ///< members that are read or cannot change an answer
  std::string_view hints = {};  ///< members that are ignored, and reported
};

/// The objects of each API.
extern const std::span<const ObjectFields> kOpenAiObjects, kResponsesObjects, kMessagesObjects,
    kOllamaObjects;

/// Adds hints and unknown members of a body's objects to GenerationRequest::left_out and ::unknown. A hint in
/// a list's element is reported by its name alone ("cache_control"), others by their place ("text.verbosity",
/// "tools.0.function.parametres"). Each is reported once per list. Objects of unlisted types are skipped.
///   fields    fields of the body; rows for other fields are skipped
///   is_shown  whether the chat template shows a message's member; such members are not reported; may be
///   empty
void note_object_fields(const nlohmann::ordered_json& body, std::span<const ObjectFields> objects,
                        RequestFields fields, const std::function<bool(std::string_view)>& is_shown,
                        GenerationRequest& request);

}  // namespace lacuna
