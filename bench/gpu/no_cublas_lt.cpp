// The twin of cublas_lt.cpp, where the headers of cuBLASLt are missing, and for the simulator.
#include "bench/gpu/library_product.h"

namespace lacuna::cuda {

LibraryTime time_of_library(Stream&, const LibraryProduct&, int, int) {
  return {.seconds = 0, .why_not = "this program was built without the headers of cuBLASLt"};
}

}  // namespace lacuna::cuda
