// What the Python module needs of a session and its interface does not show.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "lacuna/session.h"

namespace lacuna {

class SessionAccess {
 public:
  /// Any thread may submit passes of it, at any time.
  static std::shared_ptr<const BackendModel> model(const Session& session);
};

}  // namespace lacuna
