// The `lacuna` program with its subcommands. Text and JSON go to standard output, everything else to standard
// error. Exit code 0: done, 1: failed, 2: wrong usage or bad input.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "help.h"
#include "kernels/dispatch.h"
#include "lacuna/version.h"
#include "options/names.h"
#include "parse_message.h"
#include "rank_job.h"
#include "suggest.h"
#include "terminal.h"
#include "words.h"

namespace {

/// The subcommands, in the order of the manual page.
constexpr void (*kCommands[])(CLI::App&) = {
    lacuna::add_run_command,      lacuna::add_chat_command,     lacuna::add_infill_command,
    lacuna::add_decide_command,   lacuna::add_batch_command,    lacuna::add_replay_command,
    lacuna::add_logits_command,   lacuna::add_tokenize_command, lacuna::add_inspect_command,
    lacuna::add_pull_command,     lacuna::add_list_command,     lacuna::add_merge_command,
    lacuna::add_quantize_command, lacuna::add_pack_command,     lacuna::add_serve_command,
    lacuna::add_mcp_command,      lacuna::add_eval_command,     lacuna::add_compare_command,
    lacuna::add_tune_command,     lacuna::add_bench_command,    lacuna::add_plan_command,
    lacuna::add_analyze_command,  lacuna::add_help_command,     lacuna::add_completion_command,
    lacuna::add_man_command};

/// Long flags may be spelled with underscores, as the published scripts spell them.
std::vector<std::string> normalised_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool only_values_follow = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--") only_values_follow = true;
    if (!only_values_follow && argument.starts_with("--")) {
      const size_t name_end = std::min(argument.find('='), argument.size());
      const auto end = argument.begin() + static_cast<std::ptrdiff_t>(name_end);
      // Flags contain no spaces: a word with one is the text of a prompt.
      if (std::find(argument.begin(), end, ' ') == end) std::replace(argument.begin(), end, '_', '-');
    }
    arguments.push_back(std::move(argument));
  }
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
  return arguments;
}

/// Describes an error on the command line and where the usage is documented.
std::string describe(const CLI::ParseError& error, const CLI::App& program) {
  std::string name = "lacuna";
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return fmt::format("{}; see {} --help", lacuna::sentence_of(error, *command), name);
}

}  // namespace

int main(int argc, char** argv) {
  // A closed output pipe ends the program silently, as is usual for filters.
  std::signal(SIGPIPE, SIG_DFL);
  lacuna::report_shortened_mapped_files();
  CLI::App program("Lacuna runs diffusion language models: it fills a canvas of masked tokens, step by step.",
                   "lacuna");
  lacuna::use_help(program);
  program.require_subcommand(1);
  program.set_version_flag("--version", [] {
    return fmt::format("lacuna {} ({}; devices: {})", LACUNA_VERSION, lacuna::default_table().name,
                       lacuna::describe_devices());
  });
  for (const auto add : kCommands) add(program);
  lacuna::take_one_word_each(program);
  // An internal command, hidden from help.
  if (argc > 1 && argv[1] == lacuna::kServeRanks) lacuna::add_serve_ranks_command(program);
  const auto end_output = [](int exit_code) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
    lacuna::print_message("lacuna: standard output cannot be written\n");
    return 1;
  };
  try {
    if (argc == 1) lacuna::print_data("{}", lacuna::help_page(program, false));
    if (argc > 1) program.parse(normalised_arguments(argc, argv));
    return end_output(0);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return end_output(program.exit(wanted));
  } catch (const CLI::ParseError& error) {
    lacuna::print_message("lacuna: {}\n", describe(error, program));
    return 2;
  } catch (const lacuna::InputError& error) {
    lacuna::print_message(
        "lacuna: {}\n",
        lacuna::cut_middle(lacuna::with_nearest_value(lacuna::sentence_of(error, lacuna::flag_name))));
    return 2;
  } catch (const std::bad_alloc&) {
    lacuna::write_to(stderr, "lacuna: there is not enough memory for what was asked\n");
    return 1;
  } catch (const std::exception& error) {
    lacuna::print_message("lacuna: {}\n", lacuna::cut_middle(error.what()));
    return 1;
  }
}
