#include "server/failure.h"

#include "base/budget.h"
#include "base/error.h"
#include "base/exception_text.h"
#include "engine/scheduler.h"
#include "options/names.h"
#include "server/api_error.h"
#include "server/settings.h"

namespace lacuna {
namespace {

int status_of(SchedulingError::Reason reason) {
  if (reason == SchedulingError::Reason::kTooLarge) return 400;
  if (reason == SchedulingError::Reason::kTooManyFromClient) return 429;
  return reason == SchedulingError::Reason::kReplacing ? 409 : 503;
}

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& api) {
    return {api.status(), api.what(), api.field()};
  } catch (const SchedulingError& refusal) {
    return {status_of(refusal.reason()), refusal.what()};
  } catch (const WorkCancelled& cancelled) {
    return {503, cancelled.reason() == WorkCancelled::Reason::kStopped
                     ? "the server is stopping"
                     : "the request took longer than this server gives one; expected a shorter prompt or a "
                       "smaller schema"};
  } catch (const FieldError& field) {
    return {400, field.what(), field.field()};
  } catch (const InputError& input) {
    return {400, sentence_of(input, request_name)};
  } catch (const std::bad_alloc& memory) {
    return {503, lacuna::text_of(memory)};
  } catch (const std::exception& other) {
    return {500, other.what()};
  }
}

}  // namespace

Failure describe_failure(const std::exception_ptr& error) {
  Failure failure = failure_of(error);
  failure.sentence = cut_middle(failure.sentence);
  return failure;
}

}  // namespace lacuna
