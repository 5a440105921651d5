// Work for replies on the threads of a HandlerPool.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/handler_pool.h"
#include "server/http.h"

namespace lacuna {

/// Calls `work`, which sends the reply, under a Budget of its work_limits(). What it throws becomes the
/// reply.
///   observer  of the work; null: none
void work_on(HttpReply& reply, Budget::Observer* observer, const std::function<void()>& work);

/// Sends that too many requests wait.
void refuse_work(HttpReply& reply);

/// For HttpReply::set_worker(): adds work for the reply as jobs of the pool, while both exist.
std::function<void(std::function<void()>)> worker_of(const std::shared_ptr<HandlerPool>& pool,
                                                     const std::string& client,
                                                     const std::shared_ptr<HttpReply>& reply);

}  // namespace lacuna
