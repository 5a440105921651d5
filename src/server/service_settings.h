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

/// A public file: a part of the page at "/".
struct StaticFile {
  std::string_view content_type;
  std::string_view bytes;
};

/// Files by path ("/", "/app.js"), all in memory, so that path traversal is impossible.
using StaticFiles = std::map<std::string, StaticFile, std::less<>>;

struct ServiceSettings {
  std::string name;            ///< name for clients of the session passed to Service::start()
  std::string version;         ///< version of the program
  AccessRules access;          ///< keys, allowed sites and rates
  GenerationOptions defaults;  ///< values of settings that a request does not give
  StaticFiles files;
  AuditSettings audit = {};
  bool refuses_unknown_fields = false;  ///< --strict-fields; otherwise a header lists unknown fields
};

}  // namespace lacuna
