#include "server/failure.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>

#include "base/budget.h"
#include "decode/setting_error.h"
#include "engine/scheduler.h"
#include "server/api_error.h"

namespace lacuna::failure_test {
namespace {

template <typename Error>
Failure describe(const Error& error) {
  return describe_failure(std::make_exception_ptr(error));
}

TEST(DescribeFailure, GivesEachExceptionItsStatus) {
  using Reason = SchedulingError::Reason;
  EXPECT_EQ(describe(ApiError(404, "none", "model")).status, 404);
  EXPECT_EQ(describe(ApiError(404, "none", "model")).field, "model");
  EXPECT_EQ(describe(FieldError("n", "n is 0")).status, 400);
  EXPECT_EQ(describe(FieldError("n", "n is 0")).field, "n");
  EXPECT_EQ(describe(InputError("wrong")).status, 400);
  EXPECT_EQ(describe(SchedulingError(Reason::kTooLarge, "")).status, 400);
  EXPECT_EQ(describe(SchedulingError(Reason::kTooManyFromClient, "")).status, 429);
  EXPECT_EQ(describe(SchedulingError(Reason::kQueueFull, "")).status, 503);
  EXPECT_EQ(describe(SchedulingError(Reason::kStopping, "")).status, 503);
  EXPECT_EQ(describe(BudgetSpent("schema: too much")).status, 400);
  EXPECT_EQ(describe(WorkCancelled(WorkCancelled::Reason::kStopped)).status, 503);
  EXPECT_EQ(describe(WorkCancelled(WorkCancelled::Reason::kStopped)).sentence, "the server is stopping");
  EXPECT_EQ(describe(WorkCancelled(WorkCancelled::Reason::kTooLate)).status, 503);
  EXPECT_EQ(describe(std::logic_error("bug")).status, 500);
  EXPECT_EQ(describe(std::logic_error("bug")).sentence, "bug");
}

TEST(DescribeFailure, IsBoundedWhateverItQuotes) {
  const std::string text(1'000'000, 'x');
  for (const Failure& failure :
       {describe(ApiError(404, text, text)), describe(FieldError(text, text)), describe(InputError(text)),
        describe(SettingError({text, text, text, text})), describe(std::runtime_error(text))}) {
    EXPECT_EQ(failure.sentence.size(), kMaxErrorBytes);
    EXPECT_LE(failure.field.size(), kMaxErrorBytes);
    EXPECT_LE(error_json(400, text, text).dump().size(), 2 * kMaxErrorBytes + 200);
  }
}

}  // namespace
}  // namespace lacuna::failure_test
