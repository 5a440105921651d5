#include <algorithm>
#include <array>
#include <ctime>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

using Function = Value (*)(Runtime& runtime, const Arguments& arguments);

struct GlobalFunction final : Callable {
  std::string_view name;
  Function function = nullptr;

  Value call(Runtime& runtime, const Arguments& arguments) override {
    runtime.step();
    return function(runtime, arguments);
  }
  std::string description() const override { return fmt::format("<function {}>", name); }
};

constexpr int64_t kMaxRange = 100000;  // jinja2's sandbox has the same bound

Value make_range(Runtime& runtime, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (!arguments.named.empty() || given.empty() || given.size() > 3) fail("range() takes 1 to 3 ints");
  std::array<int64_t, 3> bounds = {0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i) {
    bounds[given.size() == 1 ? 1 : i] = integer_of(given[i], "an argument of range()");
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) fail("the step of range() is 0");
  auto range = std::make_shared<Sequence>();
  range->kind = Sequence::Kind::kRange;
  range->start = start;
  range->stop = stop;
  range->step = step;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    runtime.step();
    if (static_cast<int64_t>(range->items.size()) == kMaxRange)
      fail("range() has more than {} items", kMaxRange);
    range->items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::of(std::shared_ptr<const Sequence>(std::move(range)));
}

// dict(pairs or dictionary, name=value ...)
std::shared_ptr<const Dict> dict_of(Runtime& runtime, const Arguments& arguments, std::string_view function) {
  if (arguments.positional.size() > 1) fail("{}() takes at most one value without a name", function);
  DictBuilder builder(runtime);
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    expect_defined(source);
    if (source.is_dict()) {
      runtime.step(source.as_dict().items.size());
      for (const auto& [key, value] : source.as_dict().items) builder.set(key, value);
    } else {
      Iterator iterator(runtime, source);
      for (Value pair; iterator.next(pair);) {
        const std::vector<Value> parts = items_of(runtime, pair);
        if (parts.size() != 2) fail("{}() takes pairs; one has {} parts", function, parts.size());
        builder.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) builder.set(Value::literal(name), value);
  return builder.take();
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  return Value::of(dict_of(runtime, arguments, "dict"));
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  const std::shared_ptr<const Dict> members = dict_of(runtime, arguments, "namespace");
  auto made = std::make_shared<Namespace>();
  runtime.keep(made);
  for (const auto& [key, value] : members->items) {
    if (key.is_text()) made->set(runtime, key.as_text().bytes, value);
  }
  return Value::of(std::move(made));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Value message = to_text(runtime, *arguments.bind("raise_exception", {"message"}, 1)[0]);
  const std::string_view text = message.as_text().bytes;
  constexpr size_t kMaxMessage = 1000;
  const std::string_view start = text.substr(0, kMaxMessage);
  fail("the template refuses this conversation: {}", start.substr(0, well_formed_prefix(start)));
}

// Length of a directive of strftime(): flags, a width of at most two digits, and a letter.
size_t directive_bytes(std::string_view text) {
  size_t at = 1;
  while (at < text.size() && std::string_view("-_0^#").find(text[at]) != std::string_view::npos) ++at;
  const size_t width = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  if (at - width > 2) fail("strftime_now(): a width has more than two digits");
  if (at < text.size() && (text[at] == 'E' || text[at] == 'O')) ++at;
  return std::min(at + 1, text.size());
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Text& format =
      text_of(*arguments.bind("strftime_now", {"format"}, 1)[0], "the format of strftime_now()");
  const std::time_t seconds = runtime.now();
  std::tm time{};
  if (localtime_r(&seconds, &time) == nullptr) fail("strftime_now(): the time cannot be written as a date");
  std::string result;
  const std::string_view text = format.bytes;
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    result += text.substr(at, percent - at);
    at = percent;
    if (at == text.size()) break;
    const std::string directive(text.substr(at, directive_bytes(text.substr(at))));
    at += directive.size();
    runtime.step();
    if (directive == "%f") {
      result += "000000";
    } else if (directive != "%z" && directive != "%Z" && directive != "%:z") {  // empty without a zone
      std::array<char, 512> buffer{};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      result.append(buffer.data(), std::strftime(buffer.data(), buffer.size(), directive.c_str(), &time));
#pragma GCC diagnostic pop
    }
    runtime.check_size(result.size());
  }
  return Value::text(runtime, make_text(runtime, result, format.has_input()));
}

// cycler(values): next() returns the values in turn, cyclically.
struct Cycler final : Callable {
  std::vector<Value> values;
  size_t at = 0;

  Value call(Runtime& /*runtime*/, const Arguments& /*arguments*/) override {
    fail("a cycler is called by its next()");
  }
  std::string description() const override { return "<Cycler>"; }
  Value attribute(Runtime& runtime, std::string_view name) const override;
};

struct CyclerStep final : Callable {
  Value cycler;
  bool resets = false;

  Value call(Runtime& /*runtime*/, const Arguments& arguments) override {
    arguments.bind("next", {});
    Cycler& self = static_cast<Cycler&>(cycler.as_callable());
    const size_t at = self.at;
    self.at = resets ? 0 : (at + 1) % self.values.size();
    return resets ? Value() : self.values[at];
  }
  std::string description() const override { return "<method of Cycler>"; }
};

Value Cycler::attribute(Runtime& runtime, std::string_view name) const {
  if (name == "current") return values[at];
  if (name != "next" && name != "reset") return Callable::attribute(runtime, name);
  auto step = std::make_shared<CyclerStep>();
  // The rendering keeps every cycler, so this pointer owns nothing.
  step->cycler = Value::of(std::shared_ptr<Callable>(std::shared_ptr<void>(), const_cast<Cycler*>(this)));
  step->resets = name == "reset";
  return Value::of(std::shared_ptr<Callable>(std::move(step)));
}

Value make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail("cycler() takes values without names");
  auto cycler = std::make_shared<Cycler>();
  cycler->values = arguments.positional;
  for (const Value& value : cycler->values) hold(*cycler, value);
  runtime.keep(cycler);
  return Value::of(std::shared_ptr<Callable>(std::move(cycler)));
}

// joiner(separator): the first call returns "", later ones the separator.
struct Joiner final : Callable {
  Value separator;
  bool was_called = false;

  Value call(Runtime& /*runtime*/, const Arguments& arguments) override {
    arguments.bind("joiner", {});
    return std::exchange(was_called, true) ? separator : Value::literal("");
  }
  std::string description() const override { return "<Joiner>"; }
};

Value make_joiner(Runtime& /*runtime*/, const Arguments& arguments) {
  const auto bound = arguments.bind("joiner", {"sep"});
  auto joiner = std::make_shared<Joiner>();
  joiner->separator = bound[0] == nullptr ? Value::literal(", ") : *bound[0];
  hold(*joiner, joiner->separator);
  return Value::of(std::shared_ptr<Callable>(std::move(joiner)));
}

constexpr std::array<std::pair<std::string_view, Function>, 7> kFunctions = {
    {{"cycler", make_cycler},
     {"dict", make_dict},
     {"joiner", make_joiner},
     {"namespace", make_namespace},
     {"raise_exception", raise_exception},
     {"range", make_range},
     {"strftime_now", strftime_now}}};

}  // namespace

std::optional<Value> find_function(std::string_view name) {
  const auto* found = std::ranges::find_if(kFunctions, [&](const auto& each) { return each.first == name; });
  if (found == kFunctions.end()) return std::nullopt;
  auto function = std::make_shared<GlobalFunction>();
  function->name = found->first;
  function->function = found->second;
  return Value::of(std::shared_ptr<Callable>(std::move(function)));
}

}  // namespace lacuna::jinja
