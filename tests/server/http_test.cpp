#include "server/http.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>

namespace lacuna::http_test {
namespace {

TEST(HttpReply, CountsWhatWaitsAndWhatIsWritten) {
  const auto budget = std::make_shared<ReplyBudget>(100);
  {
    HttpReply reply(budget, 50);
    reply.begin_stream("text/event-stream");
    reply.write(std::string(30, 'a'));
    EXPECT_EQ(budget->used(), 30);
    EXPECT_EQ(reply.take().data.size(), 30);
    EXPECT_EQ(budget->used(), 30);  // until it is written
    reply.write(std::string(20, 'a'));
    EXPECT_EQ(budget->used(), 50);
    EXPECT_EQ(reply.take().data.size(), 20);
    EXPECT_EQ(budget->used(), 20);
    EXPECT_TRUE(reply.take().data.empty());
    EXPECT_EQ(budget->used(), 0);
    reply.write("abc");
  }
  EXPECT_EQ(budget->used(), 0);
}

TEST(HttpReply, OverflowsWhereAStreamIsNotRead) {
  const auto budget = std::make_shared<ReplyBudget>(100);
  HttpReply reply(budget, 50);
  reply.begin_stream("text/event-stream");
  reply.write(std::string(40, 'a'));
  EXPECT_FALSE(reply.take().has_overflowed);
  reply.write(std::string(51, 'a'));
  EXPECT_TRUE(reply.take().has_overflowed);
  reply.write("more");
  EXPECT_TRUE(reply.take().data.empty());
  reply.close();
  EXPECT_EQ(budget->used(), 0);
}

TEST(HttpReply, BecomesAnErrorWhereRepliesTakeTooMuchTogether) {
  const auto budget = std::make_shared<ReplyBudget>(100);
  HttpReply first(budget, 50), second(budget, 50), third(budget, 50);
  first.send({200, "text/plain"}, std::string(70, 'a'));
  second.send({200, "text/plain"}, std::string(70, 'a'));
  EXPECT_EQ(first.take().head.status, 200);
  EXPECT_EQ(second.take().head.status, 503);
  third.begin_stream("text/event-stream");
  third.write(std::string(40, 'a'));
  EXPECT_TRUE(third.take().has_overflowed);
  first.close();
  second.close();
  third.close();
  EXPECT_EQ(budget->used(), 0);
}

TEST(HttpReply, NotifiesNobodyOnceItIsClosed) {
  HttpReply reply;
  int notified = 0;
  reply.when_ready([&] { ++notified; });
  reply.write("a");
  reply.close();
  reply.write("b");
  reply.end();
  EXPECT_EQ(notified, 1);
  EXPECT_TRUE(reply.is_closed());
}

TEST(HttpReply, DropsWhatComesAfterItsEnd) {
  HttpReply reply;
  reply.send({200, "text/plain"}, "answer");
  reply.send({500, "text/plain"}, "error");
  reply.begin_stream("text/event-stream");
  reply.write("more");
  const HttpReply::Output output = reply.take();
  EXPECT_EQ(output.head.status, 200);
  EXPECT_EQ(output.data, "answer");
}

TEST(HttpReply, ClosesAStreamInPlaceOfAnErrorAndTellsWhoWaitsForThat) {
  HttpReply reply;
  bool has_closed = false;
  reply.when_closed([&] { has_closed = true; });
  reply.begin_stream("text/event-stream");
  reply.write("data");
  reply.send({500, "text/plain"}, "error");
  EXPECT_TRUE(reply.take().has_overflowed);
  EXPECT_TRUE(reply.take().data.empty());
  reply.close();
  EXPECT_TRUE(has_closed);
}

TEST(HttpReply, OutlivesANotificationThatFails) {
  HttpReply reply;
  reply.when_ready([] { throw std::bad_alloc(); });
  reply.send({200, "text/plain"}, "answer");
  EXPECT_EQ(reply.take().data, "answer");
}

TEST(HttpReply, IsOverWhereItIsAbandoned) {
  HttpReply reply;
  reply.abandon();
  reply.send({200, "text/plain"}, "answer");
  EXPECT_TRUE(reply.take().has_overflowed);
  EXPECT_FALSE(reply.take().has_head);
}

}  // namespace
}  // namespace lacuna::http_test
