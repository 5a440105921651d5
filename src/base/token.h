// TokenId.
#pragma once

#include "lacuna/types.h"  // IWYU pragma: export
