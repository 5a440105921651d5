// The whole C++ interface.
#pragma once

#include "lacuna/error.h"
#include "lacuna/session.h"
#include "lacuna/tools.h"
#include "lacuna/types.h"
#include "lacuna/version.h"
