// Internal access to a session, for the Python module.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "lacuna/session.h"

namespace lacuna {

class SessionAccess {
 public:
  /// Thread-safe: passes may be submitted while the session answers requests.
  static std::shared_ptr<const BackendModel> model(const Session& session);
};

}  // namespace lacuna
