#include "server/reply_work.h"

#include <exception>
#include <string_view>
#include <utility>

#include "base/exception_text.h"
#include "server/api_error.h"

namespace lacuna {

void work_on(HttpReply& reply, Budget::Observer* observer, const std::function<void()>& work) {
  try {
    try {
      Budget::Limits limits = reply.work_limits();
      limits.observer = observer;
      const Budget budget("the request", limits);
      work();
    } catch (const ApiError& error) {
      reply.send({error.status(), "application/json"}, error_json(error.status(), error.what()).dump());
    } catch (const std::exception& error) {
      reply.send({500, "application/json"}, error_json(500, text_of(error)).dump());
    }
  } catch (const std::exception&) {
    reply.abandon();
  }
}

void refuse_work(HttpReply& reply) {
  try {
    constexpr std::string_view kSentence =
        "the server has too much to do, or too little memory, to read this request now; try again later";
    reply.send({503, "application/json"}, error_json(503, kSentence).dump());
  } catch (const std::exception&) {
    reply.abandon();
  }
}

std::function<void(std::function<void()>)> worker_of(const std::shared_ptr<HandlerPool>& pool,
                                                     const std::string& client,
                                                     const std::shared_ptr<HttpReply>& reply) {
  return [client, weak_pool = std::weak_ptr(pool), weak = std::weak_ptr(reply)](std::function<void()> work) {
    const std::shared_ptr<HandlerPool> handlers = weak_pool.lock();
    const std::shared_ptr<HttpReply> answered = weak.lock();
    if (handlers == nullptr || answered == nullptr) return;
    handlers->add({client, 0,
                   [answered, work = std::move(work)](Budget::Observer& observer) {
                     work_on(*answered, &observer, work);
                   },
                   [answered] { refuse_work(*answered); }});
  };
}

}  // namespace lacuna
