// The page at "/", embedded in the program: cmake/embed.cmake converts the files of this folder into
// page_files.cpp.
#pragma once

#include "server/service_settings.h"

namespace lacuna {

/// The page's files by path: index.html at "/", other HTML files at their names without the suffix ("/docs"),
/// every other file at its name ("/page.css").
StaticFiles page_files();

}  // namespace lacuna
