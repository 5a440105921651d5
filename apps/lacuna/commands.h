// The subcommands. Each function adds one to the program, which runs it if its name was typed.
#pragma once

#include <CLI/CLI.hpp>

namespace lacuna {

void add_run_command(CLI::App& program);
void add_chat_command(CLI::App& program);
void add_infill_command(CLI::App& program);
void add_decide_command(CLI::App& program);
void add_batch_command(CLI::App& program);
void add_replay_command(CLI::App& program);
void add_logits_command(CLI::App& program);
void add_tokenize_command(CLI::App& program);
void add_inspect_command(CLI::App& program);
void add_pull_command(CLI::App& program);
void add_list_command(CLI::App& program);
void add_merge_command(CLI::App& program);
void add_quantize_command(CLI::App& program);
void add_pack_command(CLI::App& program);
void add_serve_command(CLI::App& program);
void add_mcp_command(CLI::App& program);
void add_eval_command(CLI::App& program);
void add_compare_command(CLI::App& program);
void add_tune_command(CLI::App& program);
void add_bench_command(CLI::App& program);
void add_plan_command(CLI::App& program);
void add_analyze_command(CLI::App& program);
// Commands about the program itself:
void add_help_command(CLI::App& program);
void add_completion_command(CLI::App& program);
void add_man_command(CLI::App& program);

}  // namespace lacuna
