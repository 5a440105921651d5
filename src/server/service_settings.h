// Settings of a service.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "options/options.h"
#include "server/access.h"
#include "server/audit.h"

namespace lacuna {

/// A file that the server gives to anyone, by its path: a part of the page at "/".
struct StaticFile {
  std::string_view content_type;
  std::string_view bytes;
};

/// By path ("/", "/app.js"). Nothing else is ever read for a client, so there is no path to leave a folder
/// by.
using StaticFiles = std::map<std::string, StaticFile, std::less<>>;

struct ServiceSettings {
  std::string name;            ///< of the model that start() is given, as clients see it
  std::string version;         ///< of the program
  AccessRules access;          ///< keys, allowed sites and rates
  GenerationOptions defaults;  ///< of settings that a request does not give
  StaticFiles files;
  AuditSettings audit = {};
  bool refuses_unknown_fields = false;  ///< fields that no API has; otherwise they are named in a header
};

}  // namespace lacuna
