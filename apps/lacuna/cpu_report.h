// The page of `lacuna report cpu`: what the kernels reach on this machine beside what it could reach.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// The page and its picture from what one run measured.
///   name  of the page, of its raw rows and of its picture: "cpu", "cpu_avx2"
///   rows  objects with "kind" and what the bench of that kind gives: "matmul", "quantised", "attention",
///         "steps" (one for each number of threads), "load"; first one with machine and commit, "setting"
std::vector<PageFile> write_cpu_page(const std::string& name,
                                     const std::vector<nlohmann::ordered_json>& rows);

/// `lacuna report cpu`: unlike other reports it measures everything anew, as ratios must come from one run.
///   commit  what the program was built from
void add_cpu_report(CLI::App& report, std::string (*commit)());

}  // namespace lacuna
