// The Python module lacuna._core: the C++ interface, one to one. The package around it (lacuna/) is what
// users see. C++ threads call Python with the GIL, and Python waits for them without it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/session_access.h"
#include "api/tools.h"
#include "base/json.h"
#include "engine/result.h"
#include "eval/bound.h"
#include "eval/evaluate.h"
#include "eval/interval.h"
#include "lacuna/lacuna.hpp"
#include "options/names.h"
#include "tasks/tasks.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T>
using Array = nb::ndarray<nb::numpy, T>;

/// A NumPy array that owns the values.
template <typename T>
Array<T> array_of(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return Array<T>(owned->data(), shape, owner);
}

template <typename T>
Array<T> array_of(std::span<const T> values) {
  return array_of(std::vector<T>(values.begin(), values.end()), {values.size()});
}

/// A pass for Python callbacks: copies, because Python code may keep them.
struct Pass {
  int32_t step = 0;
  std::string kind;
  std::vector<lacuna::TokenId> canvas;
  int32_t prompt_tokens = 0;
  int32_t final_tokens = 0;
  std::vector<lacuna::Commit> committed;
  int64_t rows = 0;
  double seconds = 0;
};

Pass copy_of(const lacuna::PassEvent& event) {
  return {event.step,
          std::string(event.kind),
          {event.canvas.begin(), event.canvas.end()},
          event.prompt_tokens,
          event.final_tokens,
          {event.committed.begin(), event.committed.end()},
          event.rows,
          event.seconds};
}

/// Number of engine threads that are in Python or about to enter it. The interpreter would terminate them at
/// its end, so at exit no more threads may enter, and the exit waits for those inside.
std::atomic<int> threads_inside = 0;
std::atomic<bool> is_ending = false;

/// Scope of an engine thread in Python; holds the GIL unless the interpreter is ending.
class Visit {
 public:
  Visit() {
    ++threads_inside;
    if (!is_ending) gil_.emplace();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    gil_.reset();
    --threads_inside;
  }

  explicit operator bool() const { return gil_.has_value(); }

 private:
  std::optional<nb::gil_scoped_acquire> gil_;
};

void end_visits() {
  is_ending = true;
  const nb::gil_scoped_release release;
  while (threads_inside > 0) std::this_thread::yield();
}

/// A reference to a Python function, which any thread of the engine may release.
class Callable {
 public:
  explicit Callable(nb::object function)
      : function_(new nb::object(std::move(function)), [](nb::object* object) {
          if (const Visit visit; visit) delete object;
        }) {}

  const nb::object& operator*() const { return *function_; }

 private:
  std::shared_ptr<nb::object> function_;
};

/// A callback that calls `function`: a result of False ends the request, None continues it.
lacuna::PassCallback pass_callback(const nb::object& function) {
  if (function.is_none()) return {};
  return [callable = Callable(function)](const lacuna::PassEvent& event) {
    const Visit visit;
    if (!visit) return false;
    const nb::object answer = (*callable)(copy_of(event));
    return answer.is_none() || nb::cast<bool>(answer);
  };
}

lacuna::UnmaskFunction unmask_function(const nb::object& function) {
  if (function.is_none()) return {};
  return [callable = Callable(function)](const lacuna::Candidates& candidates) {
    const Visit visit;
    if (!visit) return std::vector<int32_t>{candidates.position.front()};
    const nb::object chosen = (*callable)(array_of(candidates.position), array_of(candidates.token),
                                          array_of(candidates.probability), array_of(candidates.entropy),
                                          array_of(candidates.margin), candidates.age);
    return nb::cast<std::vector<int32_t>>(chosen);
  };
}

lacuna::Request make_request(const nb::object& prompt, const lacuna::Options& options,
                             std::vector<std::string> stop, const nb::object& unmask,
                             const std::string& tools) {
  lacuna::Request request;
  if (nb::isinstance<nb::str>(prompt)) {
    request.prompt = nb::cast<std::string>(prompt);
  } else if (nb::isinstance<nb::list>(prompt) && nb::len(prompt) > 0 &&
             nb::isinstance<lacuna::Message>(prompt[0])) {
    request.messages = nb::cast<std::vector<lacuna::Message>>(prompt);
  } else {
    request.tokens = nb::cast<std::vector<lacuna::TokenId>>(prompt);
  }
  request.options = options;
  request.stop = std::move(stop);
  request.unmask = unmask_function(unmask);
  if (tools.empty()) return request;
  const auto given = lacuna::parse_ordered_json(tools, "the request");
  for (const auto& [key, value] : given.items()) lacuna::read_tool_key("the request", key, value, request);
  return request;
}

void bind_values(nb::module_& m) {
  nb::class_<lacuna::Message>(m, "Message")
      .def(nb::init<std::string, std::string>(), "role"_a, "content"_a)
      .def_rw("role", &lacuna::Message::role)
      .def_rw("content", &lacuna::Message::content);
  nb::class_<lacuna::Commit>(m, "Commit", "A position of the canvas got its token.")
      .def_ro("position", &lacuna::Commit::position)
      .def_ro("token", &lacuna::Commit::token)
      .def_ro("confidence", &lacuna::Commit::confidence)
      .def("__repr__", [](const lacuna::Commit& commit) {
        return nb::str("Commit(position={}, token={}, confidence={:.3g})")
            .format(commit.position, commit.token, commit.confidence);
      });
  nb::class_<Pass>(m, "Pass", "What one forward pass did for a request.")
      .def_ro("step", &Pass::step)
      .def_ro("kind", &Pass::kind)
      .def_prop_ro(
          "canvas", [](const Pass& pass) { return array_of(std::span<const int32_t>(pass.canvas)); },
          nb::rv_policy::automatic)
      .def_ro("prompt_tokens", &Pass::prompt_tokens)
      .def_ro("final_tokens", &Pass::final_tokens)
      .def_ro("committed", &Pass::committed)
      .def_ro("rows", &Pass::rows)
      .def_ro("seconds", &Pass::seconds);
  nb::class_<lacuna::Statistics>(m, "Statistics", "What a request cost.")
      .def_ro("steps", &lacuna::Statistics::steps)
      .def_ro("forward_passes", &lacuna::Statistics::forward_passes)
      .def_ro("rows", &lacuna::Statistics::rows)
      .def_ro("rows_baseline", &lacuna::Statistics::rows_baseline)
      .def_ro("flops", &lacuna::Statistics::flops)
      .def_ro("flops_baseline", &lacuna::Statistics::flops_baseline)
      .def_ro("seconds", &lacuna::Statistics::seconds)
      .def_ro("tokens_per_second", &lacuna::Statistics::tokens_per_second);
  nb::class_<lacuna::Answer>(m, "Answer")
      .def_prop_ro("text",
                   [](const lacuna::Answer& answer) {
                     // The text may end in an incomplete UTF-8 character.
                     return nb::steal<nb::str>(PyUnicode_DecodeUTF8(
                         answer.text.data(), static_cast<Py_ssize_t>(answer.text.size()), "replace"));
                   })
      .def_prop_ro(
          "message_json",
          [](const lacuna::Answer& answer) {
            return lacuna::dump_json(lacuna::to_json(lacuna::read_tool_answer(answer)));
          },
          "The answer as the next message of its conversation, with its tool_calls.")
      .def_prop_ro(
          "tokens",
          [](const lacuna::Answer& answer) { return array_of(std::span<const int32_t>(answer.tokens)); },
          nb::rv_policy::automatic)
      .def_ro("prompt_tokens", &lacuna::Answer::prompt_tokens)
      .def_ro("answer_tokens", &lacuna::Answer::answer_tokens)
      .def_prop_ro("stop_reason",
                   [](const lacuna::Answer& answer) { return lacuna::name_of(answer.stop_reason); })
      .def_ro("seed", &lacuna::Answer::seed)
      .def_ro("stats", &lacuna::Answer::statistics);
  nb::class_<lacuna::ModelInfo>(m, "ModelInfo", "What is known of a loaded model.")
      .def_ro("family", &lacuna::ModelInfo::family)
      .def_ro("paradigm", &lacuna::ModelInfo::paradigm)
      .def_ro("vocab_size", &lacuna::ModelInfo::vocab_size)
      .def_ro("context", &lacuna::ModelInfo::context)
      .def_ro("num_layers", &lacuna::ModelInfo::num_layers)
      .def_ro("hidden_size", &lacuna::ModelInfo::hidden_size)
      .def_ro("weight_bytes", &lacuna::ModelInfo::weight_bytes)
      .def_ro("mask_token", &lacuna::ModelInfo::mask_token)
      .def_ro("end_tokens", &lacuna::ModelInfo::end_tokens)
      .def_ro("has_tokenizer", &lacuna::ModelInfo::has_tokenizer)
      .def_ro("can_infill", &lacuna::ModelInfo::can_infill);
}

/// A value whose destructor waits for threads that may be calling Python.
template <typename T>
class Released {
 public:
  explicit Released(T value) : value_(std::move(value)) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    const nb::gil_scoped_release release;
    value_.reset();
  }

  T* operator->() { return &*value_; }
  T& operator*() { return *value_; }

 private:
  std::optional<T> value_;
};
using Generation = Released<lacuna::Generation>;
using Session = Released<lacuna::Session>;

std::unique_ptr<Session> load(const std::string& model, const lacuna::LoadOptions& options) {
  const nb::gil_scoped_release release;
  return std::make_unique<Session>(lacuna::Session::load(model, options));
}

std::unique_ptr<Generation> start(Session& session, const lacuna::Request& request,
                                  lacuna::PassCallback on_pass) {
  const nb::gil_scoped_release release;
  return std::make_unique<Generation>(session->start(request, std::move(on_pass)));
}

void bind_session(nb::module_& m) {
  nb::class_<Generation>(m, "Generation", "A request that runs. Dropping it cancels it.")
      .def(
          "wait", [](Generation& generation) { return generation->wait(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("cancel", [](Generation& generation) { generation->cancel(); });
  nb::class_<lacuna::LoadOptions>(m, "LoadOptions")
      .def(nb::init<>())
      .def_rw("dtype", &lacuna::LoadOptions::dtype)
      .def_rw("weights", &lacuna::LoadOptions::weights)
      .def_rw("head_weights", &lacuna::LoadOptions::head_weights)
      .def_rw("kv_cache", &lacuna::LoadOptions::kv_cache)
      .def_rw("activations", &lacuna::LoadOptions::activations)
      .def_rw("device", &lacuna::LoadOptions::device)
      .def_rw("lora", &lacuna::LoadOptions::lora)
      .def_rw("guide", &lacuna::LoadOptions::guide)
      .def_rw("threads", &lacuna::LoadOptions::threads)
      .def_rw("random_seed", &lacuna::LoadOptions::random_seed)
      .def_rw("max_running", &lacuna::LoadOptions::max_running)
      .def_rw("memory", &lacuna::LoadOptions::memory)
      .def_rw("ignore_memory", &lacuna::LoadOptions::ignore_memory);
  nb::class_<Session>(m, "Session", "A loaded model. Any number of threads may use it.")
      .def_static("load", &load, "model"_a, "options"_a)
      .def_prop_ro("info", [](Session& session) { return session->info(); })
      .def(
          "start",
          [](Session& session, const nb::object& prompt, const lacuna::Options& options,
             std::vector<std::string> stop, const nb::object& callback, const nb::object& unmask,
             const std::string& tools) {
            return start(session, make_request(prompt, options, std::move(stop), unmask, tools),
                         pass_callback(callback));
          },
          "prompt"_a, "options"_a, "stop"_a, "callback"_a.none(), "unmask"_a.none(), "tools"_a)
      .def(
          "infill",
          [](Session& session, const std::string& text, const lacuna::Options& options,
             const nb::object& callback) {
            const lacuna::PassCallback on_pass = pass_callback(callback);
            const nb::gil_scoped_release release;
            return session->infill(text, options, on_pass);
          },
          "text"_a, "options"_a, "callback"_a.none())
      .def(
          "decide",
          [](Session& session, const std::string& request) {
            const nb::gil_scoped_release release;
            return session->decide(request);
          },
          "request"_a)
      .def(
          "tokenize",
          [](Session& session, const std::string& text) {
            const std::vector<lacuna::TokenId> tokens = session->tokenize(text);
            return array_of(std::span(tokens));
          },
          "text"_a)
      .def(
          "detokenize",
          [](Session& session, const std::vector<lacuna::TokenId>& tokens) {
            const std::string text = session->detokenize(tokens);
            return nb::bytes(text.data(), text.size());
          },
          "tokens"_a)
      .def(
          "render",
          [](Session& session, const std::vector<lacuna::Message>& messages) {
            const std::vector<lacuna::TokenId> tokens = session->render(messages);
            return array_of(std::span(tokens));
          },
          "messages"_a)
      .def(
          "logits",
          [](Session& session, const std::vector<lacuna::TokenId>& tokens) {
            lacuna::Logits logits;
            {
              const nb::gil_scoped_release release;
              logits = session->logits(tokens);
            }
            return array_of(std::move(logits.values),
                            {static_cast<size_t>(logits.rows), static_cast<size_t>(logits.vocab_size)});
          },
          "tokens"_a, "float32 [rows, vocab_size], owned by the array");
}

using TextToScore = std::pair<std::vector<lacuna::TokenId>, std::vector<lacuna::TokenId>>;

/// Negative log-likelihood in nats of each text's second part, given its first: see eval/bound.h.
std::vector<double> negative_log_likelihoods(Session& session, const std::vector<TextToScore>& texts,
                                             int32_t draws, uint64_t seed) {
  std::vector<lacuna::BoundText> scored;
  scored.reserve(texts.size());
  for (const auto& [given, continuation] : texts) {
    scored.push_back({given, continuation, static_cast<int64_t>(continuation.size())});
  }
  lacuna::BoundSettings settings;
  settings.draws = draws;
  settings.seed = seed;
  const lacuna::Bound bound = lacuna::bound(*lacuna::SessionAccess::model(*session), scored, settings);
  std::vector<double> nats;
  for (const lacuna::Bound::Text& text : bound.texts) nats.push_back(text.nats);
  return nats;
}

/// Binds the generated tasks: samples with prompts, and checks of answers.
void bind_tasks(nb::module_& m) {
  nb::class_<lacuna::Sample>(m, "Sample")
      .def_ro("prompt", &lacuna::Sample::prompt)
      .def_ro("answer", &lacuna::Sample::answer)
      .def_ro("hole", &lacuna::Sample::hole)
      .def_prop_ro("messages", [](const lacuna::Sample& sample) { return lacuna::messages_of(sample); });
  m.def(
      "task_samples",
      [](const std::string& name, uint64_t seed, int32_t count) {
        const lacuna::Task& task = lacuna::find_task(name);
        std::vector<lacuna::Sample> samples;
        samples.reserve(static_cast<size_t>(count));
        for (int32_t i = 0; i < count; ++i) {
          samples.push_back(task.generate(lacuna::Split::kTest, seed, static_cast<uint64_t>(i)));
        }
        return samples;
      },
      "task"_a, "seed"_a, "count"_a);
  m.def("setting_named", &lacuna::setting_named, "name"_a,
        "Resolves an alias of a setting to its name; empty for an unknown name.");
  m.def(
      "task_room", [](const std::string& name) { return lacuna::find_task(name).room({}); }, "task"_a);
  m.def(
      "is_correct",
      [](const std::string& name, const lacuna::Sample& sample, const std::string& text) {
        return lacuna::find_task(name).check(sample, text);
      },
      "task"_a, "sample"_a, "text"_a);
  m.def(
      "wilson_interval",
      [](int64_t successes, int64_t trials) {
        const lacuna::Interval interval = lacuna::wilson_interval(successes, trials);
        return std::pair(interval.low, interval.high);
      },
      "successes"_a, "trials"_a);
}

}  // namespace

NB_MODULE(_core, m) {
  m.attr("__version__") = LACUNA_VERSION;
  static nb::exception<lacuna::Error> error(m, "Error", PyExc_ValueError);
  bind_values(m);
  bind_session(m);
  m.def("negative_log_likelihoods", &negative_log_likelihoods, "session"_a, "texts"_a, "draws"_a, "seed"_a,
        nb::call_guard<nb::gil_scoped_release>());
  bind_tasks(m);
  m.def(
      "conversation",
      [](const std::string& messages) {
        return lacuna::messages_of("the prompt", lacuna::parse_ordered_json(messages, "the prompt"));
      },
      "messages"_a, "Messages from their JSON, with calls of functions and results.");
  m.def("end_visits", &end_visits,
        "Before the interpreter ends: no thread of the engine calls Python any more.");
}
