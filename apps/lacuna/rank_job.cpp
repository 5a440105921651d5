#include "rank_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/shard/mpi.h"
#include "backend/shard/remote_model.h"
#include "backend/shard/sharded_model.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "model/locate.h"
#include "sharding.h"

namespace lacuna {
namespace {

constexpr std::chrono::milliseconds kBetweenLooksForRanks{100};
constexpr double kSecondsToEnd = 10;

/// Starts a program in its own session, so that terminal signals do not reach it, without input or inherited
/// files. The child calls only async-signal-safe functions before exec.
pid_t start_process(std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "a process for the ranks");
  if (child > 0) return child;
  setsid();
  const int null = open("/dev/null", O_RDWR);
  if (null >= 0) dup2(null, STDIN_FILENO);
  close_files_from(3);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

/// A started process with all of its descendants.
class RankJob {
 public:
  RankJob(std::vector<std::string> command, bool is_launched)
      : command_(std::move(command)), is_launched_(is_launched), child_(start_process(command_)) {}
  ~RankJob() {
    const Stopwatch clock;
    while (!has_ended()) {
      if (clock.seconds() > kSecondsToEnd) ::kill(-child_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(-child_, SIGKILL);  // a stopped rank does not notice that the others ended
    waitpid(child_, nullptr, 0);
  }
  RankJob(const RankJob&) = delete;
  RankJob& operator=(const RankJob&) = delete;

  /// Ends the processes; a launcher ends its processes on other machines. Thread-safe.
  void end() const { ::kill(-child_, is_launched_ ? SIGTERM : SIGKILL); }

  bool has_ended() const { return look().si_pid != 0; }

  std::string describe_end() const {
    const siginfo_t state = look();
    if (state.si_code != CLD_EXITED)
      return fmt::format("{} was ended by signal {}", command_[0], state.si_status);
    if (state.si_status == 127) return fmt::format("{} cannot be started", command_[0]);
    return fmt::format("{} ended with exit code {}", command_[0], state.si_status);
  }

 private:
  /// Exit state of the process. It stays a zombie until the job is destroyed, so that its process group id is
  /// not reused.
  siginfo_t look() const {
    siginfo_t state{};
    if (waitid(P_PID, static_cast<id_t>(child_), &state, WEXITED | WNOHANG | WNOWAIT) != 0)
      state.si_pid = child_;
    return state;
  }

  std::vector<std::string> command_;
  bool is_launched_;
  pid_t child_;
};

MessageSocket accept_from(const MessageListener& listener, const RankJob& job) {
  for (;;) {
    const bool has_ended =
        job.has_ended();  // read before accept(): the job may have connected and then ended
    if (std::optional<MessageSocket> socket = listener.accept(kBetweenLooksForRanks))
      return std::move(*socket);
    if (has_ended)
      throw InputError("--shard: {} before the model was loaded; its messages say why", job.describe_end());
  }
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Command line that starts the ranks.
std::vector<std::string> job_command(const ModelFlags& flags, const RankJobFlags& job,
                                     const std::string& name) {
  std::vector<std::string> command = words_of(job.launch);
  command.push_back(program_file().native());
  command.emplace_back(kServeRanks);
  command.push_back("--connect=" + name);
  command.push_back(fmt::format("--rank-timeout={}", flags.rank_timeout));
  command.push_back("--model=" + flags.model);
  command.insert(command.end(), job.arguments.begin(), job.arguments.end());
  return command;
}

std::string new_socket_name() {
  static std::atomic<int> count{0};
  return fmt::format("lacuna-{}-{}", getpid(), count++);
}

void serve_ranks(const ModelFlags& flags, const std::string& name) {
  // The server ends this process by closing the connection, not by signals.
  std::signal(SIGINT, SIG_IGN);
  if (!is_started_by_mpi()) std::signal(SIGTERM, SIG_IGN);
  LoadedModel loaded;
  std::string refusal;
  try {
    loaded = load_model(flags, find_model(flags));
  } catch (const InputError& error) {
    refusal = error.what();
  }
  RemoteConnection connection = connect_as_host(name);
  if (!refusal.empty()) return refuse_model(std::move(connection), refusal);
  host_model(*loaded.model, std::move(connection), [&] { ping_ranks(*loaded.model); });
}

}  // namespace

void add_rank_job_flags(CLI::App& command, RankJobFlags& job, ModelFlags& flags) {
  command
      .add_option(
          "--launch", job.launch,
          "Command that starts the ranks of --shard on several machines: \"mpirun -n 4 --hostfile hosts\"")
      ->group("Server");
  add_rank_timeout_flag(command, flags);
}

std::vector<std::string> loading_arguments(const CLI::App& command) {
  CLI::App loading;
  ModelFlags unused;
  add_loading_flags(loading, unused);
  std::vector<std::string> arguments;
  for (const CLI::Option* known : loading.get_options()) {
    if (known->get_lnames().empty()) continue;
    const std::string name = "--" + known->get_lnames().front();
    const CLI::Option* given = command.get_option_no_throw(name);
    if (given == nullptr || given->count() == 0 || name == "--help") continue;
    for (const std::string& value : given->results()) arguments.push_back(fmt::format("{}={}", name, value));
  }
  return arguments;
}

LoadedModel load_on_job(const ModelFlags& flags, const ModelSource& source, const RankJobFlags& job) {
  if (!job.launch.empty() && flags.ranks > 0)
    throw InputError("--ranks is {}; expected no --ranks with --launch, which says how many there are",
                     flags.ranks);
  const Stopwatch clock;
  const std::string name = new_socket_name();
  const MessageListener listener(name);
  const auto processes = std::make_shared<RankJob>(job_command(flags, job, name), !job.launch.empty());
  RemoteConnection connection;
  connection.passes = accept_from(listener, *processes);
  connection.questions = accept_from(listener, *processes);
  LoadedModel loaded;
  loaded.device = std::make_shared<const CpuDevice>(threads_of_rank(flags), false);
  loaded.model = remote_model(source.config, std::move(connection), heartbeat_timeout(flags),
                              [processes] { processes->end(); });
  loaded.load_seconds = clock.seconds();
  return loaded;
}

void add_serve_ranks_command(CLI::App& program) {
  auto flags = std::make_shared<ModelFlags>();
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      program.add_subcommand(std::string(kServeRanks), "The ranks of lacuna serve, which starts them");
  add_model_flags(*command, *flags);
  add_rank_timeout_flag(*command, *flags);
  command->add_option("--connect", *name, "Socket of the server")->required();
  command->callback([flags, name] { serve_ranks(*flags, *name); });
}

}  // namespace lacuna
