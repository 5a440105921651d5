// The page at "/", a part of the program: cmake/embed.cmake turns the files of this folder into
// page_files.cpp.
#pragma once

#include "server/service_settings.h"

namespace lacuna {

/// index.html at "/", other HTML files at their names without the suffix ("/docs"), every other file of the
/// page at its name ("/page.css").
StaticFiles page_files();

}  // namespace lacuna
