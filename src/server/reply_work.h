// Runs the work of replies on a HandlerPool.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/handler_pool.h"
#include "server/http.h"

namespace lacuna {

/// Calls `work`, which sends the reply, under a Budget with the reply's work_limits(). Exceptions become
/// error replies.
///   observer  the budget's observer; null: none
void work_on(HttpReply& reply, Budget::Observer* observer, const std::function<void()>& work);

/// Sends error 503: too many requests wait, or memory is short.
void refuse_work(HttpReply& reply);

/// A worker for HttpReply::set_worker() that adds work to the pool. Holds pool and reply weakly.
std::function<void(std::function<void()>)> worker_of(const std::shared_ptr<HandlerPool>& pool,
                                                     const std::string& client,
                                                     const std::shared_ptr<HttpReply>& reply);

}  // namespace lacuna
