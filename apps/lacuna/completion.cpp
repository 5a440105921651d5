// `lacuna completion SHELL`: a script that completes commands, flags and values in a shell. All names come
// from the commands themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "command_list.h"
#include "commands.h"
#include "help.h"
#include "terminal.h"
#include "words.h"

namespace lacuna {
namespace {

/// A command and all commands below it, parents first.
std::vector<const CLI::App*> all_commands(const CLI::App& command) {
  std::vector<const CLI::App*> all = {&command};
  for (const CLI::App* each : commands_of(command)) {
    for (const CLI::App* inner : all_commands(*each)) all.push_back(inner);
  }
  return all;
}

/// Completions after a command: its subcommands and the first names of its flags.
std::vector<std::string> words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* each : commands_of(command)) words.push_back(each->get_name());
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    for (const std::string& choice : choices_of(*option)) words.push_back(choice);
  }
  for (const CLI::Option* option : options_of(command)) {
    if (!option->get_lnames().empty()) words.push_back("--" + option->get_lnames().front());
  }
  return words;
}

/// Puts a text in single quotes for a shell; `escape` replaces quotes within.
std::string quoted(const std::string& text, std::string_view escape) {
  std::string result = "'";
  for (const char& c : text) result += c == '\'' ? escape : std::string_view(&c, 1);
  return result + "'";
}

/// In bash, the words that are not flags select the command; the previous word selects the values.
std::string bash_script(const CLI::App& program) {
  std::string words_of, values_of;
  std::vector<std::string> paths;
  for (const CLI::App* command : all_commands(program)) {
    const std::string path = path_of(*command);
    if (!path.empty()) paths.push_back("'" + path + "'");
    words_of += fmt::format("    '{}') words='{}'{} ;;\n", path, fmt::join(words_after(*command), " "),
                            takes_files(*command) ? " takes_files=1" : "");
    for (const CLI::Option* option : options_of(*command)) {
      if (is_flag(*option)) continue;
      const std::vector<std::string> choices = choices_of(*option);
      for (const std::string& name : names_of_flag(*option, true)) {
        values_of +=
            fmt::format("    '{} {}') is_value=1 words='{}' ;;\n", path, name, fmt::join(choices, " "));
      }
    }
  }
  return fmt::format(R"(# bash completion for lacuna
_lacuna() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local path='' words='' is_value='' takes_files='' next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${{path:+$path }}${{COMP_WORDS[i]}}"
    case $next in
      {} | 'help '*) path=$next ;;
      *) break ;;
    esac
  done
  case $path in help | 'help '*) path=${{path#help}} path=${{path# }} ;; esac
  case "$path $previous" in
{}  esac
  COMPREPLY=()
  if [[ -n $is_value ]]; then
    if [[ -n $words ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    else
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return
  fi
  case $path in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ -n $takes_files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _lacuna lacuna
)",
                     fmt::join(paths, " | "), values_of, words_of);
}

std::string fish_script(const CLI::App& program) {
  std::string script = "# fish completion for lacuna\ncomplete -c lacuna -f\n";
  for (const CLI::App* command : all_commands(program)) {
    const std::string path = path_of(*command);
    std::string condition = "__fish_use_subcommand";
    if (!path.empty()) {
      condition.clear();
      for (const CLI::App* each = command; each->get_parent() != nullptr; each = each->get_parent()) {
        condition = fmt::format("__fish_seen_subcommand_from {}{}{}", each->get_name(),
                                condition.empty() ? "" : "; and ", condition);
      }
    }
    for (const CLI::App* each : commands_of(*command)) {
      script += fmt::format("complete -c lacuna -n '{}' -a {} -d {}\n", condition, each->get_name(),
                            quoted(each->get_description(), "\\'"));
    }
    for (const CLI::Option* option : options_of(*command)) {
      script += fmt::format("complete -c lacuna -n '{}'", condition);
      for (const std::string& name : option->get_snames()) script += " -s " + name;
      if (!option->get_lnames().empty()) script += " -l " + option->get_lnames().front();
      const std::vector<std::string> choices = choices_of(*option);
      if (!choices.empty()) {
        script += fmt::format(" -x -a '{}'", fmt::join(choices, " "));
      } else if (!is_flag(*option)) {
        script += " -r -F";
      }
      script += fmt::format(" -d {}\n", quoted(option->get_description(), "\\'"));
    }
    if (takes_files(*command)) script += fmt::format("complete -c lacuna -n '{}' -F\n", condition);
  }
  return script;
}

/// Escapes a text for a zsh _arguments specification, where brackets and colons are special.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_function_of(const CLI::App& command) {
  const std::string path = path_of(command);
  std::string name = path.empty() ? "_lacuna" : "_lacuna_" + path;
  for (char& c : name) c = c == ' ' || c == '-' ? '_' : c;
  return name;
}

std::string zsh_script(const CLI::App& program) {
  std::string script = "#compdef lacuna\n# zsh completion for lacuna\n";
  for (const CLI::App* command : all_commands(program)) {
    script += fmt::format("\n{}() {{\n", zsh_function_of(*command));
    const std::vector<const CLI::App*> inner = commands_of(*command);
    if (!inner.empty()) script += "  local curcontext=$curcontext state line\n";
    script += "  _arguments -C";
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& name : names_of_flag(*option, false)) {
        const std::vector<std::string> choices = choices_of(*option);
        const std::string value = is_flag(*option)  ? ""
                                  : choices.empty() ? ":value:_files"
                                                    : fmt::format(":value:({})", fmt::join(choices, " "));
        script += " \\\n    " +
                  quoted(fmt::format("{}[{}]{}", name, zsh_text(option->get_description()), value), "'\\''");
      }
    }
    if (inner.empty()) {
      if (takes_files(*command)) script += " \\\n    '*:word:_files'";
      script += "\n}\n";
      continue;
    }
    script +=
        " \\\n    '1: :->command' '*:: :->rest'\n  case $state in\n    command)\n      local -a commands=(\n";
    for (const CLI::App* each : inner) {
      script +=
          "        " + quoted(each->get_name() + ":" + zsh_text(each->get_description()), "'\\''") + "\n";
    }
    script += "      )\n      _describe command commands ;;\n    rest)\n      case $line[1] in\n";
    for (const CLI::App* each : inner) {
      script += fmt::format("        {}) {} ;;\n", each->get_name(), zsh_function_of(*each));
    }
    script += "      esac ;;\n  esac\n}\n";
  }
  return script + "\ncompdef " + zsh_function_of(program) + " lacuna\n";
}

}  // namespace

void add_completion_command(CLI::App& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      program.add_subcommand("completion", "Print a script that completes commands in a shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &program] {
    const bool is_bash = *shell == "bash";
    print_data("{}", is_bash           ? bash_script(program)
                     : *shell == "zsh" ? zsh_script(program)
                                       : fish_script(program));
  });
}

}  // namespace lacuna
